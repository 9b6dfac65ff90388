"""How large one piece of a file may be.

A few kilobytes of a compressed file can unpack to gigabytes, so everything that must fit into memory at once has
a limit, far above what real data needs.
"""

from __future__ import annotations

from qkv.common.errors import QkvError

LINE = 1 << 27  # bytes in a line of text; text8 is a single line of 100 MB
ROW = 1 << 25  # bytes in a row of a table
WHOLE = 1 << 28  # bytes in a file that is read at once; SQuAD 2.0 has 42 MB
CONTAINERS = 1 << 22  # objects and arrays in one JSON text: "{}" takes 2 bytes in a file and 64 in memory
PAGE = 1 << 26  # bytes in a page of a Parquet file, unless it was stored in a hundredth of them or more
VALUES = 1 << 24  # values in a column chunk of lists, with the same exception
PIXELS = 1 << 26  # pixels in an image: 8192 x 8192
LABELS = 1 << 28  # bytes in the labels of all images of a file


def too_large(where: str, what: str, limit: int) -> QkvError:
    """Return the error for a piece that exceeds its limit."""
    return QkvError(f"{where}: {over(what, limit)}")


def over(what: str, limit: int) -> str:
    """Return the sentence for something larger than `limit` bytes."""
    size = f"{limit >> 20} MiB" if limit >> 20 else f"{limit} bytes"
    return f"the {what} is larger than {size}, the limit for one {what}"
