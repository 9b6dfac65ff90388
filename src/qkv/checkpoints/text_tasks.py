"""The text-to-text tasks of a model folder: how each of them writes what the model reads (Raffel et al. 2020).

They are in config.json under T5's own key, so that folders from elsewhere have them too:

    "task_specific_params": {"translation_en_to_de": {"prefix": "translate English to German: ", "num_beams": 4}, …}
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from qkv.common.errors import UsageError, show, unknown

KEY = "task_specific_params"
TRANSLATE = "translate"
KINDS = (TRANSLATE, "classify", "regress", "answer")


@dataclass(frozen=True, kw_only=True)
class TextTask:
    """How a task is written as text.

    Attributes:
        kind: one of `KINDS`; empty for other tasks of a folder that qkv did not train.
        prefix: stands before the text.
        between: stands between two texts: those of a pair, or a question and its context.
        labels: for classify, the answer that stands for each label of the files.
        step: for regress, numbers are rounded to multiples of it.
        low: for regress, the smallest number of training.
        high: the largest.
        others: keys that qkv has no use for, kept as they are.
    """

    kind: str = ""
    prefix: str = ""
    between: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    step: float = 0.0
    low: float = 0.0
    high: float = 0.0
    others: Mapping[str, Any] = field(default_factory=dict)

    def source(self, texts: Sequence[str]) -> str:
        """Return what the model reads for one text or two."""
        return self.prefix + self.between.join(texts)

    def to_dict(self) -> dict[str, Any]:
        """Return the task for config.json, without empty values."""
        mine = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "others"}
        kept = {key: value for key, value in mine.items() if value}
        return {**self.others, **kept} | ({"labels": dict(self.labels)} if self.labels else {})


def read_text_tasks(raw: Mapping[str, Any]) -> dict[str, TextTask]:
    """Read the tasks in a config.json; a task that is named translation… translates, whoever wrote it."""
    found = raw.get(KEY) or {}
    if not isinstance(found, Mapping) or not all(isinstance(task, Mapping) for task in found.values()):
        raise UsageError(f"{KEY} must be a table of tables, got {show(found, 60)}")
    return {str(name): _task(str(name), task) for name, task in found.items()}


def text_tasks_json(tasks: Mapping[str, TextTask]) -> dict[str, Any]:
    """Return what to add to config.json."""
    return {KEY: {name: task.to_dict() for name, task in tasks.items()}} if tasks else {}


def chosen_task(tasks: Mapping[str, TextTask], name: str | None, kind: str = "") -> str:
    """Return the name of one of a model's tasks: the named one, or the only one of its kind.

    Args:
        tasks: the tasks of the model.
        name: the name, or None.
        kind: one of `KINDS`; empty for any of them.
    """
    if name is not None:
        if name not in tasks:
            raise unknown("text-to-text task of this model", name, tasks) if tasks else _none(name)
        return name
    able = [one for one, task in tasks.items() if (task.kind == kind if kind else task.kind)]
    if len(able) != 1:
        what = f"has {len(able) or 'no'} tasks to {kind}" if kind else f"has {len(able)} tasks"
        raise UsageError(f"this model {what}: choose one with --task (task=…), of: {', '.join(able or tasks)}")
    return able[0]


def _none(name: str) -> UsageError:
    return UsageError(f"this model has no text-to-text tasks: leave out the task {name!r}")


def _task(name: str, raw: Mapping[str, Any]) -> TextTask:
    default = TRANSLATE if name.startswith("translation") else ""
    known = {one.name for one in fields(TextTask)} - {"others"}
    values = {"kind": default} | {key: value for key, value in raw.items() if key in known}
    for key in ("kind", "prefix", "between"):
        if not isinstance(values.get(key, ""), str):
            raise UsageError(f"{KEY}: {key} of {name} must be a string, got {show(values[key], 60)}")
    for key in ("step", "low", "high"):
        if not _is_number(values.get(key, 0.0)):
            raise UsageError(f"{KEY}: {key} of {name} must be a finite number, got {show(values[key], 60)}")
    labels = values.get("labels", {})
    if not isinstance(labels, Mapping) or not all(isinstance(answer, str) for answer in labels.values()):
        raise UsageError(f"{KEY}: labels of {name} must map labels to answers, got {show(labels, 60)}")
    if values["kind"] not in ("", *KINDS):
        raise unknown(f"kind of the task {name}", values["kind"], KINDS)
    return TextTask(**values, others={key: value for key, value in raw.items() if key not in known})


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
