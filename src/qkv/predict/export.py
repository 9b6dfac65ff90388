"""From a model folder to one that another engine runs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from qkv.checkpoints.folder import read_folder
from qkv.common.errors import UsageError, system_errors
from qkv.compression.export.folder import is_export, write_export
from qkv.predict.loading import find, load


@dataclass(frozen=True)
class Export:
    """What an export holds.

    Attributes:
        format: what it was exported to.
        megabytes: size of its graphs and weights.
        engine: what runs it on this machine.
        verbs: what `qkv.load` of the folder can do.
    """

    format: str
    megabytes: float
    engine: str
    verbs: list[str]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name."""
        return asdict(self)


@system_errors()
def export(folder: str | Path, out: str | Path, *, to: str = "onnx") -> Export:
    """Export a model, and load the result once.

    Args:
        folder: a model folder, the name of a built-in model, or a model on the Hugging Face Hub.
        out: where to write the export: a new or empty folder, or an earlier export.
        to: the format: onnx, ctranslate2 or torch.
    """
    place = find(folder)
    if not place.is_dir():
        raise UsageError(f"{folder} holds word vectors, which need no other engine: only model folders are exported")
    if is_export(place):
        raise UsageError(f"{folder} is an export already: export the folder it was made from")
    size = write_export(read_folder(place), out, to)
    found = load(out)
    return Export(to, round(size / 1e6, 2), found.engine, found.verbs)
