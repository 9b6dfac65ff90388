"""Work on a GPU recorded once as a CUDA graph: replaying it launches everything at one go."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

T = TypeVar("T")


def record(warm_up: Callable[[], object], work: Callable[[], T]) -> tuple[torch.cuda.CUDAGraph, T]:
    """Record `work`, which is not done by that; returns the recording and the tensors that each replay fills anew.

    Args:
        warm_up: the same work, done before: what libraries and the compiler do at first use must not be recorded.
        work: what is recorded.
    """
    chance = torch.cuda.get_rng_state()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            warm_up()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.set_rng_state(chance)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        given = work()
    return graph, given
