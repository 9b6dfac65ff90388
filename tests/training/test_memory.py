"""Freed memory is kept: asking for it again costs no page."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from qkv.training.memory import keep_memory


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc is told")
def test_a_block_that_was_freed_is_had_again_without_a_page_fault() -> None:
    import resource

    if not keep_memory():
        pytest.skip("this C library cannot be told")

    def faults() -> int:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        block = np.empty(5_000_003)
        block.fill(1.0)
        del block
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    faults()
    assert faults() < 1000  # 40 MB are 9,766 pages
