"""Check the page headers of a Parquet file before its pages are unpacked.

A page header is a Thrift struct in the compact protocol. Four fields matter here: the type of the page (1), its size
unpacked (2) and stored (3), and the number of values (field 1 of 5 or 8).
"""

from __future__ import annotations

from typing import Any, BinaryIO

from qkv.common.errors import QkvError
from qkv.data.limits import PAGE, VALUES

DICTIONARY = 2  # a page type
DATA = (5, 8)  # the fields with the headers of data pages, version 1 and 2
DEEPEST = 16  # nested structs
RATIO = 100  # text compresses by a factor of 3 to 10


def check_pages(path: str, metadata: Any, small: int) -> list[str]:
    """Raise if a page unpacks to too much; return the columns to read as dictionaries.

    Args:
        path: the file.
        metadata: the metadata that pyarrow read from the file.
        small: the size of a dictionary that is safe to expand for a batch of rows. In a column of lists none is,
            because a row can hold any number of its values.
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
    """Return the unpacked size of the dictionary of a column chunk."""
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
    if kind in (1, 2):  # the type of a boolean is its value
        return kind == 1
    if kind == 3:
        return _byte(stream)
    if kind in (4, 5, 6):
        return _signed(stream)
    if kind in (7, 8):
        return stream.seek(8 if kind == 7 else _unsigned(stream), 1)
    if kind == 12:
        return _struct(stream, depth + 1)
    raise ValueError(f"a page header has a field of kind {kind}")  # page headers have no lists, sets or maps


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
