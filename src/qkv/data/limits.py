"""How large one piece of a file may be.

A few kilobytes of a compressed file can unpack to gigabytes. Everything that is held in memory at once has a limit that
real data stays far below.
"""

from __future__ import annotations

from qkv.common.errors import QkvError

LINE = 1 << 27  # bytes of a line of text; text8, a whole corpus on one line, has 100 MB
ROW = 1 << 25  # bytes of a row of a table
WHOLE = 1 << 28  # bytes of a file that is read at once; the JSON of SQuAD 2.0 has 42 MB
CONTAINERS = 1 << 22  # objects and arrays in one JSON text: "{}" takes 2 bytes in a file and 64 in memory
PAGE = 1 << 26  # bytes of a page of a Parquet file; writers aim at 1 to 100 MB
VALUES = 1 << 24  # values of a column chunk of lists
PIXELS = 1 << 26  # of one image: 8192 x 8192
LABELS = 1 << 28  # bytes of the labels of all images, which are held together


def too_large(where: str, what: str, limit: int) -> QkvError:
    """Return the error for a piece that exceeds its limit."""
    return QkvError(f"{where}: {over(what, limit)}")


def over(what: str, limit: int) -> str:
    """Say that something exceeds a limit of so many bytes."""
    size = f"{limit >> 20} MiB" if limit >> 20 else f"{limit} bytes"
    return f"the {what} is larger than {size}, the limit for one {what}"
