"""Write the files of a store in chunks, with running digests, under temporary names until they are complete."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from io import FileIO
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from qkv.common import disk
from qkv.common.errors import QkvError, UsageError
from qkv.data.store_manifest import (
    DTYPES,
    MANIFEST,
    OFFSETS,
    VERSION,
    check_names,
    files,
    read_manifest,
    write_manifest,
)

Array: TypeAlias = NDArray[Any]
Row: TypeAlias = Mapping[str, Sequence[int] | Sequence[float] | Array | int | float]

CHUNK_ROWS, CHUNK_VALUES = 1024, 1 << 18  # written at a time
PIECE = 1 << 16  # bytes per system call


class NoRows(UsageError):
    """There are no rows to store."""


class Writer:
    """Writes all columns of a store."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows = 0
        self._columns: dict[str, _Column] = {}
        self._waiting = 0

    def add(self, row: Row) -> None:
        """Add one row; the first row determines the columns."""
        if not self._columns:
            self._begin(row)
        if row.keys() != self._columns.keys():
            here, first = ", ".join(row), ", ".join(self._columns)
            raise UsageError(f"row {self.rows} has the columns {here or 'none'}, but row 0 has {first}")
        self._waiting += sum(column.add(row[name]) for name, column in self._columns.items())
        self.rows += 1
        if self._waiting >= CHUNK_VALUES or self.rows % CHUNK_ROWS == 0:
            self._flush()

    def publish(self, key: str) -> None:
        """Write the remaining rows and rename the files to their final names.

        The old manifest is removed first and the new one written last. A folder without a manifest is not a store, so a
        crash cannot leave half of one. If another process wrote the same rows, its files are replaced by equal ones.
        """
        with disk.no_space(str(self.folder)):
            self._publish(self._finish(key), self._old())

    def _publish(self, manifest: dict[str, Any], old: dict[str, Any] | None) -> None:
        if old != manifest:
            disk.remove(self.folder / MANIFEST)
            for name, _, _ in files(old) if old else ():
                disk.remove(self.folder / name)
        for file in self._files():
            disk.rename(file.part, file.path)
        disk.sync(self.folder)
        write_manifest(self.folder, manifest)

    def clean(self) -> None:
        """Remove unpublished files."""
        for file in self._files():
            file.handle.close()
            disk.remove(file.part)

    def _begin(self, row: Row) -> None:
        if not row:
            raise UsageError("row 0 has no columns")
        check_names(row)
        with disk.no_space(str(self.folder)):
            for name in row:
                self._columns[name] = _Column(self.folder, name)

    def _flush(self) -> None:
        for column in self._columns.values():
            column.flush()
        self._waiting = 0

    def _finish(self, key: str) -> dict[str, Any]:
        if not self.rows:
            raise NoRows(f"there are no rows to write to {self.folder}")
        self._flush()
        for file in self._files():
            os.fsync(file.handle.fileno())
        columns = {name: column.described() for name, column in self._columns.items()}
        return {"version": VERSION, "key": key, "rows": self.rows, "columns": columns}

    def _old(self) -> dict[str, Any] | None:
        try:
            return read_manifest(self.folder)
        except QkvError:  # a damaged store is replaced
            return None

    def _files(self) -> list[_File]:
        return [file for column in self._columns.values() for file in (column.values, column.offsets)]


class _Column:
    """Writes one column."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.values, self.offsets = _File(folder / f"{name}.bin"), _File(folder / f"{name}.offsets")
        self.dtype = ""  # determined by the first row that is not empty
        self.rows = self.end = 0
        self.parts: list[Array] = []

    def add(self, value: Any) -> int:
        """Add the column's values of one row and return their number."""
        try:
            part = np.asarray(value).reshape(-1)
        except ValueError:  # lists of different lengths
            part = np.empty(1, dtype=object)
        # For numpy, an empty list has the type float; the smallest type does not affect the others.
        self.parts.append(part if part.size else np.empty(0, dtype=np.uint8))
        return part.size

    def flush(self) -> None:
        """Write the buffered parts as one array."""
        if not self.parts:
            return
        self.dtype = self.dtype or next((_dtype(part) for part in self.parts if part.size), "")
        allowed = "iubf" if self.dtype == "float32" else "iub"
        for number, part in enumerate(self.parts):
            if part.dtype.kind not in allowed:
                self._refuse(number, "integers, like row 0" if part.dtype.kind == "f" else "numbers")
        ends = np.cumsum([part.size for part in self.parts], dtype=OFFSETS)
        self.values.write(self._cast(np.concatenate(self.parts), ends))
        self.offsets.write(ends + self.end if self.rows else np.append(np.zeros(1, OFFSETS), ends))
        self.end, self.rows, self.parts = self.end + int(ends[-1]), self.rows + len(self.parts), []

    def described(self) -> dict[str, Any]:
        """Return the manifest entry of the column."""
        digests = {"bin": self.values.digest.hexdigest(), "offsets": self.offsets.digest.hexdigest()}
        return {"dtype": self.dtype or "int32", "values": self.end, **digests}

    def _cast(self, flat: Array, ends: Array) -> Array:
        dtype = np.dtype(DTYPES[self.dtype or "int32"])
        if dtype.kind != "f" and flat.size:
            low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
            if flat.min() < low or flat.max() > high:
                bad = np.flatnonzero((flat < low) | (flat > high))[0]
                self._refuse(int(np.searchsorted(ends, bad, "right")), f"numbers from {low} to {high}")
        return flat.astype(dtype)

    def _refuse(self, number: int, needed: str) -> None:
        raise UsageError(f"column {self.name!r} of row {self.rows + number} must hold {needed}")


class _File:
    """A file with a temporary name until it is published, with a running digest."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.part = disk.unfinished(path)
        self.handle = FileIO(self.part, "w")
        self.digest = hashlib.sha256()

    def write(self, array: Array) -> None:
        data = array.tobytes()
        self.digest.update(data)
        with disk.no_space(str(self.path)):
            # Linux caches one large write as one large block, and a page fault then maps the whole block.
            for start in range(0, len(data), PIECE):
                piece = memoryview(data)[start : start + PIECE]
                while piece:
                    piece = piece[self.handle.write(piece) :]


def _dtype(part: Array) -> str:
    return "uint8" if part.dtype == np.uint8 else "float32" if part.dtype.kind == "f" else "int32"
