"""Rows of numbers in memory-mapped files, written once and verified by digests. They are never loaded as a whole.

rows           {"ids": [5, 6, 7]}  {"ids": []}  {"ids": [8]}
ids.bin        5 6 7 8     all values, concatenated
ids.offsets    0 3 3 4     row i holds the values offsets[i] ... offsets[i + 1] - 1
manifest.json  the key, the columns, the number of rows, the SHA-256 of each file; written last
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from qkv.common import disk
from qkv.common.errors import UsageError, unknown
from qkv.data.store_manifest import DTYPES, MANIFEST, OFFSETS, check_file, damaged, files, read_manifest
from qkv.data.store_writer import CHUNK_ROWS, Array, Row, Writer

BLOCK = 1 << 20  # offsets read at a time
RESIDENT = 1 << 28  # bytes of one file that may stay mapped in this process
FAULT = 1 << 17  # approximate number of bytes that Linux maps per page fault
LONG = 160  # values; longer rows are copied one by one, which is faster than indexing each value


class Store:
    """A read-only folder of ragged columns. Create one with `write`, `open` or `cached`.

    Attributes:
        folder: the path of the folder.
        key: identifies the input of the rows; a different key means different rows.
        columns: the names of the columns, in the order of the first row.
    """

    def __init__(self, folder: Path, manifest: Mapping[str, Any], resident: int) -> None:
        self.folder = folder
        self.key: str = manifest["key"]
        self.columns: tuple[str, ...] = tuple(manifest["columns"])
        self._rows: int = manifest["rows"]
        self._values = {
            name: _Map(folder / f"{name}.bin", DTYPES[column["dtype"]], resident)
            for name, column in manifest["columns"].items()
        }
        self._offsets = {name: _Map(folder / f"{name}.offsets", OFFSETS, resident) for name in self.columns}

    @staticmethod
    def write(folder: Path, rows: Iterable[Row], *, key: str, progress: Callable[[int], None] | None = None) -> Store:
        """Write a stream of rows. An old store in the folder stays intact until all rows are written.

        Args:
            folder: the folder to write to, created if it does not exist.
            rows: the first row determines the columns. Lists and arrays are flattened, and a number becomes one value.
                Integers are stored as int32, floats as float32 and arrays of bytes as uint8.
            key: identifies the input of the rows.
            progress: called with the number of rows written, from time to time and at the end.
        """
        with disk.no_space(str(folder)):
            folder.mkdir(parents=True, exist_ok=True)
        writer = Writer(folder)
        try:
            for row in rows:
                writer.add(row)
                if progress is not None and writer.rows % CHUNK_ROWS == 0:
                    progress(writer.rows)
            writer.publish(key)
        finally:
            writer.clean()
        if progress is not None:
            progress(writer.rows)
        return Store.open(folder, verify=False)

    @staticmethod
    def open(folder: Path, *, verify: bool = True, resident: int = RESIDENT) -> Store:
        """Open a store; raise an error that names the file if one has changed since it was written.

        Args:
            folder: the folder of a complete store.
            verify: read every file and compare its digest. Sizes are always compared.
            resident: approximately how many bytes of each file may stay mapped in this process. The page cache of the
                system is not affected.
        """
        manifest = read_manifest(folder)
        if manifest is None:
            raise UsageError(f"{folder} holds no complete store: {MANIFEST} is missing")
        for name, size, digest in files(manifest):
            check_file(folder / name, size, digest if verify else None)
        store = Store(folder, manifest, resident)
        for name in store.columns:
            if store._offsets[name].array[-1] != store._values[name].array.size:
                raise damaged(folder / f"{name}.offsets", "it does not end where the values end")
        return store

    @staticmethod
    def cached(
        folder: Path,
        key: str,
        make_rows: Callable[[], Iterable[Row]],
        progress: Callable[[int], None] | None = None,
        *,
        verify: bool = True,
    ) -> Store:
        """Open the store in a folder if it has this key, otherwise write it. Call it in one process first."""
        manifest = read_manifest(folder)
        if manifest is not None and manifest["key"] == key:
            return Store.open(folder, verify=verify)
        return Store.write(folder, make_rows(), key=key, progress=progress)

    def __len__(self) -> int:
        """The number of rows."""
        return self._rows

    def row(self, number: int) -> dict[str, Array]:
        """Return one row, as copies."""
        return {name: self.gather(name, [number])[0] for name in self.columns}

    def rows(self, numbers: ArrayLike) -> list[dict[str, Array]]:
        """Return some rows, in the given order."""
        columns = []
        for name in self.columns:
            values, lengths = self.gather(name, numbers)
            columns.append(np.split(values, np.cumsum(lengths)[:-1]) if len(lengths) else [])
        return [dict(zip(self.columns, row, strict=True)) for row in zip(*columns, strict=True)]

    def gather(self, column: str, rows: ArrayLike) -> tuple[Array, NDArray[np.int64]]:
        """Return copies of the concatenated values of some rows, and of the rows' lengths."""
        starts, lengths = self.stretches(column, rows)
        return self.spans(column, starts, lengths), lengths

    def stretches(self, column: str, rows: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the start of some rows in the stream of a column, and their lengths."""
        numbers = self._numbers(rows)
        _, offsets = self._column(column)
        starts = offsets.array[numbers]
        lengths: NDArray[np.int64] = offsets.array[numbers + 1] - starts
        offsets.touched(len(numbers), 0)
        return starts, lengths

    def spans(self, column: str, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> Array:
        """Return a copy of concatenated stretches of the stream, regardless of rows."""
        values, _ = self._column(column)
        if lengths.sum() > LONG * len(lengths):
            parts = zip(starts.tolist(), lengths.tolist(), strict=True)
            flat = np.concatenate([values.array[start : start + length] for start, length in parts])
        else:
            flat = values.array[_places(starts, lengths)]
        values.touched(len(starts), flat.nbytes)
        return flat

    def borders(
        self, column: str, starts: NDArray[np.int64], stops: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Find the row starts inside stretches of the stream by bisection; return them and their number per stretch."""
        _, offsets = self._column(column)
        first, last = offsets.array.searchsorted(starts, "right"), offsets.array.searchsorted(stops, "left")
        inside: NDArray[np.int64] = offsets.array[_places(first, last - first)]
        offsets.touched(len(starts) * len(self).bit_length(), inside.nbytes)
        return inside, last - first

    def lengths(self, column: str) -> NDArray[np.int32]:
        """Return the length of every row. At four bytes per row, this is all that grows in memory with the corpus."""
        _, offsets = self._column(column)
        lengths = np.empty(len(self), dtype=np.int32)
        for start in range(0, len(self), BLOCK):
            block = offsets.array[start : start + BLOCK + 1]
            np.subtract(block[1:], block[:-1], out=lengths[start : start + BLOCK], casting="same_kind")
            offsets.touched(1, block.nbytes)
        return lengths

    def values(self, column: str) -> Array:
        """Return the whole stream of a column, memory-mapped and read-only."""
        return self._column(column)[0].file

    def _column(self, name: str) -> tuple[_Map, _Map]:
        if name not in self._values:
            raise unknown("column", name, self.columns)
        return self._values[name], self._offsets[name]

    def _numbers(self, rows: ArrayLike) -> NDArray[np.int64]:
        numbers = np.asarray(rows, dtype=np.int64)
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < len(self):
            bad = numbers[(numbers < 0) | (numbers >= len(self))][0]
            raise UsageError(f"row {bad} does not exist: the store has the rows 0 to {len(self) - 1}")
        return numbers


def _places(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the concatenated indices `start ... start + length - 1` of each stretch."""
    ends = np.cumsum(lengths)
    places = np.repeat(starts - ends + lengths, lengths)
    places += np.arange(len(places))
    return places


class _Map:
    """A memory-mapped file that releases its pages to the system before they accumulate.

    The system can reclaim the pages of a file at any time, but they count as memory of this process while mapped.
    """

    def __init__(self, path: Path, dtype: str, resident: int) -> None:
        # An empty file cannot be mapped.
        self.file = np.memmap(path, dtype=dtype, mode="r") if path.stat().st_size else np.empty(0, dtype)
        self.array = np.asarray(self.file)  # a plain array is faster to slice than a memmap
        self._resident, self._mapped = resident, 0

    def touched(self, places: int, size: int) -> None:
        """Record that `size` bytes were copied from about `places` places."""
        self._mapped += places * FAULT + size
        if self._mapped > self._resident and self.array.nbytes > self._resident and hasattr(mmap, "MADV_DONTNEED"):
            self._mapped = 0
            base: Any = self.file.base
            base.madvise(mmap.MADV_DONTNEED)
