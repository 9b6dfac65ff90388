"""What `qkv evaluate` prints: scores and, if asked for, the confusion matrix and the worst mistakes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from qkv.common import disk
from qkv.common.errors import UsageError
from qkv.evaluation.report import as_json, table
from qkv.exams.evaluate import evaluate, task_for
from qkv.exams.report.making import report_of, write_page
from qkv.exams.report.terminal import class_lines, matrix_lines, mistake_lines
from qkv.exams.study import MISTAKES, Study, check_details, study
from qkv.predict import Model
from qkv.runs.trained_on import Reading


@dataclass(frozen=True)
class Wanted:
    """What to show besides the scores.

    Attributes:
        model: the model as the user named it.
        report: the file of the report, None for none.
        confusion: whether to show the confusion matrix.
        errors: how many of the worst mistakes to show.
    """

    model: str
    report: str | None = None
    confusion: bool = False
    errors: int = 0


@dataclass(frozen=True)
class Evaluated:
    """The scores of a model and the details that were asked for."""

    scores: Sequence[Any]
    wanted: Wanted
    study: Study | None = None

    def __str__(self) -> str:
        found = [table(self.scores)]
        if self.study is not None and self.study.confusion is not None and self.wanted.confusion:
            found += [matrix_lines(self.study.confusion), class_lines(self.study.classes)]
        if self.study is not None and self.wanted.errors:
            found.append(mistake_lines(self.study.mistakes[: self.wanted.errors]))
        return "\n\n".join(found)

    def to_dict(self) -> dict[str, Any]:
        """Return the scores by name for JSON, with `confusion`, `classes`, `errors` and `report` if asked for."""
        found: dict[str, Any] = dict(as_json(self.scores))
        if self.study is None:
            return found
        whole = self.study.to_dict()
        if self.wanted.confusion:
            found |= {"confusion": whole["confusion"], "classes": whole["classes"]}
        if self.wanted.errors:
            found["errors"] = whole["worst"][: self.wanted.errors]
        return found | ({"report": self.wanted.report} if self.wanted.report else {})


def evaluated(
    model: Model,
    paths: Sequence[str],
    read: Reading,
    wanted: Wanted,
    *,
    beam: int | None = None,
    task: str | None = None,
    stride: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Evaluated:
    """Score a model, and look at its answers only if something of that is wanted.

    Args:
        model: the model.
        paths: the files.
        read: how to read them.
        wanted: what to show.
        beam: the beam size of a translator.
        task: of a model with several text-to-text tasks, the one that the files are for.
        stride: for language models, how far windows slide along each document.
        progress: called with the number of examples in each finished chunk.
    """
    if wanted.errors < 0:
        raise UsageError(f"--errors must be at least 1, got {wanted.errors}")
    tester = (read.task or task_for(model)).for_model(model, read.data, task)
    if wanted.confusion or wanted.errors:
        check_details(model, tester, confusion=wanted.confusion)
    if wanted.report is not None:
        disk.plain_file(Path(wanted.report))
    asked: dict[str, Any] = {"beam": beam, "ends": read.ends, "task": tester, "stride": stride}
    if wanted.report is None and not (wanted.confusion or wanted.errors):
        return Evaluated(evaluate(model, paths, read.data, progress, **asked), wanted)
    found = study(model, paths, read.data, progress, **asked, mistakes=max(MISTAKES, wanted.errors))
    found = replace(found, about=f"Files: {', '.join(paths)} ({found.count:,} examples).")
    if wanted.report is not None:
        write_page(Path(wanted.report), report_of(model, wanted.model, found))
    return Evaluated(found.scores, wanted, found)
