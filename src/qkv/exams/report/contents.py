"""What a report is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from qkv.exams.report.usage import Usage
from qkv.exams.study import Study


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """What a run's folder says about the training.

    Attributes:
        task: the name of the task.
        ended: how the run ended: "done", or "early" for early stopping.
        steps: the number of steps.
        weights_of: the step whose weights the folder holds, if it is known.
        metrics: the lines of metrics.jsonl.
        recipe: the resolved recipe as TOML.
        energy: the contents of energy.json.
        start: the model folder that the weights come from; empty for random weights.
        train: the training files.
    """

    task: str
    ended: str
    steps: int
    weights_of: int | None = None
    metrics: Sequence[Mapping[str, Any]]
    recipe: str
    energy: Mapping[str, Any]
    start: str = ""
    train: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Report:
    """Everything that a report shows.

    Attributes:
        title: the name of the model.
        model: facts about the model, by name.
        study: scores and answers, or None for a task without them.
        run: the training, or None if the report is about a model alone.
        usage: how to use the model.
        notes: what a reader should know, such as texts that were too long.
        made: the day and the version of qkv.
        teacher: a student beside its teacher: a table with its head.
        teacher_told: what that table is about.
    """

    title: str
    model: Mapping[str, str]
    study: Study | None
    run: RunFacts | None = None
    usage: tuple[Usage, ...] = ()
    notes: tuple[str, ...] = ()
    made: str = ""
    teacher: Sequence[Sequence[str]] = ()
    teacher_told: str = ""
