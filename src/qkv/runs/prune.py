"""`qkv prune`: remove heads, layers and tokens of a model for good, heal what is left, and measure before and after.

    MODEL ─► layers ─► heads ─► vocabulary ─► OUT
                                           └► OUT-start ─► a short fine-tuning run ─► OUT     with healing

Which heads and layers go is measured on the training files if they are known, and else on the data of the scores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from qkv.checkpoints.folder import Folder, check_target, write_folder
from qkv.common.errors import UsageError, system_errors
from qkv.common.progress import Bar
from qkv.compression.heads import check_heads, prune_heads
from qkv.compression.layers import check_layered, check_layers, drop_layers, stacks
from qkv.compression.vocabulary import prune_vocabulary
from qkv.data.config import DataConfig
from qkv.exams.importance import EXAMPLES, head_importance, loss_task
from qkv.exams.layer_choice import least_layers, top_layers
from qkv.predict import Model, find, load
from qkv.recipes.schema import Say
from qkv.runs.gauge import Figures, Gauge, megabytes, parameters
from qkv.runs.healing import healing, training_files
from qkv.runs.layout import is_run
from qkv.runs.run import run_or_resume
from qkv.runs.trained_on import reading_for

START = "-start"  # of the folder that a healing run starts from
DATA = "data."
FILES = ("data.train", "data.valid", "data.test", "data.held_out", "data.cache")


@dataclass(frozen=True, kw_only=True)
class Cuts:
    """What to remove.

    Attributes:
        heads: the share of the heads of every layer, or None.
        layers: by stack ("stack", or "encoder" and "decoder"), how many layers or which ones, counted from 0. The name
            "" is the only stack.
        vocabulary: texts whose tokens stay; empty to keep all tokens.
    """

    heads: float | None = None
    layers: Mapping[str, int | Sequence[int]] = field(default_factory=dict)
    vocabulary: Sequence[str] = ()

    def __bool__(self) -> bool:
        return self.heads is not None or bool(self.layers) or bool(self.vocabulary)


@dataclass(frozen=True)
class Pruned:
    """The result of `prune`.

    Attributes:
        folder: the new model folder.
        before: the figures of the original model, without scores and speed if there was no data.
        pruned: those of the pruned model.
        healed: those after the healing run, or None if there was none.
        layers: the layers that were dropped, by stack.
        tokens: how many tokens were removed.
        stored_as: the `model_type` of the folder.
        note: why other libraries cannot read the folder; empty if `transformers` can.
    """

    folder: str
    before: Figures
    pruned: Figures
    healed: Figures | None
    layers: Mapping[str, Sequence[int]]
    tokens: int
    stored_as: str
    note: str

    def to_dict(self) -> dict[str, Any]:
        """Return everything for JSON."""
        return asdict(self)


@system_errors()
def prune(
    folder: str,
    out: str,
    cuts: Cuts,
    *,
    data: Sequence[str] = (),
    changes: Mapping[str, Any] | None = None,
    healed: bool = False,
    device: str | None = None,
    say: Say,
) -> Pruned:
    """Remove parts of a model and write what is left.

    Args:
        folder: the model.
        out: the new folder.
        cuts: what to remove.
        data: files with the correct answers, for scores and speed.
        changes: keys of a recipe: data.* say how to read the files, all of them change the healing run.
        healed: train what is left for a short while.
        device: "cpu", "cuda" or "cuda:1". If None, CUDA if it is available.
        say: prints a line for the user.
    """
    changed = dict(changes or {})
    if not cuts:
        raise UsageError("nothing to remove: give --heads SHARE, --layers NUMBER or --vocabulary FILE")
    model = load(folder, device=device)
    files = training_files(folder, changed) or data
    _check(model, folder, out, cuts, files, healed)
    start = Path(f"{out}{START}") if healed else Path(out)
    gauge = _gauge(model, folder, data, changed, say) if data else None
    if healed:  # what cannot run is found before the work begins
        healing(folder, find(folder), Path(out), changed, lambda _: None)
    found, dropped = cut(model, folder, cuts, files, changed, say)
    write_folder(found, start, mode="update", dtype=found.stored_dtype)
    places = {"before": find(folder), "pruned": start}
    if healed:
        run_or_resume(healing(folder, start, Path(out), changed, say), device=device, say=say)
        places["healed"] = Path(out)
    models = {"before": model} | {name: load(place, device=device) for name, place in list(places.items())[1:]}
    figures = measured(gauge, models, places)
    facts = models[list(models)[-1]].describe()
    tokens = getattr(model.config, "vocab_size", 0) - getattr(found.config, "vocab_size", 0)
    told = (str(facts["stored_as"]), str(facts["stored_note"]))
    return Pruned(out, figures["before"], figures["pruned"], figures.get("healed"), dropped, tokens, *told)


def cut(
    model: Model, folder: str, cuts: Cuts, files: Sequence[str], changes: Mapping[str, Any], say: Say
) -> tuple[Folder, dict[str, list[int]]]:
    """Remove layers, then heads, then tokens; return what is left and the layers that were dropped, by stack.

    Args:
        model: the model.
        folder: its folder.
        cuts: what to remove.
        files: what the importance of heads and layers is measured on; without files, the top layers go.
        changes: keys of [data] that say how to read the files.
        say: prints a line for the user.
    """
    found, dropped = model.contents, dict[str, list[int]]()
    data = _reading(model, folder, files, changes, say) if files and (cuts.layers or cuts.heads is not None) else None
    for name, wanted in _stacks(found, cuts).items():
        with Bar("choosing layers") as bar:
            dropped[name] = _layers(_with(model, found), name, wanted, files, data, bar.add)
        found = drop_layers(found, name, dropped[name])
    if cuts.heads is not None:
        with Bar("measuring heads") as bar:
            matters = head_importance(_with(model, found), files, data, ablation=False, progress=bar.add)
        found = prune_heads(found, matters.gradient, cuts.heads)
    if cuts.vocabulary:
        found = prune_vocabulary(found, cuts.vocabulary)
    return found, dropped


def measured(gauge: Gauge | None, models: Mapping[str, Model], places: Mapping[str, Path]) -> dict[str, Figures]:
    """Return the figures of models; scores and speed need a gauge."""
    if gauge is None:
        return {name: Figures({}, parameters(model), megabytes(places[name]), None) for name, model in models.items()}
    speeds = gauge.speeds(models)
    return {name: gauge.figures(model, places[name], speeds[name]) for name, model in models.items()}


def _check(model: Model, folder: str, out: str, cuts: Cuts, files: Sequence[str], healed: bool) -> None:
    """Raise an error for what cannot be done, before the work begins."""
    if model.contents.int8:
        raise UsageError(f"the weights of {folder} are in int8: prune the model in float32, and quantise the result")
    for place in (Path(out), Path(f"{out}{START}")):
        check_target(place)
        if place.exists() and find(folder).exists() and place.samefile(find(folder)):
            raise UsageError(f"{place} is the model itself: choose another folder")
    if cuts.layers or cuts.heads is not None:
        check_layered(model.contents, folder)
    if not healed and is_run(out):
        raise UsageError(f"{out} holds a run: choose another folder")
    for name, wanted in _stacks(model.contents, cuts).items():
        check_layers(model.contents, name, wanted if isinstance(wanted, int) else len(set(wanted)))
    if cuts.heads is not None:
        check_heads(model.contents, cuts.heads)
        if not files:
            raise UsageError("which heads matter is measured on examples: give --data FILE with correct answers")


def _stacks(contents: Folder, cuts: Cuts) -> dict[str, int | Sequence[int]]:
    """Return what to drop from each stack by its name."""
    there = stacks(contents) if cuts.layers else {}
    if "" in cuts.layers and len(there) > 1:
        raise UsageError(f"which layers? This model has two stacks: say {' or '.join(f'{name}:1' for name in there)}")
    return {name or next(iter(there)): wanted for name, wanted in cuts.layers.items()}


def _layers(
    model: Model,
    name: str,
    wanted: int | Sequence[int],
    files: Sequence[str],
    data: DataConfig | None,
    progress: Callable[[int], None],
) -> list[int]:
    """Return which layers to drop."""
    if not isinstance(wanted, int):
        return sorted(set(wanted))
    if not files:
        return top_layers(model, name, wanted)
    return least_layers(model, name, wanted, files, data, examples=EXAMPLES, progress=progress)


def _with(model: Model, contents: Folder) -> Model:
    return Model(contents, device=str(model.device), kernel=model.kernel)


def _reading(model: Model, folder: str, files: Sequence[str], changes: Mapping[str, Any], say: Say) -> DataConfig:
    return reading_for(model, folder, _columns(changes), say, files, task=loss_task(model)).data


def _gauge(model: Model, folder: str, files: Sequence[str], changes: Mapping[str, Any], say: Say) -> Gauge:
    return Gauge(reading_for(model, folder, _columns(changes), say, files), model, files)


def _columns(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys that say how any file is read."""
    return {key: value for key, value in changes.items() if key.startswith(DATA) and key not in FILES}
