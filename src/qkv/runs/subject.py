"""What `qkv shrink` works on: a model, the recipe that its smaller versions are trained with, and held-out examples.

The share that the recipe holds out is the same for every candidate, because a split depends only on the examples. A
model that was trained on the same files held out the same examples. Whatever a candidate or the model was trained on is
left out of the scores, of a test file too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from os.path import abspath
from pathlib import Path
from typing import Any

from qkv.checkpoints.folder import Folder
from qkv.common.config import override
from qkv.common.errors import QkvError, UsageError
from qkv.compression.layers import check_layered
from qkv.data.config import DataConfig
from qkv.data.files import expand
from qkv.data.hub import is_hub
from qkv.models.skeleton import EncoderDecoder, Transformer
from qkv.predict import Model, find, load
from qkv.recipes.check import check
from qkv.recipes.schema import Recipe, Say
from qkv.runs.distil import Asked, student_recipe
from qkv.runs.healing import healing
from qkv.runs.own import Own
from qkv.runs.resolve import resolve
from qkv.runs.student_report import MOST, MOST_DECODED
from qkv.runs.trained_on import own_recipe
from qkv.tasks.base import Task
from qkv.tasks.split import named_parts, training_examples, validation_examples
from qkv.tasks.table import find_task, read_task

STUDENT_ONLY = ("distill.", "model.", "tokenizer.")  # keys that no other candidate has


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A model to make smaller.

    Attributes:
        name: its folder, as the user calls it.
        model: the model.
        recipe: of a student, or where the task has none, of a short run that heals.
        task: how its files are read and scored.
        changes: keys of the recipe that the user changed.
        examples: what all candidates are scored on; none of them was trained on these.
        about: what these examples are.
    """

    name: str
    model: Model
    recipe: Recipe
    task: Task
    changes: Mapping[str, Any]
    examples: Sequence[Any]
    about: str

    @property
    def data(self) -> DataConfig:
        """How files are read."""
        return override(self.task.data, {"train": (), "valid": (), "test": ()})

    def healing(self, start: Path, out: Path, say: Say) -> Recipe:
        """Return the recipe of a short run on what is left of the model in `start`."""
        changed = {key: value for key, value in self.changes.items() if not key.startswith(STUDENT_ONLY)}
        default = asdict(DataConfig())
        known = {f"data.{key}": value for key, value in asdict(self.recipe.data).items() if value != default[key]}
        # the same examples are held out as for the student, whatever the model's own recipe says
        files = {"data.valid": self.recipe.data.valid, "data.held_out": self.recipe.data.held_out}
        found = healing(self.name, start, out, {**known, **files, **changed}, say)
        if found.task != self.recipe.task:
            raise UsageError(f"the files look like {found.task}, and the model was trained for {self.recipe.task}")
        return found


def read_subject(
    name: str,
    files: Mapping[str, tuple[str, ...]],
    out: Path,
    changes: Mapping[str, Any],
    *,
    device: str | None,
    say: Say,
) -> Subject:
    """Read a model and the examples for it; raise an error for what cannot work, before anything is written."""
    model = load(name, device=device)
    if model.contents.exported or model.contents.int8:
        kind = "exported" if model.contents.exported else "in int8 already"
        raise UsageError(f"{name} is {kind}: shrink the folder that it was made from")
    check_layered(model.contents, name)
    own = own_recipe(name)
    train = () if own is not None and _same(files["train"], own.data.train) else files["train"]
    asked = Asked(teacher=name if is_hub(name) else str(find(name)), files={"train": train, "valid": files["valid"]})
    recipe = _recipe(model, asked, own, {**changes, "out": str(out), "data.test": []}, say)
    task = read_task(recipe.task, recipe.objective, recipe.data).resolved(say)
    if not task.can_score(model):
        raise UsageError(f"{name} was trained for {recipe.task}, which has no score to compare models by")
    facts = task.survey(task.examples(task.data.train), lambda _: None)
    if recipe.distill.teacher:
        task.taught_facts(facts, model.contents, name)
    examples = _unseen(task, own, files["test"], say)
    if not examples:
        place = ", ".join(files["test"]) or "the held-out share"
        raise UsageError(f"{place} has no example that the model was not trained on: give others with --test FILE")
    about = f"{len(examples):,} {'test' if files['test'] else 'held-out'} examples"
    return Subject(
        name=name,
        model=model,
        recipe=recipe,
        task=task,
        changes=changes,
        examples=examples,
        about=about,
    )


def _recipe(model: Model, asked: Asked, own: Recipe | None, changes: Mapping[str, Any], say: Say) -> Recipe:
    """Return the resolved recipe of a student; where there can be none, that of a short run that heals."""
    if own is not None and not (find_task(own.task).distilled_by and _has_stacks(model.contents)):
        files = {"data.train": asked.files["train"] or own.data.train}
        return healing(asked.teacher, find(asked.teacher), Path(changes["out"]), {**files, **changes}, say)
    recipe = student_recipe(asked, changes, lambda _: None)
    check(recipe)
    return resolve(recipe, Path(), Own(), say)


def _has_stacks(contents: Folder) -> bool:
    """Whether a model has stacks of layers."""
    return isinstance(contents.model, Transformer | EncoderDecoder)


def _same(given: Sequence[str], known: Sequence[str]) -> bool:
    """Whether these are the same files."""
    try:
        return bool(given) and [*map(abspath, expand(given))] == [*map(abspath, expand(known))]
    except QkvError:  # those of the run are gone
        return False


def _unseen(task: Task, own: Recipe | None, test: Sequence[str], say: Say) -> list[Any]:
    """Return test or validation examples that neither a candidate nor the model itself was trained on."""
    read = task.examples(test) if test else validation_examples(task)
    known, most = _trained_on(task, own), MOST_DECODED if task.decodes else MOST
    found: list[Any] = []
    left_out = 0
    for example in read:
        if known and task.key(example) in known:
            left_out += 1
        elif len(found) < most:
            found.append(example)
        else:
            break
    if left_out:
        say(f"examples that were trained on, left out of the scores: {left_out:,}")
    return found


def _trained_on(task: Task, own: Recipe | None) -> set[str]:
    """Return the keys of the examples that candidates are trained on, and the model was; of mixtures, none."""
    if named_parts(task) is not None:
        return set()
    known = {task.key(example) for example in training_examples(task)}
    if own is not None:
        with suppress(QkvError, OSError):  # the files of the run may be gone
            theirs = read_task(own.task, own.objective, own.data).resolved(lambda _: None)
            known |= set() if named_parts(theirs) is not None else set(map(theirs.key, training_examples(theirs)))
    return known
