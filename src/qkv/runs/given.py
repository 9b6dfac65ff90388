"""Data given as Python rows: it is kept as JSON lines, so that a run reads, checks and resumes it like any file."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from os import fspath
from pathlib import Path
from typing import Any

from qkv.common.errors import QkvError, UsageError
from qkv.data.files import PathName
from qkv.data.python_rows import is_files, write_rows
from qkv.runs.layout import RECIPE, SHRINK

Files = PathName | Sequence[PathName] | Any  # or rows: see `qkv.data.python_rows`
ROWS = "rows"  # the sub-folder of a run


@contextmanager
def as_files(given: Mapping[str, Any], folder: Path) -> Iterator[dict[str, tuple[str, ...]]]:
    """Yield the files of each part (train, valid, test); rows are written to `folder`/rows/PART.jsonl.

    Errors within name a part and a row instead of a line of the written file. If the folder holds no run in the end,
    the rows are removed.
    """
    place = folder / ROWS
    parts = {name: data for name, data in given.items() if data is not None and not is_files(data)}
    try:
        for name, data in parts.items():
            write_rows(data, name, place / f"{name}.jsonl")
        yield {name: _paths(data, place / f"{name}.jsonl") for name, data in given.items()}
    except QkvError as error:
        said = str(error)
        for name in parts:
            said = said.replace(f"{place / name}.jsonl:", f"{name} row ")
        if said == str(error):
            raise
        raise (UsageError if isinstance(error, UsageError) else QkvError)(said) from None
    finally:
        if parts and not any((folder / name).exists() for name in (RECIPE, SHRINK)):
            shutil.rmtree(place, ignore_errors=True)
            with suppress(OSError):  # not empty
                folder.rmdir()


def _paths(data: Any, written: Path) -> tuple[str, ...]:
    if data is None:
        return ()
    if not is_files(data):
        return (str(written),)
    return tuple(map(fspath, data)) if isinstance(data, list | tuple) else (fspath(data),)
