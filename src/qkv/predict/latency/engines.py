"""The engines that can run a model: how each is made from it, and why one cannot be.

Models of several engines share one set of weights where their numbers are the same. What `qkv quantize` and
`qkv export` write goes into a folder that is removed after the measurement.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from qkv.checkpoints.folder import INT8, write_folder
from qkv.common.errors import QkvError, UsageError, system_errors, unknown
from qkv.common.progress import Bar
from qkv.compression.engine import accelerate, engine_of
from qkv.compression.export.folder import write_export
from qkv.compression.refit import refit
from qkv.native import library
from qkv.nn.precision import cpu_multiplies
from qkv.predict.loading import load
from qkv.predict.model import Model

BF16, COMPILED = "torch-bf16", "torch-compiled"


@dataclass(frozen=True)
class Engine:
    """A way to run a model.

    Attributes:
        make: from a model and an empty folder to the model as this engine runs it; an error says why it cannot.
        how: how to choose this engine.
        exact: whether it gives the numbers of float32, up to rounding.
        format: of the exported folders that it runs.
    """

    make: Callable[[Model, Path], Model]
    how: str
    exact: bool = True
    format: str = ""


def _torch(model: Model, place: Path) -> Model:
    del place
    return _twin(model)


def _bf16(model: Model, place: Path) -> Model:
    del place
    if model.device.type == "cpu" and not cpu_multiplies(torch.bfloat16):
        raise UsageError("bfloat16 products kill the process on this CPU")
    return _twin(model, torch.bfloat16)


def _native(model: Model, place: Path) -> Model:
    del place
    return _checked_native(model, int8=False)


def _native_int8(model: Model, place: Path) -> Model:
    found = _checked_native(model, int8=True)
    if model.contents.int8:
        return found
    write_folder(model.contents, place, dtype=INT8)
    return load(place, device="cpu")


def _checked_native(model: Model, *, int8: bool) -> Model:
    """Return a model on the CPU engine, or say what keeps it from running there."""
    if model.device.type != "cpu":
        raise UsageError("it runs on the CPU: --device cpu")
    if model.kernel != "auto":
        raise UsageError(f"it has attention of its own, and the model was loaded with the kernel {model.kernel}")
    variant = library.variant()
    if variant is None:
        off = os.environ.get("QKV_NATIVE") == library.OFF
        raise UsageError("QKV_NATIVE=0 switches it off" if off else "it is not compiled for this processor")
    if int8 and not library.has_int8(variant):
        raise UsageError(f"its variant for this processor, {variant}, does not multiply in int8")
    found = _twin(model)
    accelerate(found.module, int8=int8)
    if engine_of(found.module) == "torch":
        raise UsageError("it lacks a part of this model")
    return found


def _exported(to: str, model: Model, place: Path) -> Model:
    if model.device.type != "cpu":
        raise UsageError("it runs on the CPU: --device cpu")
    write_export(_twin(model).contents, place, to)  # a graph of the layers, not of a call of the CPU engine
    return load(place)


def _by_export(to: str) -> Engine:
    return Engine(partial(_exported, to), f"after `qkv export --to {to}`", format=to)


ENGINES: dict[str, Engine] = {
    "torch": Engine(_torch, "with QKV_NATIVE=0"),
    BF16: Engine(_bf16, 'with qkv.load(dtype="bfloat16")', exact=False),
    "native": Engine(_native, "with the folder before `qkv quantize`"),
    "native-int8": Engine(_native_int8, "after `qkv quantize`", exact=False),
    "onnxruntime": _by_export("onnx"),
    "ctranslate2": _by_export("ctranslate2"),
    COMPILED: _by_export("torch"),
}


def check_engines(names: Sequence[str]) -> None:
    """Raise an error for a name that is not in the table."""
    for name in names:
        if name not in ENGINES:
            raise unknown("engine", name, ENGINES)


def made(model: Model, asked: Sequence[str], folder: Path) -> tuple[dict[str, Model], dict[str, str]]:
    """Make the model as each engine runs it.

    Args:
        model: the model; it stays as it is.
        asked: engines by name; if empty, all.
        folder: where engines may write.

    Returns:
        The models, and for each engine that cannot run this one the reason.
    """
    found: dict[str, Model] = {}
    missing: dict[str, str] = {}
    names = [name for name in ENGINES if not asked or name in asked]
    with Bar("preparing engines", total=len(names)) as bar:
        for name in bar.each(names):
            try:
                _check_request(name, model, asked)
                found[name] = _made(ENGINES[name], model, folder / name)
            except QkvError as error:
                missing[name] = " ".join(str(error).split())
    return found, missing


@system_errors()
def _made(engine: Engine, model: Model, place: Path) -> Model:
    if not (to := model.contents.exported):
        return engine.make(model, place)
    if engine.format != to:
        raise UsageError(f"this is an export to {to}, which has no weights: measure the folder it was made from")
    return model


def _check_request(name: str, model: Model, asked: Sequence[str]) -> None:
    """Raise an error for an engine that is measured only on request.

    These are bfloat16 on a CPU, which is seldom faster and on some CPUs kills the process, and compiling, which takes
    minutes.
    """
    if name == BF16 and model.device.type == "cpu" and name not in asked:
        raise UsageError(f"on a CPU it is measured only if you ask for it: --engine {BF16}")
    if name == COMPILED and name not in asked and not model.contents.exported:
        raise UsageError(f"compiling takes minutes, so it is measured only if you ask for it: --engine {COMPILED}")


def default_of(model: Model) -> str:
    """Return the engine that runs a model as `qkv.load` returns it."""
    if to := model.contents.exported:
        return next(name for name, engine in ENGINES.items() if engine.format == to)
    if engine_of(model.module) == "torch":
        return "torch"
    return "native-int8" if model.contents.int8 else "native"


def _twin(model: Model, dtype: torch.dtype = torch.float32) -> Model:
    """Return a model with the same weights, not a copy of them unless their precision changes, on PyTorch alone."""
    tensors = {name: tensor.to(dtype) for name, tensor in model.module.state_dict().items()}
    folder = refit(model.contents, model.config, tensors)
    return Model(folder, device=str(model.device), kernel=model.kernel)
