"""CPU memory of a run: keep the memory that one step frees for the next step."""

from __future__ import annotations

import ctypes
import sys

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # of <malloc.h>


def keep_memory() -> bool:
    """Configure glibc to keep freed memory instead of returning it to the system; return whether that worked.

    Otherwise it returns memory at every step, and the system must clear each page before it is used again, which takes
    a few percent of a step's time. Blocks of 1 GiB or more are still returned.
    """
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    if library is None or not hasattr(library, "mallopt"):
        return False
    return bool(library.mallopt(MMAP_THRESHOLD, 2**30) and library.mallopt(TRIM_THRESHOLD, 2**31 - 1))
