"""Every task by name. To add one, write its file and add a line here; a recipe can also name "module:Class"."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from typing import Any

from qkv.common.errors import UsageError, unknown
from qkv.data.config import DataConfig
from qkv.tasks.answer import AnswerTask
from qkv.tasks.base import Task
from qkv.tasks.causal import CausalTask
from qkv.tasks.classify import ClassifyTask
from qkv.tasks.complete import CompleteTask
from qkv.tasks.denoise import DenoiseTask
from qkv.tasks.embeddings import EmbeddingsTask
from qkv.tasks.image import ImageTask
from qkv.tasks.masked import MaskedTask
from qkv.tasks.mixture import MixtureTask
from qkv.tasks.plain_lm import PlainTask
from qkv.tasks.prefix_lm import PrefixTask
from qkv.tasks.regress import RegressTask
from qkv.tasks.replaced import ReplacedTask
from qkv.tasks.spans import SpansTask
from qkv.tasks.tag import TagTask
from qkv.tasks.text_to_text import TextToTextTask
from qkv.tasks.translate import TranslateTask
from qkv.tasks.words import WordsTask

TASKS: dict[str, type[Task]] = {
    "text-to-text": TextToTextTask,
    "translate": TranslateTask,
    "classify": ClassifyTask,
    "regress": RegressTask,
    "tag": TagTask,
    "answer": AnswerTask,
    "embeddings": EmbeddingsTask,
    "masked": MaskedTask,
    "replaced": ReplacedTask,
    "causal": CausalTask,
    "complete": CompleteTask,
    "spans": SpansTask,
    "denoise": DenoiseTask,
    "prefix-lm": PrefixTask,
    "plain-lm": PlainTask,
    "words": WordsTask,
    "image": ImageTask,
    "mixture": MixtureTask,
}
MixtureTask.known = {name: task for name, task in TASKS.items() if task.mixable}


def find_task(name: str) -> type[Task]:
    """Return a task by name, or your own class by "module:Class"; modules in the current folder are found too."""
    if ":" not in name:
        if name not in TASKS:
            raise unknown("task", name, TASKS)
        return TASKS[name]
    module, _, attribute = name.partition(":")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(f"the task {name!r} cannot be imported: {error}") from None
    if not (isinstance(found, type) and issubclass(found, Task)):
        raise UsageError(f"the task {name!r} is not a subclass of qkv.tasks.base.Task")
    return found


def read_task(name: str, objective: Mapping[str, Any], data: DataConfig) -> Task:
    """Create the task of a recipe."""
    return find_task(name).read(objective, data)
