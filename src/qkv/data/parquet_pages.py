"""The headers of the pages of a Parquet file, read before the pages themselves.

A header is a Thrift struct in the compact protocol. Of its fields only four matter here: the kind of page (1), its size
unpacked (2) and packed (3), and the number of values (field 1 of 5 or 8).
"""

from __future__ import annotations

from typing import Any, BinaryIO

from qkv.common.errors import QkvError
from qkv.data.limits import PAGE, VALUES

DICTIONARY = 2  # the kind of a page
DATA = (5, 8)  # the headers of the data pages of version 1 and 2
DEEPEST = 16  # structs within structs
RATIO = 100  # text packs to a tenth; what packs to less than a hundredth is no data


def check_pages(path: str, metadata: Any, small: int) -> list[str]:
    """Refuse a file with a page that unpacks to too much; return the columns to read as dictionaries.

    Args:
        path: the file.
        metadata: what pyarrow read at the end of it.
        small: the most bytes of a dictionary that need no care, unless one row can hold many of its values.
    """
    packed = set()
    with open(path, "rb") as stream:
        for group in range(metadata.num_row_groups):
            for place in range(metadata.num_columns):
                chunk = metadata.row_group(group).column(place)
                nested = metadata.schema.column(place).max_repetition_level > 0
                largest = _check_chunk(stream, f"{path}: column {chunk.path_in_schema!r}", chunk, nested)
                if chunk.physical_type == "BYTE_ARRAY" and largest > (0 if nested else small):
                    packed.add(chunk.path_in_schema)
    return sorted(packed)


def _check_chunk(stream: BinaryIO, where: str, chunk: Any, nested: bool) -> int:
    """Return the size of the dictionary of a column chunk, unpacked."""
    start = chunk.data_page_offset
    if chunk.dictionary_page_offset:
        start = min(start, chunk.dictionary_page_offset)
    end = start + chunk.total_compressed_size
    seen = largest = 0
    while start < end and seen < chunk.num_values:
        stream.seek(start)
        header = _struct(stream)
        unpacked, stored = header.get(2, 0), header.get(3, 0)
        if unpacked > max(PAGE, RATIO * stored):
            raise QkvError(f"{where}: a page of {stored:,} bytes unpacks to {unpacked:,}; the limit is {PAGE:,} bytes")
        if header.get(1) == DICTIONARY:
            largest = max(largest, unpacked)
        seen += sum(header[data].get(1, 0) for data in DATA if data in header)
        start = stream.tell() + max(stored, 0)
    if nested and seen > max(VALUES, RATIO * chunk.total_compressed_size):
        stored = chunk.total_compressed_size
        raise QkvError(f"{where}: {stored:,} bytes unpack to {seen:,} values; the limit is {VALUES:,}")
    return largest


def _struct(stream: BinaryIO, depth: int = 0) -> dict[int, Any]:
    """Read the fields of a struct by their numbers."""
    if depth > DEEPEST:
        raise ValueError("a page header is nested too deeply")
    fields: dict[int, Any] = {}
    number = 0
    while kind := (head := _byte(stream)) & 15:
        number = number + (head >> 4) if head >> 4 else _signed(stream)
        fields[number] = _value(stream, kind, depth)
    return fields


def _value(stream: BinaryIO, kind: int, depth: int) -> Any:
    if kind in (1, 2):  # true and false are their own values
        return kind == 1
    if kind == 3:
        return _byte(stream)
    if kind in (4, 5, 6):
        return _signed(stream)
    if kind in (7, 8):
        return stream.seek(8 if kind == 7 else _unsigned(stream), 1)
    if kind == 12:
        return _struct(stream, depth + 1)
    raise ValueError(f"a page header has a field of kind {kind}")  # no field is a list, a set or a map


def _signed(stream: BinaryIO) -> int:
    number = _unsigned(stream)
    return (number >> 1) ^ -(number & 1)


def _unsigned(stream: BinaryIO) -> int:
    number = 0
    for shift in range(0, 70, 7):
        byte = _byte(stream)
        number |= (byte & 127) << shift
        if byte < 128:
            return number
    raise ValueError("a page header has a number of more than 64 bits")


def _byte(stream: BinaryIO) -> int:
    data = stream.read(1)
    if not data:
        raise ValueError("a page header is cut off")
    return data[0]
