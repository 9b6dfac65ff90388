"""Exported folders: the files of a model folder, with those of the format in the place of the weights.

qkv_export.json holds the format and our own config.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from qkv.checkpoints.folder import Folder, folder_files, opened, read_around
from qkv.checkpoints.update import EXPORT, with_digests
from qkv.checkpoints.weights import WHOLE, json_bytes
from qkv.common import disk
from qkv.common.config import from_dict, override, to_dict
from qkv.common.errors import QkvError, UsageError, unknown
from qkv.compression.export.ctranslate2_engine import CTranslate2Engine
from qkv.compression.export.ctranslate2_files import ctranslate2_files
from qkv.compression.export.feeds import Engine
from qkv.compression.export.graphs import graphs_of
from qkv.compression.export.models import exported
from qkv.compression.export.onnx_engine import OnnxEngine
from qkv.compression.export.onnx_files import onnx_files
from qkv.compression.export.torch_files import TorchEngine, torch_files
from qkv.models.catalogue import FAMILIES, build, family_of
from qkv.models.skeleton import Headed
from qkv.nn.init import without_weights
from qkv.version import __version__

LAYOUT = 1  # of qkv_export.json


@dataclass(frozen=True)
class Format:
    """A format to export to.

    Attributes:
        files: from a model folder to the contents of files by name.
        engine: from an exported folder, and its model without weights, to what runs it.
    """

    files: Callable[[Folder], dict[str, bytes]]
    engine: Callable[[Path, Headed], Engine]


FORMATS: dict[str, Format] = {
    "onnx": Format(lambda folder: onnx_files(graphs_of(folder.model)), OnnxEngine),
    "ctranslate2": Format(ctranslate2_files, CTranslate2Engine),
    "torch": Format(lambda folder: torch_files(graphs_of(folder.model)), TorchEngine),
}


def write_export(folder: Folder, out: str | Path, to: str) -> int:
    """Export a model into a folder: a new or empty one, or an earlier export. Returns its size in bytes."""
    if to not in FORMATS:
        raise unknown("format", to, FORMATS)
    target = Path(out).resolve()
    if target.exists() and not (target.is_dir() and (is_export(target) or not any(target.iterdir()))):
        raise UsageError(f"{out} exists and is not an export: choose another path")
    if folder.int8:
        raise UsageError("the weights are in int8, which exports do not have: export the folder it was quantized from")
    around = {name: data for name, data in folder_files(folder).items() if name != WHOLE}
    found = FORMATS[to].files(folder)
    told = {
        "layout": LAYOUT,
        "format": to,
        "qkv": __version__,
        "family": family_of(folder.config),
        "config": to_dict(folder.config),
        "files": sorted(found),
    }
    with disk.no_space(str(target)):
        files = {**around, EXPORT: json_bytes(told), **found}
        disk.replace_folder(target, with_digests(files), manifest=False)
    return sum(map(len, found.values()))


def is_export(folder: Path) -> bool:
    """Whether a folder is one that `write_export` wrote."""
    return (folder / EXPORT).is_file()


def read_export(path: Path, *, verify: bool) -> Folder:
    """Load an exported folder: a model whose work its format's engine does."""
    folder = opened(path, verify=verify)
    told = disk.read_object(folder / EXPORT)
    try:
        if told["layout"] != LAYOUT:
            raise UsageError(f"its layout is {told['layout']}, and this qkv reads {LAYOUT}")
        to, family, files = told["format"], told["family"], told["files"]
        if to not in FORMATS:
            raise unknown("format", to, FORMATS)
        if family not in FAMILIES:
            raise unknown("family", family, FAMILIES)
        config = override(from_dict(FAMILIES[family].config, told["config"]), {})
        with without_weights():
            model = build(config)
        if missing := [name for name in files if not (folder / name).is_file()]:
            raise UsageError(f"the file {missing[0]} is not there")
    except KeyError as error:
        raise QkvError(f"{folder / EXPORT} lacks the key {error}") from None
    except (TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError, IndexError, QkvError) as error:
        raise QkvError(f"{folder / EXPORT} is invalid: {' '.join(str(error).split())}") from None
    found = read_around(folder, config, exported(model, FORMATS[to].engine(folder, model)))
    return replace(found, stored_as=f"{to} export", exported=to)


def check_settings(name: str, *given: tuple[str, Any, Any]) -> None:
    """Raise an error for settings of `load` that an export cannot change: name, value and usual value of each."""
    for what, value, usual in given:
        if value not in (None, usual):
            raise UsageError(f"{name} is an export, which runs with {what} {usual}, not {value}: leave {what} out")
