"""`qkv distill TEACHER DATA`: a smaller model that learns from a trained one.

    TEACHER ─► its task ─► the recipe for that task, with [model] init = TEACHER, [distill] teacher and layers ─► a run

The recipe of the teacher's own run says how files are read; without data, the student learns from the same files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from os import fspath
from pathlib import Path
from typing import Any

from qkv.checkpoints.folder import Folder, read_folder
from qkv.common.config import override
from qkv.common.errors import QkvError, UsageError
from qkv.common.terminal import to_standard_error
from qkv.compression.layers import check_layered, stacks
from qkv.data.files import PathName
from qkv.data.hub import is_hub
from qkv.predict import Model, find
from qkv.recipes.recognise import recognise
from qkv.recipes.schema import Recipe, Say, change, read_recipe
from qkv.runs.finetune import FineTuned
from qkv.runs.given import Files, as_files
from qkv.runs.prepare import reading
from qkv.runs.run import run_recipe
from qkv.runs.student import default_layers, even_layers, starting_from
from qkv.runs.trained_on import COLUMNS, fitting, own_recipe, trained_columns
from qkv.tasks.base import Task
from qkv.tasks.table import TASKS, find_task
from qkv.training.loop import Outcome

FILES = ("train", "valid", "test")
NOT_KEPT = ("cache", "held_out")  # of the [data] of the teacher's run


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a student is made from.

    Attributes:
        teacher: a model folder, the name of a built-in model or hf:OWNER/NAME.
        layers: how many of the teacher's layers the student begins with; a third if None. Of an encoder-decoder, those
            of the encoder; all if None.
        decoder_layers: those of the decoder; a third if None.
        files: training, validation and test files; empty for those of the teacher's own run.
        texts: files of texts without answers, which the teacher answers: beside the training files, or alone.
        debug: use the small numbers of the recipe's `[debug]` table.
    """

    teacher: str
    layers: int | None = None
    decoder_layers: int | None = None
    files: Mapping[str, tuple[str, ...]]
    texts: tuple[str, ...] = ()
    debug: bool = False


def distill(
    teacher: PathName,
    data: Files | None = None,
    *,
    texts: Sequence[PathName] = (),
    out: PathName | None = None,
    layers: int | None = None,
    decoder_layers: int | None = None,
    valid: Files | None = None,
    test: Files | None = None,
    resume: bool = False,
    device: str | None = None,
    say: Say | None = None,
    **changes: Any,
) -> FineTuned:
    """Train a smaller model that learns what a trained one says.

    Args:
        teacher: the model to learn from: a path, the name of a built-in model or "hf:OWNER/NAME[@REVISION]".
        data: training files, or rows as `finetune` takes them. If None, the files of the teacher's own run.
        texts: files of texts without answers, one per line or from a table, which the teacher answers: beside `data`,
            or alone.
        out: the run's folder; if None, runs/TEACHER-student. The comparison with the teacher is in its student.json.
        layers: how many layers of the teacher the student begins with, chosen evenly; a third if None. Of an
            encoder-decoder, those of the encoder; all if None.
        decoder_layers: those of the decoder; a third if None.
        valid: validation files or rows. If None, some training examples are held out.
        test: files or rows on which teacher and student are compared. If None, validation examples.
        resume: continue a stopped run in `out`.
        device: "cpu", "cuda" or "cuda:1". If None, CUDA if it is available.
        say: called with each line of progress; standard error if None.
        changes: recipe keys to change, for example `**{"distill.temperature": 4.0, "model.preset": "bert-mini"}`.
    """
    how: dict[str, Any] = {"texts": texts, "layers": layers, "decoder_layers": decoder_layers, "valid": valid}
    how |= {"test": test, "resume": resume, "device": device, "say": say}
    recipe, outcome = train_student(teacher, data, out=out, **how, **changes)
    if not outcome.finished:
        raise QkvError(f"stopped by {outcome.reason} after {outcome.step} steps; continue with resume=True")
    return FineTuned(read_folder(recipe.out), reading(recipe), recipe.task, device=device)


def train_student(
    teacher: PathName,
    data: Files | None = None,
    *,
    out: PathName | None = None,
    layers: int | None = None,
    decoder_layers: int | None = None,
    texts: Sequence[PathName] = (),
    valid: Files | None = None,
    test: Files | None = None,
    resume: bool = False,
    device: str | None = None,
    say: Say | None = None,
    debug: bool = False,
    **changes: Any,
) -> tuple[Recipe, Outcome]:
    """Train a student; return its recipe and how the run ended. See `distill`."""
    tell = say or to_standard_error
    name = fspath(teacher)
    place = Path(out) if out else Path("runs") / f"{Path(name).name}-student"
    with as_files({"train": data, "valid": valid, "test": test}, place) as files:
        asked = Asked(
            teacher=name if is_hub(name) else str(find(name)),
            layers=layers,
            decoder_layers=decoder_layers,
            files=files,
            texts=tuple(fspath(path) for path in texts),
            debug=debug,
        )
        recipe = student_recipe(asked, {"out": str(place), **changes}, tell)
        outcome = run_recipe(recipe, resume=resume, device=device, say=tell)
        return read_recipe(str(Path(recipe.out) / "recipe.toml")), outcome


def student_recipe(asked: Asked, changes: Mapping[str, Any], say: Say) -> Recipe:
    """Return the recipe of a student, with dotted keys changed."""
    teacher = read_folder(find(asked.teacher))
    check_layered(teacher, asked.teacher)
    own = own_recipe(asked.teacher)
    name, task = (own.task, find_task(own.task)) if own else _task_of(asked.teacher, teacher)
    if not task.distilled_by:
        raise UsageError(f"{asked.teacher} was trained for {name}, which no student can learn")
    recipe = read_recipe(task.distilled_by, debug=asked.debug)
    values: dict[str, Any] = {"distill.teacher": asked.teacher, "task": name}
    values |= _reading(asked, own, task, say) | _objective(own, task, Model(teacher, device="cpu"))
    if not {"model.preset", "model.init"} & changes.keys():
        recipe = starting_from(recipe, asked.teacher)
        values |= _layers(asked, teacher, changes, say)
    elif asked.layers or asked.decoder_layers:
        raise UsageError("--layers are the teacher's: leave them out with a model of your own")
    return change(override(recipe, values), dict(changes))


def _task_of(name: str, teacher: Folder) -> tuple[str, type[Task]]:
    model = Model(teacher, device="cpu")
    for task_name, task in TASKS.items():
        if task.can_teach(model):
            return task_name, task
    heads = ", ".join(teacher.model.heads) or "none"
    raise UsageError(f"{name} has the heads {heads}, and no task can learn from it: set one up with `qkv train`")


def _reading(asked: Asked, own: Recipe | None, task: type[Task], say: Say) -> dict[str, Any]:
    """Return the keys of [data]: the files, and how they are read."""
    files = {f"data.{part}": asked.files[part] for part in FILES if asked.files.get(part)}
    found: dict[str, Any] = {}
    if own is not None:
        kept = {key: value for key, value in asdict(own.data).items() if key not in (*FILES, *COLUMNS, *NOT_KEPT)}
        known = trained_columns(asked.teacher)
        if asked.files.get("train") or not asked.texts:
            columns = fitting(known, asked.files.get("train") or (), say)
        else:  # files without labels
            columns = fitting({key: known.get(key, "") for key in ("text", "second")}, asked.texts, say)
            columns["label"] = known.get("label", "")
        found = {f"data.{key}": value for key, value in (kept | columns).items() if value}
        if not asked.files.get("train") and not asked.texts:
            found |= {f"data.{part}": getattr(own.data, part) for part in FILES if getattr(own.data, part)}
            found["data.held_out"] = own.data.held_out
    elif train := asked.files.get("train"):
        try:
            seen = recognise(train)
            found = dict(seen.changes) if read_recipe(seen.recipe).task == read_recipe(task.distilled_by).task else {}
        except UsageError:  # the task is known, so its own reader finds the columns, or says what is wrong
            found = {}
    if asked.texts:
        found["distill.texts"] = asked.texts
    if not asked.files.get("train") and not asked.texts and "data.train" not in found:
        raise UsageError(f"{asked.teacher} does not say which files it learned from: name some, or texts with --texts")
    return found | files


def _objective(own: Recipe | None, task: type[Task], teacher: Model) -> dict[str, Any]:
    """Return the table [objective]: that of the teacher's own run, or what its folder says."""
    if own is not None:
        return {"objective": own.objective} if own.objective else {}
    return {f"objective.{key}": value for key, value in task.taught_settings(teacher).items()}


def _layers(asked: Asked, teacher: Folder, changes: Mapping[str, Any], say: Say) -> dict[str, Any]:
    """Return which layers of the teacher its student begins with."""
    wanted = {"distill.layers": asked.layers, "distill.decoder_layers": asked.decoder_layers}
    there = list(stacks(teacher).items())
    if asked.decoder_layers and len(there) == 1:
        raise UsageError(f"{asked.teacher} has no decoder: leave out --decoder-layers")
    found = {}
    for (key, count), (name, stack) in zip(wanted.items(), there, strict=False):
        if key in changes:
            continue
        number = default_layers(stack.depth, name) if count is None else count
        if not 1 <= number <= stack.depth:
            raise UsageError(f"a student has from 1 to {stack.depth} layers of the {name}, got {number}")
        found[key] = even_layers(stack.depth, number)
        told = ", ".join(map(str, found[key]))
        say(f"the student begins with {number} of {stack.depth} layers of the {name}: {told}")
    return found
