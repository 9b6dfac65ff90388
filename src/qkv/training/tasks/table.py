"""Every task by name."""

from __future__ import annotations

from qkv.training.tasks.answer import AnswerTask
from qkv.training.tasks.base import Task
from qkv.training.tasks.classify import ClassifyTask, RegressTask
from qkv.training.tasks.language import CausalTask
from qkv.training.tasks.mixture import MixedTask
from qkv.training.tasks.picture import PictureTask
from qkv.training.tasks.repair import DenoiseTask, SpansTask
from qkv.training.tasks.replaced import ReplacedTask
from qkv.training.tasks.sentences import SentencesTask
from qkv.training.tasks.tag import TagTask
from qkv.training.tasks.translate import TranslateTask
from qkv.training.tasks.twins import TwinsTask
from qkv.training.tasks.words import WordsTask

# Those that can be parts of a mixture: they read text, and their model is one of the catalogue with other heads.
PARTS: dict[str, Task] = {
    "translate": TranslateTask(),
    "classify": ClassifyTask(),
    "regress": RegressTask(),
    "tag": TagTask(),
    "answer": AnswerTask(),
    "twins": TwinsTask(),
    "masked": SentencesTask(),
    "causal": CausalTask(),
    "spans": SpansTask(),
    "denoise": DenoiseTask(),
}

TASKS: dict[str, Task] = {
    **PARTS,
    "replaced": ReplacedTask(),
    "words": WordsTask(),
    "picture": PictureTask(),
    "mixture": MixedTask(PARTS),
}
