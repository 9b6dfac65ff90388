"""Parquet, row by row, in bounded memory.

A dictionary, a run length or a compressor turns a few bytes into any number of them. So each page is measured before
it is unpacked, dictionaries stay dictionaries until a row is made of them, and each row has a limit.
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

BATCH = 256  # rows that are decoded at a time
SMALL = 1 << 20  # bytes of a dictionary, at which writers stop one; a batch of values from it cannot be large


def parquet_rows(path: str) -> Iterator[tuple[str, dict[str, Any] | BadRow]]:
    """Give the place and the columns of each row, or why the row cannot be read."""
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
    except Exception as error:  # pyarrow has a dozen kinds, and more come from converting values
        raise QkvError(f"{path} is not a Parquet file, or is damaged: {error}") from None


def _rows(batch: Any, arrow: Any) -> Iterator[dict[str, Any] | BadRow]:
    """Convert a batch at once where it is small, else row by row."""
    if _size(batch, arrow) <= ROW:
        yield from batch.to_pylist()
        return
    for number in range(batch.num_rows):
        row = batch.slice(number, 1)
        yield row.to_pylist()[0] if _size(row, arrow) <= ROW else BadRow(over("row", ROW))


def _size(batch: Any, arrow: Any) -> int:
    return sum(_unpacked(column, arrow) for column in batch.columns)


def _unpacked(array: Any, arrow: Any) -> int:
    """Return the bytes of an array with the values of dictionaries in their places."""
    types = arrow.types
    if types.is_dictionary(array.type) and not types.is_primitive(array.type.value_type):
        lengths = arrow.compute.binary_length(array.dictionary).cast("int64")
        return int(arrow.compute.sum(lengths.take(array.indices)).as_py() or 0)
    if types.is_struct(array.type):
        return sum(_unpacked(part, arrow) for part in array.flatten())
    if types.is_nested(array.type):
        return _unpacked(array.flatten(), arrow)
    return int(array.nbytes)
