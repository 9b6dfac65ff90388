"""The SHA-256 of each file that a run reads: a run resumes only with the files it started with.

Hashing reads every byte once, which is cheap compared to tokenising. When a run resumes, a file with the same size and
times is not read again. The status change time (ctime) cannot be set by hand, so only a change within the clock tick
in which the file was hashed could go unnoticed; recently changed files are therefore always read.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from qkv.common import disk
from qkv.common.errors import QkvError, StorageError, UsageError
from qkv.common.progress import Bar
from qkv.data.files import expand, stored_file
from qkv.data.hub import is_hub
from qkv.recipes.schema import Recipe
from qkv.runs.paths import NOT_FILES

INPUTS = "inputs.json"
TABLE = "inputs"
MODEL = (
    "config.json",
    "preprocessor_config.json",
    "*.safetensors",
    "*.safetensors.index.json",
    "*token*",
    "vocab*",
    "merges.txt",
    "modules.json",
)
MODEL_PARTS = ("[0-9]_*/*",)  # modules of sentence-transformers
YOUNG = 2 * 10**9  # nanoseconds

Entry = dict[str, Any]


def check_inputs(folder: Path, recipe: Recipe) -> None:
    """Record the input files of a new run; raise an error if a resumed run has different ones."""
    file = folder / INPUTS
    try:
        old = disk.read_table(file, TABLE) if file.exists() else {}
    except StorageError as error:
        raise QkvError(f"{error}; remove it to resume with the current input files") from None
    with Bar("checking input files") as bar:
        found = {name: _entry(path, old.get(name)) for name, path in bar.each(_files(recipe))}
    if old:
        _compare(old, found, folder)
    with disk.no_space(str(file)):
        disk.replace_file(file, disk.table_bytes(TABLE, found))


def contents(paths: Sequence[str], model: str) -> list[str]:
    """Return the SHA-256 of each data file and of each file of a model; a name that is no file stands for itself."""
    names = [path for path in paths if path.startswith(NOT_FILES)] + ([] if os.path.isdir(model) else [model])
    files = [*_data_files(paths), *_model_files([model])]
    return [*names, *(f"{place.name} {_entry(place, None)['sha256']}" for _, place in files)]


def _compare(old: dict[str, Entry], found: dict[str, Entry], folder: Path) -> None:
    if _contents(old) == _contents(found):  # also where the files were moved, or are named from another directory
        return
    again = f"resume {folder} with the files it started with, or train in another folder"
    for name in sorted(old.keys() | found.keys()):
        if name not in found:
            raise UsageError(f"{name} is missing: {again}")
        if name not in old:
            raise UsageError(f"{name} did not exist when the run started: {again}")
        if old[name]["sha256"] != found[name]["sha256"]:
            raise UsageError(f"{name} has changed since the run started: {again}")


def _contents(table: dict[str, Entry]) -> list[tuple[str, str]]:
    return sorted((Path(name).name, entry["sha256"]) for name, entry in table.items())


def _files(recipe: Recipe) -> Iterator[tuple[str, Path]]:
    """Yield the name and path of each input of a run: a file, or a folder of images."""
    yield from _data_files((*recipe.data.train, *recipe.data.valid))
    yield from _model_files((recipe.model.init, recipe.distill.teacher))


def _data_files(paths: Sequence[str]) -> Iterator[tuple[str, Path]]:
    for path in paths:
        for name in () if path.startswith(NOT_FILES) else expand([path]):
            place = stored_file(name)
            yield str(place), place


def _model_files(folders: Sequence[str]) -> Iterator[tuple[str, Path]]:
    for folder in dict.fromkeys(folders):
        if not folder or is_hub(folder):  # there, the commit is the digest
            continue
        start = Path(folder)
        for place in sorted({file for pattern in (*MODEL, *MODEL_PARTS) for file in start.glob(pattern)}):
            if place.is_file():
                yield str(place), place


def _entry(place: Path, old: Entry | None) -> Entry:
    """Return the digest of a file or folder, and the file facts that tell whether it must be read again."""
    now = time.time_ns()
    files = sorted(path for path in place.rglob("*") if path.is_file()) if place.is_dir() else [place]
    stats = [path.stat() for path in files]
    known = [[s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino] for s in stats]
    facts = hashlib.sha256(repr([*zip(map(str, files), known, strict=True)]).encode()).hexdigest()
    settled = all(s.st_ctime_ns < now - YOUNG for s in stats)
    if old and settled and old["facts"] == facts:
        return old
    digests = [[os.path.relpath(path, place), disk.digest_of(path)] for path in files]
    whole = digests[0][1] if files == [place] else hashlib.sha256(repr(digests).encode()).hexdigest()
    return {"facts": facts if settled else "", "sha256": whole}
