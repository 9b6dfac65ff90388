"""From a folder, a built-in name, a name on the Hub or a preset to a model; and back to a folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from qkv.checkpoints import hub
from qkv.checkpoints.folder import DTYPES, Folder, is_image_config, read_folder
from qkv.checkpoints.image_size import at_size
from qkv.checkpoints.word_vectors import read_vector_file
from qkv.common import disk
from qkv.common.errors import QkvError, UsageError, show, system_errors, unknown
from qkv.compression.engine import accelerate
from qkv.compression.export.folder import check_settings, is_export, read_export
from qkv.data.hub import is_hub
from qkv.models import catalogue
from qkv.nn.init import without_weights
from qkv.nn.precision import cpu_multiplies
from qkv.predict.device import bound_primitives, find_device
from qkv.predict.facts import describe
from qkv.predict.model import Model

PRETRAINED = Path(__file__).parents[1] / "pretrained"  # one model folder for each built-in name


@system_errors()
def load(
    folder: str | Path,
    *,
    device: str | None = None,
    kernel: str = "auto",
    dtype: str = "float32",
    verify: bool = True,
    image_size: int | None = None,
) -> Model:
    """Load a model folder, written by qkv or by `transformers`.

    Args:
        folder: a path, the name of a built-in model ("en-de"), or a model on the Hugging Face Hub as "hf:OWNER/NAME" or
            "hf:OWNER/NAME@REVISION"; also a file of word vectors (.txt, .vec, .bin, .gz).
        device: "cpu", "cuda" or "cuda:1"; None means CUDA if it is available.
        kernel: the attention kernel: auto, eager, sdpa, varlen or biased.
        dtype: float32, bfloat16 or float16.
        verify: check every file that qkv wrote against the SHA-256 in the folder's qkv_digests.json. False takes a
            folder that was edited since, or that `transformers` has written over; so does QKV_VERIFY=0 in the
            environment.
        image_size: height and width of images, instead of the model's own; learned positions are
            interpolated.
    """
    check_name("load", folder)
    if dtype not in DTYPES:
        raise unknown("dtype", dtype, DTYPES)
    kind = getattr(torch, dtype)
    if find_device(device).type == "cpu" and not cpu_multiplies(kind):
        raise UsageError(
            f"{dtype} products kill the process on this CPU: use float32, or set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16"
        )
    bound_primitives()
    path = find(folder)
    if is_export(path):
        check_settings(str(folder), ("device", device, "cpu"), ("kernel", kernel, "auto"), ("dtype", dtype, "float32"))
        check_settings(str(folder), ("image_size", image_size, None))
        return Model(read_export(path, verify=verify), device="cpu")
    found = read_folder(path, dtype=kind, verify=verify) if path.is_dir() else read_vector_file(path)
    if image_size is not None:
        found = at_size(found, image_size)
    return accelerated(Model(found, device=device, kernel=kernel))


def accelerated(model: Model) -> Model:
    """Give a model on the CPU the CPU engine. A model in training has none: its weights change at every step."""
    if model.device.type == "cpu":
        accelerate(model.module, int8=model.contents.int8)
    return model


def check_name(who: str, folder: object) -> None:
    """Raise an error for anything but a path or a name."""
    if not isinstance(folder, str | os.PathLike):
        raise UsageError(f"{who} takes the path of a model folder or the name of a built-in model, got {show(folder)}")


def find(folder: str | Path) -> Path:
    """Return the folder for a path, the name of a built-in model or `hf:OWNER/NAME`, which is downloaded.

    An existing path wins over the name of a built-in model.
    """
    if is_hub(folder):
        return hub.download(str(folder))
    path = Path(folder)
    disk.recover(path.absolute())  # a save that was cut off between its two renames
    if os.path.exists(path):
        return path
    names = built_in()
    if str(folder) in names:
        return PRETRAINED / folder
    there = f"built-in models: {', '.join(names)}" if names else "no model is built in here"
    raise UsageError(f"{folder} is not a folder ({there}){hub.hint(str(folder))}")


def names_image_model(name: str) -> bool:
    """Whether a folder holds a model of images, by its config.json alone. Anything else is reported by `load`."""
    file = find(name) / "config.json"
    try:
        return file.is_file() and is_image_config(disk.read_object(file))
    except QkvError:
        return False


def built_in() -> list[str]:
    """List the names of the models that came with the package."""
    return sorted(file.parent.name for file in PRETRAINED.glob("*/config.json"))


def build(preset: str, *, device: str | None = None, kernel: str = "auto", **changes: Any) -> Model:
    """Build a preset with first weights, for example `qkv.build("bert-base", position="rotary")`."""
    config = catalogue.preset(preset, **changes)
    return accelerated(Model(Folder(config, catalogue.build(config).eval()), device=device, kernel=kernel))


def save(model: Model, folder: str | Path, *, dtype: str = "float32") -> None:
    """Write a model into a folder, in Hugging Face's own format for every family it has; see `Model.save`."""
    model.save(folder, dtype=dtype)


def info(name: str) -> dict[str, Any]:
    """Describe a model: a folder, a built-in one, one on the Hub or a preset, which is not built in memory."""
    check_name("info", name)
    if is_hub(name):
        return load(name).describe()
    if os.path.isdir(name) or name not in catalogue.PRESETS:
        disk.recover(Path(name).absolute())
        if not os.path.exists(name) and name not in built_in() and "/" not in name:
            raise unknown("model folder or preset", name, [*built_in(), *catalogue.PRESETS])
        return load(name).describe()
    config = catalogue.preset(name)
    with without_weights():
        model = catalogue.build(config)
    return describe(config, Folder(config, model), find_device(None), "auto")
