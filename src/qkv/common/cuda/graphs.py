"""CUDA graphs: work on a GPU recorded once, so that a replay launches all of it at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

T = TypeVar("T")


def record(warm_up: Callable[[], object], work: Callable[[], T]) -> tuple[torch.cuda.CUDAGraph, T]:
    """Record `work` without running it; returns the graph and the tensors that each replay fills.

    Args:
        warm_up: the same work, run before: what libraries and the compiler do at first use must not be recorded.
        work: what to record.
    """
    random_state = torch.cuda.get_rng_state()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            warm_up()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.set_rng_state(random_state)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        given = work()
    return graph, given
