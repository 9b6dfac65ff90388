"""Memory of a run on the CPU: what one step frees is kept for the next."""

from __future__ import annotations

import ctypes
import sys

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # of <malloc.h>


def keep_memory() -> bool:
    """Tell glibc not to hand freed memory back to the system; returns whether it is told.

    It would at every step, and each page that is asked for again must first be cleared: some hundredths of a step's
    time. Blocks of a GiB and more are still handed back.
    """
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    if library is None or not hasattr(library, "mallopt"):
        return False
    return bool(library.mallopt(MMAP_THRESHOLD, 2**30) and library.mallopt(TRIM_THRESHOLD, 2**31 - 1))
