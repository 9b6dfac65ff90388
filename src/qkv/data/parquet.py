"""Read Parquet row by row in bounded memory.

Dictionaries, run lengths and compression can turn a few bytes into gigabytes. So the size of each page is checked
before it is unpacked, large dictionaries are expanded one row at a time, and each row has a limit.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from qkv.common.errors import QkvError, UsageError
from qkv.data.bad_rows import BadRow
from qkv.data.limits import ROW, over
from qkv.data.optional import need
from qkv.data.parquet_pages import check_pages

BATCH = 256  # rows to decode at a time
SMALL = 1 << 20  # bytes in a dictionary; writers stop at this size, and a batch of its values stays small


def parquet_rows(path: str) -> Iterator[tuple[str, dict[str, Any] | BadRow]]:
    """Yield the place and the columns of each row, or the reason why the row cannot be read."""
    arrow, parquet, _ = (need(f"pyarrow{part}", f"reading {path}", "pyarrow") for part in ("", ".parquet", ".compute"))
    if not os.path.isfile(path):
        raise UsageError(f"{path} {'is not a regular file' if os.path.exists(path) else 'does not exist'}")
    try:
        with parquet.ParquetFile(path) as file:
            packed = check_pages(path, file.metadata, SMALL)
        with parquet.ParquetFile(path, read_dictionary=packed, pre_buffer=False) as file:
            number = 0
            for batch in file.iter_batches(batch_size=BATCH):
                for row in _rows(batch, arrow):
                    number += 1
                    yield f"{path}:{number}", row
    except QkvError:
        raise
    except Exception as error:  # pyarrow raises a dozen types, and converting values raises more
        raise QkvError(f"{path} is not a Parquet file, or is damaged: {error}") from None


def _rows(batch: Any, arrow: Any) -> Iterator[dict[str, Any] | BadRow]:
    """Convert a small batch at once, a large one row by row."""
    if _size(batch, arrow) <= ROW:
        yield from batch.to_pylist()
        return
    for number in range(batch.num_rows):
        row = batch.slice(number, 1)
        yield row.to_pylist()[0] if _size(row, arrow) <= ROW else BadRow(over("row", ROW))


def _size(batch: Any, arrow: Any) -> int:
    return sum(_unpacked(column, arrow) for column in batch.columns)


def _unpacked(array: Any, arrow: Any) -> int:
    """Return the size of an array in bytes after dictionaries are expanded."""
    types = arrow.types
    if types.is_dictionary(array.type) and not types.is_primitive(array.type.value_type):
        lengths = arrow.compute.binary_length(array.dictionary).cast("int64")
        return int(arrow.compute.sum(lengths.take(array.indices)).as_py() or 0)
    if types.is_struct(array.type):
        return sum(_unpacked(part, arrow) for part in array.flatten())
    if types.is_nested(array.type):
        return _unpacked(array.flatten(), arrow)
    return int(array.nbytes)
