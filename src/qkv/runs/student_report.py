"""A student beside its teacher: quality, size, time and energy of an answer, and when the training has paid."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from qkv.common import disk
from qkv.common.errors import QkvError
from qkv.evaluation.score import Score
from qkv.predict import Model, load
from qkv.recipes.schema import Recipe
from qkv.runs.answers import agrees_with_teacher
from qkv.runs.payback import Answering, Payback, costs_of, measured
from qkv.tasks.base import Task
from qkv.tasks.exam import Exam
from qkv.tasks.split import validation_examples
from qkv.tasks.table import read_task

COMPARISON = "student.json"
SHOWN = 3  # scores
MOST, MOST_DECODED = 2000, 300  # examples; decoding is slow
TIMED = 200  # examples


@dataclass(frozen=True)
class Comparison:
    """A student beside its teacher.

    Attributes:
        folder: the student's.
        scores: the most important scores, of the teacher and of the student, by name.
        about: what the scores are about.
        payback: what answers cost.
    """

    folder: str
    scores: dict[str, tuple[float, float]]
    about: str
    payback: Payback

    @property
    def speed(self) -> float:
        """How many times as fast as the teacher the student answers."""
        return self.payback.teacher.seconds / self.payback.student.seconds

    def rows(self) -> list[list[str]]:
        """Return the comparison as cells: what, teacher, student, and how they compare."""
        teacher, student = self.payback.teacher, self.payback.student
        found = [["", "teacher", "student", ""]]
        found += [[name, f"{a:.4f}", f"{b:.4f}", _share(b, a)] for name, (a, b) in self.scores.items()]
        sizes = (student.parameters, teacher.parameters)
        found.append(["parameters", f"{sizes[1]:,}", f"{sizes[0]:,}", _share(*sizes)])
        milliseconds = (1000 * teacher.seconds, 1000 * student.seconds)
        found.append(["ms per answer", *(f"{one:.3g}" for one in milliseconds), f"{self.speed:.2f} times as fast"])
        joules = (teacher.joules, student.joules)
        return [*found, ["joules per answer", *(f"{one:.3g}" for one in joules), _share(joules[1], joules[0])]]

    def told(self) -> str:
        """Say what the scores are about, and when the training has paid."""
        return f"{f'Scores: {self.about}. ' if self.scores else ''}{self.payback.told()}"

    def to_dict(self) -> dict[str, Any]:
        """Return everything for JSON."""
        scores = {name: {"teacher": a, "student": b} for name, (a, b) in self.scores.items()}
        payback = self.payback.to_dict()
        return {"folder": self.folder, "scores": scores, "about": self.about, "speed": self.speed, **payback}


def comparison_of(folder: str) -> Comparison | None:
    """Return the comparison that the report of a run has written, or None if there is none."""
    try:
        found = disk.read_object(Path(folder) / COMPARISON)
        teacher, student = (Answering(**found[name]) for name in ("teacher", "student"))
        cost = {key: found[key] for key in ("training_joules", "verb", "texts", "device", "power")}
        cost["teaching_joules"] = found.get("teaching_joules", 0.0)  # earlier versions did not count them
        scores = {name: (one["teacher"], one["student"]) for name, one in found["scores"].items()}
        return Comparison(folder, scores, found["about"], Payback(teacher, student, **cost))
    except (QkvError, KeyError, TypeError):
        return None


def compared(recipe: Recipe, device: str | None = None) -> Comparison:
    """Compare the student in a run's folder with its teacher, on the test files or on validation examples."""
    task = read_task(recipe.task, recipe.objective, recipe.data).resolved(lambda _: None)
    models = {name: load(name, device=device) for name in (recipe.distill.teacher, recipe.out)}
    most = MOST_DECODED if task.decodes else MOST
    read = task.examples(recipe.data.test) if recipe.data.test else validation_examples(task)
    examples = list(islice(read, most))
    about = f"{len(examples):,} {'test' if recipe.data.test else 'validation'} examples"
    if not recipe.data.test and agrees_with_teacher(recipe.out):
        about += ", which have the teacher's answers: the student's scores are its agreement with the teacher"
    able = all(task.can_score(model) for model in models.values())
    theirs, mine = (_scored(task, model, examples) if able else [] for model in models.values())
    scores = {a.name: (a.value, b.value) for a, b in islice(zip(theirs, mine, strict=True), SHOWN)}
    paid = measured(models, costs_of(recipe.out), _inputs(task, examples[:TIMED]))
    found = Comparison(recipe.out, scores, about, paid)
    text = json.dumps(found.to_dict(), indent=2)
    disk.replace_file(Path(recipe.out) / COMPARISON, text.encode() + b"\n")
    return found


def _scored(task: Task, model: Model, examples: Sequence[Any]) -> list[Score]:
    return task.score(Exam(model, beam=1, given=examples, ends=True))


def _inputs(task: Task, examples: Iterable[Any]) -> list[Any]:
    """Return what both are asked: the first text of each example, or its image."""
    if not task.reads_text:
        return [example.pixels for example in examples]
    return [next(iter(task.texts(example))) for example in examples]


def _share(student: float, teacher: float) -> str:
    return f"{student / teacher:.1%}" if teacher > 0 else ""
