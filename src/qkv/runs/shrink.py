"""`qkv shrink MODEL DATA --target "5 ms"`: try what makes a model smaller, and write the version that meets a target.

MODEL ─► candidates ─► scores, size, speed, energy ─► the choice ─► OUT
                                                   └► shrink.json, frontier.svg

OUT/shrink.toml      the recipe of the students, written first: --resume continues with the same
OUT/candidates/      a folder for each candidate
OUT/shrink.json      what was measured, and what was chosen
OUT/                 the chosen model
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from os import fspath
from pathlib import Path
from typing import Any

from qkv.checkpoints.folder import read_folder
from qkv.common import disk
from qkv.common.errors import QkvError, UsageError, system_errors
from qkv.common.terminal import to_standard_error
from qkv.data.files import PathName
from qkv.evaluation.score import Score
from qkv.exams.report.naming import is_lower_better, name_of, point_of
from qkv.predict import find, load
from qkv.recipes.schema import Say
from qkv.runs.candidates import AS_IS, Candidate, make, reasons
from qkv.runs.finetune import FineTuned
from qkv.runs.frontier import picture
from qkv.runs.gauge import Figures, Gauge
from qkv.runs.given import Files, as_files
from qkv.runs.inputs import check_inputs
from qkv.runs.layout import SHRINK
from qkv.runs.prepare import reading
from qkv.runs.run_folder import held, open_folder
from qkv.runs.subject import Subject, read_subject
from qkv.runs.targets import Choice, Row, Target, choose, parse_targets
from qkv.runs.trained_on import Reading, keep_reading

REPORT, PICTURE = "shrink.json", "frontier.svg"
CANDIDATES = "candidates"


@dataclass(frozen=True, kw_only=True)
class Shrunk:
    """The result of `shrink`.

    Attributes:
        folder: where everything is, with the chosen model if one meets the targets.
        targets: what was asked for.
        metric: the name of the score.
        about: what the scores are about.
        candidates: how each was made, by name, in the order of the plan.
        figures: quality, size, speed and energy of each.
        rows: the numbers that the targets limit.
        impossible: why the others cannot be made, by name.
        choice: the one that meets the targets, or the nearest.
    """

    folder: str
    targets: tuple[Target, ...]
    metric: str
    about: str
    candidates: Mapping[str, str]
    figures: Mapping[str, Figures]
    rows: Sequence[Row]
    impossible: Mapping[str, str]
    choice: Choice

    @property
    def met(self) -> bool:
        """Whether a candidate meets all targets."""
        return not self.choice.missed

    def told(self) -> str:
        """Say which candidate meets the targets, or which comes nearest and by how much it misses."""
        row, wanted = self.choice.row, " and ".join(map(str, self.targets))
        if self.met:
            return f"{self.folder}: {row.name} ({self.candidates[row.name]}) meets {wanted}"
        missed = " and ".join(target.missed(row) for target in self.choice.missed)
        return f"no candidate meets {wanted}: {row.name} comes nearest ({missed}), so no model is written"

    def to_dict(self) -> dict[str, Any]:
        """Return everything for JSON."""
        candidates = [
            {"name": row.name, "how": self.candidates[row.name], **self.figures[row.name].to_dict(), **asdict(row)}
            for row in self.rows
        ]
        return {
            "folder": self.folder,
            "targets": list(map(str, self.targets)),
            "met": self.met,
            "chosen": self.choice.row.name if self.met else None,
            "nearest": self.choice.row.name,
            "metric": self.metric,
            "about": self.about,
            "candidates": candidates,
            "impossible": dict(self.impossible),
        }


@system_errors()
def shrink(
    model: PathName,
    data: Files | None = None,
    *,
    target: str | Sequence[str],
    test: Files | None = None,
    valid: Files | None = None,
    out: PathName | None = None,
    quick: bool = False,
    resume: bool = False,
    device: str | None = None,
    say: Say | None = None,
    on_result: Callable[[Shrunk], None] | None = None,
    **changes: Any,
) -> FineTuned:
    """Try smaller versions of a model, and return the one that meets a target.

    Candidates are the model as it is, with fewer heads, with fewer layers and a short training run, and a distilled
    student, each also in int8. They are scored on examples that none of them was trained on.

    Args:
        model: a path, the name of a built-in model or "hf:OWNER/NAME[@REVISION]".
        data: files or rows with correct answers to train on. If None, the files of the model's own run.
        target: "5 ms" for one answer, "10 MB" for the weights, "-1 point" for the score; or several. Of the candidates
            that meet all of them, the one with the best score is chosen; with nothing but points, the fastest.
        test: files or rows to score on. If None, validation examples.
        valid: validation files or rows. If None, some training examples are held out.
        out: the folder; if None, runs/NAME-shrunk. Everything that was measured is in its shrink.json.
        quick: try only what needs no training.
        resume: continue in `out`; candidates that are finished stay, also with another target.
        device: "cpu", "cuda" or "cuda:1". If None, CUDA if it is available.
        say: called with each line of progress; standard error if None.
        on_result: called with everything that was measured, also if no candidate meets the target, which is an error.
        changes: recipe keys of the training runs to change, for example `**{"train.steps": 500}`.
    """
    wanted, tell = parse_targets([target] if isinstance(target, str) else target), say or to_standard_error
    name = fspath(model)
    place = Path(out) if out else Path("runs") / f"{Path(name).name}-shrunk"
    if place.exists() and find(name).exists() and place.samefile(find(name)):
        raise UsageError(f"{place} is the model itself: choose another folder with --out")
    with as_files({"train": data, "valid": valid, "test": test}, place) as files:
        _take_files(changes, files)
        subject = read_subject(name, files, place, changes, device=device, say=tell)
        found = _tried(subject, place, wanted, quick=quick, resume=resume, device=device, say=tell)
    if on_result is not None:
        on_result(found)
    if not found.met:
        raise QkvError(found.told())
    return FineTuned(read_folder(place), reading(subject.recipe), subject.recipe.task, device=device)


def _tried(
    subject: Subject,
    place: Path,
    wanted: tuple[Target, ...],
    *,
    quick: bool,
    resume: bool,
    device: str | None,
    say: Say,
) -> Shrunk:
    """Make all candidates, measure them, write the one that meets the targets, and return what was measured."""
    why = reasons(subject, place / CANDIDATES, quick=quick)
    gauge = Gauge(Reading(subject.data, ends=True), subject.model, given=subject.examples, task=subject.task)
    before = gauge.scores(subject.model)  # what cannot be scored is found before the work begins
    with held(place):
        open_folder(place, subject.recipe, resume, SHRINK)
        check_inputs(place, subject.recipe)
        candidates = _make(subject, why, place / CANDIDATES, device, say)
        say(f"scoring {len(candidates)} candidates on {subject.about}")
        figures = _measured(gauge, candidates, before, device)
        rows = [_row(one, before[0], figures[one]) for one in candidates]
        found = Shrunk(
            folder=str(place),
            targets=wanted,
            metric=name_of(before[0]),
            about=subject.about,
            candidates={one: made.how for one, made in candidates.items()},
            figures=figures,
            rows=rows,
            impossible={one: reason for one, reason in why.items() if reason},
            choice=choose(rows, wanted),
        )
        _write(subject, candidates, found)
    return found


def _take_files(changes: dict[str, Any], files: dict[str, tuple[str, ...]]) -> None:
    """Move data.train, data.valid and data.test from `changes` to `files`."""
    for part in files:
        if (key := f"data.{part}") in changes:
            given = changes.pop(key)
            files[part] = (given,) if isinstance(given, str) else tuple(map(str, given))


def _make(subject: Subject, why: Mapping[str, str], folder: Path, device: str | None, say: Say) -> dict[str, Candidate]:
    """Make all candidates, cheapest first."""
    found: dict[str, Candidate] = {}
    for name, reason in why.items():
        if reason:
            say(f"{name}: not possible: {reason}")
            continue
        found |= {one.name: one for one in make(subject, name, folder, device=device, say=say)}
    return found


def _measured(
    gauge: Gauge, candidates: Mapping[str, Candidate], before: Sequence[Score], device: str | None
) -> dict[str, Figures]:
    """Time all candidates in turns, and score those whose scores are not known."""
    models = {name: load(made.place, device=device) for name, made in candidates.items()}
    speeds = gauge.speeds(models)
    return {
        name: gauge.figures(model, candidates[name].place, speeds[name], before if name == AS_IS else None)
        for name, model in models.items()
    }


def _row(name: str, before: Score, figures: Figures) -> Row:
    """Return the numbers of a candidate that the targets limit."""
    assert figures.speed is not None
    lost = (before.value - figures.scores[name_of(before)]) / point_of(before)
    # rounded, so that 0.92 - 0.91 is one point and not a little more
    lost = round(-lost if is_lower_better(before.name) else lost, 9) + 0.0  # no -0
    return Row(name, lost, figures.speed.milliseconds, figures.megabytes)


def _write(subject: Subject, candidates: Mapping[str, Candidate], found: Shrunk) -> None:
    """Write the report, the picture and the chosen model."""
    place = Path(found.folder)
    disk.replace_file(place / PICTURE, picture(found).encode())
    disk.replace_file(place / REPORT, json.dumps(_plain(found.to_dict()), indent=2).encode() + b"\n")
    if found.met:
        candidates[found.choice.row.name].write(place)
        keep_reading(place, subject.task)


def _plain(value: Any) -> Any:
    """Return a value for JSON, which has no nan."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
