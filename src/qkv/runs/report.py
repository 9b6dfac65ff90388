"""The report on a finished run: report.html, scores.json and the model card README.md, next to the model.

The model folder is complete before the report begins, and whatever fails here costs the report, never the model.
"""

from __future__ import annotations

import json
import math
import random
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from qkv.common import disk
from qkv.common.errors import QkvError, Shortened
from qkv.common.progress import Bar
from qkv.common.terminal import one_line
from qkv.evaluation.score import Score
from qkv.exams.evaluate import task_for
from qkv.exams.report.card import card, is_ours
from qkv.exams.report.contents import RunFacts
from qkv.exams.report.making import report_of, write_page
from qkv.exams.study import Study, explains, study
from qkv.predict import Model, load
from qkv.recipes.schema import Recipe, Say
from qkv.runs.answers import agrees_with_teacher
from qkv.runs.layout import RECIPE
from qkv.runs.prepare import reading
from qkv.runs.student_report import compared
from qkv.tasks.base import Task
from qkv.tasks.split import training_examples, validation_streams
from qkv.training.logging import read_metrics
from qkv.training.loop import Outcome

PAGE, SCORES, CARD = "report.html", "scores.json", "README.md"
SAMPLE = 2000  # validation examples to score
DECODED = 500  # the same for tasks that decode sequences, which takes longer
# An untrained translator never ends a sentence: without this, a run of 4 steps would decode for a minute on a CPU.
DECODED_PER_STEP, DECODED_AT_LEAST = 5, 20


def write_report(recipe: Recipe, task: Task, outcome: Outcome, *, device: str | None, say: Say) -> None:
    """Score the trained model on the test files, or on validation examples, and write the report."""
    folder = Path(recipe.out)
    try:
        disk.remove(folder / SCORES)
        _write(recipe, task, outcome, folder, device, say)
    except Exception as error:  # of any kind: a trained model must not be lost to a report
        why = one_line(str(error) or type(error).__name__)
        say(f"qkv: the report on {folder} could not be written: {why}; the model itself is complete")


def kept_scores(folder: Path) -> list[Score] | None:
    """Return the test scores that a report has written, or None if there are none."""
    try:
        found = disk.read_object(folder / SCORES)
    except QkvError:
        return None
    if found.get("data") != "test":
        return None
    return [Score(name=name.split("#")[0], **_numbers(values)) for name, values in found["scores"].items()]


def _write(recipe: Recipe, task: Task, outcome: Outcome, folder: Path, device: str | None, say: Say) -> None:
    model = load(folder, device=device) if (folder / "config.json").is_file() else None
    notes: list[str] = []
    found = None
    if model is not None:
        with _noted(notes):
            try:
                found = _studied(recipe, task, model, outcome.step)
            except QkvError as error:
                notes.append(f"The scores could not be computed: {error}")
                say(f"qkv: no scores in the report: {error}")
    beside = compared(recipe, device) if recipe.distill.teacher and model is not None else None
    run = RunFacts(
        task=recipe.task,
        ended=outcome.reason,
        steps=outcome.step,
        weights_of=outcome.weights_of,
        metrics=read_metrics(folder),
        recipe=(folder / RECIPE).read_text("utf-8"),
        energy=outcome.energy,
        start=recipe.model.init,
        train=recipe.data.train,
    )
    facts = {
        "model": recipe.out,
        "task": recipe.task,
        "ended": outcome.reason,
        "steps": outcome.step,
        "weights_of_step": outcome.weights_of,
        "validation": outcome.scores,
        "data": "test" if recipe.data.test else "validation",
        "notes": notes,
    }
    report = report_of(model, recipe.out, found, run=run, notes=notes)
    if beside is not None:
        report = replace(report, teacher=beside.rows(), teacher_told=beside.told())
    write_page(folder / PAGE, report)
    if is_ours(folder / CARD):
        disk.replace_file(folder / CARD, card(report).encode())
    text = json.dumps(facts | (found.to_dict() if found else {}) | {"energy": outcome.energy}, indent=2)
    disk.replace_file(folder / SCORES, text.encode() + b"\n")


def _studied(recipe: Recipe, task: Task, model: Model, steps: int) -> Study | None:
    """Look at the model's answers to the test files or to validation examples; None if its task has no answers."""
    if recipe.data.test:
        mine = task.can_score(model)
        known = training_examples(task) if mine else None
        tester = task.tester(model, reading(recipe)) if mine else task_for(model).for_model(model, reading(recipe))
        with Bar("scoring the test files") as bar:
            found = study(model, recipe.data.test, None, bar.add, task=tester, ends=True, known=known)
        return replace(found, about=f"Test files: {', '.join(recipe.data.test)} ({found.count:,} examples).")
    if not (task.data.train and explains(task) and task.can_score(model)):
        return None
    both = [_sample(stream, _size(task, steps)) for stream in validation_streams(task)]
    examples, total = [example for some, _ in both for example in some], sum(count for _, count in both)
    with Bar("scoring validation examples", total=len(examples)) as bar:
        found = study(model, (), None, bar.add, task=task, given=examples, known=training_examples(task))
    some = f"{found.count:,} of {total:,}, drawn at random" if len(examples) < total else f"all {found.count:,}"
    where = f"from {', '.join(task.data.valid)}" if task.data.valid else "held out from the training files"
    if agrees_with_teacher(recipe.out):
        where += ", with the teacher's answers: the scores are the agreement with the teacher"
    chosen = recipe.train.keep_best or recipe.train.patience
    told = " The weights were chosen on them too, so expect slightly lower scores on new data." if chosen else ""
    return replace(found, about=f"Validation examples ({some}), {where}.{told}")


def _size(task: Task, steps: int) -> int:
    """Return how many validation examples to score after some steps."""
    return min(DECODED, max(DECODED_AT_LEAST, DECODED_PER_STEP * steps)) if task.decodes else SAMPLE


def _sample(examples: Iterable[Any], size: int) -> tuple[list[Any], int]:
    """Draw examples uniformly from a stream (algorithm R, Vitter 1985), the same ones each time; also count them."""
    draw, kept, count = random.Random(0), list[Any](), 0
    for count, example in enumerate(examples, 1):
        if len(kept) < size:
            kept.append(example)
        elif (place := draw.randrange(count)) < size:
            kept[place] = example
    return kept, count


@contextmanager
def _noted(notes: list[str]) -> Iterator[None]:
    """Collect qkv's warnings as notes of the report; truncated texts are added up."""
    cut: Counter[str] = Counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        if isinstance(warning.message, Shortened):
            cut[warning.message.what] += warning.message.cut
        elif warning.category is UserWarning and "qkv" in Path(warning.filename).parts:
            notes.append(str(warning.message))
    notes += [f"{count:,} of the {what}." for what, count in cut.items()]


def _numbers(values: dict[str, Any]) -> dict[str, Any]:
    """Read undefined numbers, which JSON does not have, as nan."""
    found = {key: math.nan if value is None else value for key, value in values.items()}
    return found | {"parts": {name: math.nan if one is None else one for name, one in values["parts"].items()}}
