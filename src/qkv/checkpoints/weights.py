"""Read and write the files of a model folder: JSON and safetensors, in one file or in shards. Nothing is unpickled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from qkv.common import disk
from qkv.common.errors import QkvError

WHOLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
SHARDS = "model-*-of-*.safetensors"
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "model.bin", "model.pt", "tf_model.h5")


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Read all tensors of a model folder, by their names in the file."""
    if (folder / WHOLE).is_file():
        return _read_file(folder / WHOLE)
    if (folder / INDEX).is_file():
        return _read_shards(folder / INDEX)
    for name in PICKLES:
        if (folder / name).exists():
            raise QkvError(
                f"{folder / name} is not a safetensors file, and qkv never unpickles a file; "
                f"if you trust it, convert it once: "
                f"transformers.AutoModel.from_pretrained({str(folder)!r}).save_pretrained('converted')"
            )
    raise QkvError(f"{folder} contains no weights: it needs {WHOLE} or {INDEX}")


def weight_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """Return tensors as the bytes of one safetensors file."""
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    return save(whole, metadata={"format": "pt"})


def read_json(file: Path) -> dict[str, Any]:
    """Read a JSON object."""
    if not file.is_file():
        raise QkvError(f"{file.parent} is not a model folder: it has no {file.name}")
    return disk.read_object(file)


def json_bytes(raw: Any) -> bytes:
    """Return plain values as the bytes of a JSON file."""
    return (json.dumps(raw, indent=2, ensure_ascii=False) + "\n").encode()


def shards(index: Path) -> dict[str, str]:
    """Return which file holds each tensor, from the index of a model in shards. Files lie beside the index."""
    try:
        where = json.loads(index.read_text("utf-8"))["weight_map"]
        return {str(tensor): Path(file).name for tensor, file in where.items()}
    except (ValueError, KeyError, TypeError, AttributeError, UnicodeDecodeError):
        raise QkvError(f"{index} is damaged: it is not a list of shards") from None


def _read_shards(index: Path) -> dict[str, Tensor]:
    where = shards(index)
    tensors: dict[str, Tensor] = {}
    for file in sorted({index.parent / name for name in where.values()}):
        if not file.is_file():
            raise QkvError(f"{index} lists the shard {file.name}, which is missing")
        tensors |= _read_file(file)
    if missing := sorted(set(where) - set(tensors)):
        raise QkvError(f"{index} lists {missing[0]}, which no shard contains")
    return tensors


def _read_file(file: Path) -> dict[str, Tensor]:
    try:
        return load_file(file)
    except (SafetensorError, OSError, ValueError) as error:
        raise QkvError(f"{file} is damaged or incomplete: {error}") from None
