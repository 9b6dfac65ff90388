"""From a model folder to one with smaller weights: int8, or bfloat16."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from qkv.checkpoints.folder import INT8
from qkv.common.errors import UsageError, unknown
from qkv.nn.precision import cpu_multiplies
from qkv.predict.loading import load


@dataclass(frozen=True)
class Quantised:
    """The result of `quantize`.

    Attributes:
        megabytes_before: size of its weights in float32.
        megabytes: size of the weights in the new folder.
        engine: what computes the layers of the new model's encoder on this machine.
        note: how this CPU computes if it cannot multiply in the new precision, else empty.
    """

    megabytes_before: float
    megabytes: float
    engine: str
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name."""
        return asdict(self)


PRECISIONS = (INT8, "bfloat16")


def quantize(folder: str | Path, out: str | Path, *, to: str = INT8) -> Quantised:
    """Store a model's weights in fewer bits.

    Args:
        folder: a model folder or a name.
        out: where to write the new folder.
        to: int8, with one scale for each output of a product and each row of a table, or bfloat16.
    """
    if to not in PRECISIONS:
        raise unknown("precision", to, PRECISIONS)
    model = load(folder, device="cpu")
    if model.contents.int8:
        raise UsageError(f"the weights of {folder} are in int8 already")
    model.save(out, dtype=to)
    before = 4 * sum(parameter.numel() for parameter in model.module.parameters())
    size = sum(file.stat().st_size for file in Path(out).glob("*.safetensors"))
    engine = load(out, device="cpu").engine
    return Quantised(round(before / 1e6, 2), round(size / 1e6, 2), engine, _note(to, engine))


def _note(to: str, engine: str) -> str:
    """Say how this CPU computes with the new weights. bfloat16 is never chosen on a CPU: few are faster in it."""
    if to == INT8:
        return "" if INT8 in engine else "this CPU computes with the restored weights: smaller, but no faster"
    if cpu_multiplies(torch.bfloat16):
        return 'this CPU computes in float32 unless you ask for qkv.load(folder, dtype="bfloat16")'
    return "this CPU computes in float32: bfloat16 products kill the process on it"
