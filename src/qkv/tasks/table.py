"""Every task by name."""

from __future__ import annotations

from qkv.tasks.answer import AnswerTask
from qkv.tasks.base import Task
from qkv.tasks.classify import ClassifyTask, RegressTask
from qkv.tasks.embeddings import EmbeddingsTask
from qkv.tasks.image import ImageTask
from qkv.tasks.language import CausalTask
from qkv.tasks.mixture import MixedTask
from qkv.tasks.repair import DenoiseTask, SpansTask
from qkv.tasks.replaced import ReplacedTask
from qkv.tasks.sentences import SentencesTask
from qkv.tasks.tag import TagTask
from qkv.tasks.translate import TranslateTask
from qkv.tasks.words import WordsTask

# Those that can be parts of a mixture: they read text, and their model is one of the catalogue with other heads.
PARTS: dict[str, Task] = {
    "translate": TranslateTask(),
    "classify": ClassifyTask(),
    "regress": RegressTask(),
    "tag": TagTask(),
    "answer": AnswerTask(),
    "embeddings": EmbeddingsTask(),
    "masked": SentencesTask(),
    "causal": CausalTask(),
    "spans": SpansTask(),
    "denoise": DenoiseTask(),
}

TASKS: dict[str, Task] = {
    **PARTS,
    "replaced": ReplacedTask(),
    "words": WordsTask(),
    "image": ImageTask(),
    "mixture": MixedTask(PARTS),
}
