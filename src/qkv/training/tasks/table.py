"""Every task by name."""

from __future__ import annotations

from qkv.training.tasks.answer import AnswerTask
from qkv.training.tasks.base import Task
from qkv.training.tasks.classify import ClassifyTask, RegressTask
from qkv.training.tasks.language import CausalTask, MaskedTask, SpansTask
from qkv.training.tasks.picture import PictureTask
from qkv.training.tasks.replaced import ReplacedTask
from qkv.training.tasks.tag import TagTask
from qkv.training.tasks.translate import TranslateTask
from qkv.training.tasks.twins import TwinsTask
from qkv.training.tasks.words import WordsTask

TASKS: dict[str, Task] = {
    "translate": TranslateTask(),
    "classify": ClassifyTask(),
    "regress": RegressTask(),
    "tag": TagTask(),
    "answer": AnswerTask(),
    "twins": TwinsTask(),
    "masked": MaskedTask(),
    "causal": CausalTask(),
    "spans": SpansTask(),
    "replaced": ReplacedTask(),
    "words": WordsTask(),
    "picture": PictureTask(),
}
