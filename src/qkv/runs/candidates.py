"""The candidates of `qkv shrink`: smaller versions of a model, cheapest first, each in a folder of its own.

    as it is         the model
    fewer heads      without a quarter of the heads of every layer, chosen by importance
    fewer layers     without half of the layers (of an encoder-decoder: of the decoder), then trained for a short while
    student          a third of the layers (of an encoder-decoder: of its decoder), distilled from the model
    …, int8          each of them with weights in int8

A finished candidate is kept, and a run that was stopped goes on: both end with the same weights as without a stop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from qkv.checkpoints.folder import INT8, Folder, read_folder, write_folder
from qkv.common.errors import UsageError
from qkv.compression.heads import check_heads, prune_heads
from qkv.compression.layers import check_layers, drop_layers, stacks
from qkv.exams.importance import EXAMPLES, head_importance, loss_task
from qkv.exams.layer_choice import least_layers, top_layers
from qkv.predict import Model, find
from qkv.recipes.schema import Say, change
from qkv.runs.prune import START
from qkv.runs.run import run_or_resume
from qkv.runs.subject import Subject
from qkv.tasks.split import named_parts, training_examples

AS_IS, HEADS, LAYERS, STUDENT = "as it is", "fewer heads", "fewer layers", "student"
HOW = {
    AS_IS: "the model",
    HEADS: "without a quarter of the heads of every layer",
    LAYERS: "without half of the layers, then trained for a short while",
    STUDENT: "a third of the layers, distilled from the model",
}
QUICK = (AS_IS, HEADS)  # nothing is trained
SHARE = 0.25  # of the heads


@dataclass(frozen=True)
class Candidate:
    """A version of a model.

    Attributes:
        name: its name.
        how: how it was made.
        place: its folder.
        source: the folder of the same model before int8.
        int8: whether its weights are in int8.
    """

    name: str
    how: str
    place: Path
    source: Path
    int8: bool = False

    def write(self, out: Path) -> None:
        """Write the model into another folder and keep the other files there."""
        found = read_folder(self.source)
        write_folder(found, out, mode="update", dtype=INT8 if self.int8 else found.stored_dtype)


def reasons(subject: Subject, folder: Path, *, quick: bool) -> dict[str, str]:
    """Return for each candidate why it cannot be made, "" if it can."""
    checks: dict[str, Callable[[], None]] = {
        AS_IS: lambda: None,
        HEADS: lambda: _check_heads(subject),
        LAYERS: lambda: _check_layers(subject, folder),
        STUDENT: lambda: _check_student(subject),
    }
    found = {}
    for name in QUICK if quick else HOW:
        try:
            checks[name]()
            found[name] = ""
        except UsageError as error:
            found[name] = str(error)
    return found


def make(subject: Subject, name: str, folder: Path, *, device: str | None, say: Say) -> list[Candidate]:
    """Make a candidate in `folder`, or continue where it was stopped, and the same in int8."""
    place = folder / name.replace(" ", "-")
    say(f"{name}: {HOW[name]}")
    how: dict[str, Any] = {"device": device, "say": say, "report": False, "again": "continue with --resume"}
    if name == AS_IS:
        place = find(subject.name)
    elif name == HEADS:
        if not (place / "config.json").is_file():
            _write(_fewer_heads(subject), place)
    elif name == LAYERS:
        start = place.with_name(f"{place.name}{START}")
        if not (start / "config.json").is_file():
            _write(_fewer_layers(subject), start)
        run_or_resume(subject.healing(start, place, say), **how)
    else:
        run_or_resume(change(subject.recipe, {"out": str(place)}), **how)
    small = folder / ("int8" if name == AS_IS else f"{place.name}-int8")
    write_folder(read_folder(place), small, dtype=INT8)
    title = "int8" if name == AS_IS else f"{name}, int8"
    return [
        Candidate(name, HOW[name], place, place),
        Candidate(title, f"{HOW[name]}, weights in int8", small, place, int8=True),
    ]


def _write(found: Folder, place: Path) -> None:
    write_folder(found, place, dtype=found.stored_dtype)


def _check_heads(subject: Subject) -> None:
    check_heads(subject.model.contents, SHARE)
    if not _measurable(subject):
        raise UsageError(f"the importance of heads cannot be measured on the examples of {subject.recipe.task}")


def _check_layers(subject: Subject, folder: Path) -> None:
    contents = subject.model.contents
    name, depth = _last_stack(contents)
    if depth < 2:
        raise UsageError(f"the {name} has a single layer")
    check_layers(contents, name, depth // 2)
    subject.healing(find(subject.name), folder, lambda _: None)


def _check_student(subject: Subject) -> None:
    there = stacks(subject.model.contents).values()
    if not subject.recipe.distill.teacher:
        raise UsageError(f"no student can learn {subject.recipe.task}")
    if subject.recipe.model.init and max(stack.depth for stack in there) < 2:
        raise UsageError("the model has a single layer")


def _measurable(subject: Subject) -> bool:
    """Whether the loss of the model's task can be measured on the training examples."""
    return loss_task(subject.model) is type(subject.task) and named_parts(subject.task) is None


def _last_stack(contents: Folder) -> tuple[str, int]:
    """Return the name and the depth of the stack that loses layers: the decoder answers token by token."""
    name, stack = list(stacks(contents).items())[-1]
    return name, stack.depth


def _measured_on(subject: Subject) -> Mapping[str, Any]:
    """Return what heads and layers are chosen on: examples that are trained on, and never those of the scores."""
    return {"paths": (), "data": subject.data, "given": list(islice(training_examples(subject.task), EXAMPLES))}


def _fewer_heads(subject: Subject) -> Folder:
    model = _fresh(subject)
    found = head_importance(model, ablation=False, **_measured_on(subject))
    return prune_heads(model.contents, found.gradient, SHARE)


def _fewer_layers(subject: Subject) -> Folder:
    model = _fresh(subject)
    name, depth = _last_stack(model.contents)
    if _measurable(subject):
        dropped = least_layers(model, name, depth // 2, examples=EXAMPLES, **_measured_on(subject))
    else:
        dropped = top_layers(model, name, depth // 2)
    return drop_layers(model.contents, name, dropped)


def _fresh(subject: Subject) -> Model:
    return Model(subject.model.contents, device=str(subject.model.device), kernel=subject.model.kernel)
