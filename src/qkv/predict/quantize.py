"""From a model folder to one with weights in int8."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from qkv.checkpoints.folder import INT8
from qkv.common.errors import UsageError
from qkv.predict.loading import load


@dataclass(frozen=True)
class Quantised:
    """What became of a model.

    Attributes:
        megabytes_before: size of its weights in float32.
        megabytes: size of the weights in the new folder.
        engine: what computes the layers of the new model's encoder on this machine.
    """

    megabytes_before: float
    megabytes: float
    engine: str

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name."""
        return asdict(self)


def quantize(folder: str | Path, out: str | Path) -> Quantised:
    """Store a model's weights in int8, with one scale for each output of a product and each row of a table."""
    model = load(folder, device="cpu")
    if model.contents.int8:
        raise UsageError(f"the weights of {folder} are in int8 already")
    model.save(out, dtype=INT8)
    before = 4 * sum(parameter.numel() for parameter in model.module.parameters())
    size = sum(file.stat().st_size for file in Path(out).glob("*.safetensors"))
    return Quantised(round(before / 1e6, 2), round(size / 1e6, 2), load(out, device="cpu").engine)
