"""What each kind of layer costs: theory (Vaswani et al. 2017, table 1) beside measurement.

                        operations     sequential   longest path
self-attention          n² · d         O(1)         O(1)
local attention         w · n · d      O(1)         O(n / w)
recurrent               n · d²         O(n)         O(n)
convolution             k · n · d²     O(1)         O(n / k)
dilated convolution     k · n · d²     O(1)         O(log_k n)

Each layer is a part of nn/, run forward on one sequence of n tokens of width d. Time and memory are measured along n
and along d, and the slope of a line through log(cost) over log(size) is the measured exponent (least squares).
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from qkv.common.progress import Bar
from qkv.common.ragged import Ragged
from qkv.insight.layer_kinds import KERNEL_WIDTH, KINDS, WINDOW, Kind
from qkv.insight.layer_reach import path_length, sequential_steps

REPEATS = 5  # the least of them counts: whatever else happens only adds time
Points = list[tuple[int, float]]


@dataclass(frozen=True)
class Sizes:
    """Where the layers are measured.

    Attributes:
        lengths: the values of n.
        dim: the width while n grows.
        dims: the values of d.
        length: the length while d grows.
        reach: the length at which sequential steps and paths are counted.
    """

    lengths: Sequence[int]
    dim: int
    dims: Sequence[int]
    length: int
    reach: int = 256


SIZES = {
    "cpu": Sizes((256, 512, 1024, 2048, 4096), 64, (64, 128, 256, 512, 1024), 512),
    "cuda": Sizes((1024, 2048, 4096, 8192, 16_384), 512, (256, 512, 1024, 2048, 4096), 4096),
}
SMALL = Sizes((64, 128, 256), 32, (32, 64, 128), 64, 64)


@dataclass(frozen=True)
class LayerCost:
    """The costs of one kind of layer.

    Attributes:
        name: the kind.
        operations: the number of operations in theory.
        sequential: sequential operations in theory.
        path: the longest path between two tokens in theory.
        theory: the exponents of n and d in the number of operations.
        seconds_n: seconds by length.
        seconds_d: seconds by width.
        bytes_n: peak memory by length, in bytes.
        bytes_d: peak memory by width.
        steps: sequential steps, counted.
        hops: how many layers or steps lie between the first and the last token, counted.
    """

    name: str
    operations: str
    sequential: str
    path: str
    theory: tuple[float, float]
    seconds_n: Points
    seconds_d: Points
    bytes_n: Points
    bytes_d: Points
    steps: int
    hops: int

    @property
    def exponents(self) -> dict[str, float]:
        """The measured exponents: of time in n and d, of memory in n and d."""
        measured = {
            "time_n": self.seconds_n,
            "time_d": self.seconds_d,
            "memory_n": self.bytes_n,
            "memory_d": self.bytes_d,
        }
        return {name: exponent(points) for name, points in measured.items()}


@dataclass(frozen=True)
class LayerCosts:
    """The costs of all kinds of layers on one device."""

    device: str
    sizes: Sizes
    layers: Sequence[LayerCost]

    def to_dict(self) -> dict[str, Any]:
        """Return everything for JSON."""
        layers = [asdict(layer) | {"exponents": layer.exponents} for layer in self.layers]
        facts = {"device": self.device, "torch": torch.__version__, "kernel_width": KERNEL_WIDTH, "window": WINDOW}
        return facts | {"sizes": asdict(self.sizes), "layers": layers}


def measure(device: torch.device, sizes: Sizes | None = None) -> LayerCosts:
    """Measure every kind of layer on a device; on the CPU with one thread."""
    sizes = sizes or SIZES["cuda" if device.type == "cuda" else "cpu"]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _measured(device, sizes)
    finally:
        torch.set_num_threads(threads)


def _measured(device: torch.device, sizes: Sizes) -> LayerCosts:
    places = [(n, sizes.dim) for n in sizes.lengths] + [(sizes.length, d) for d in sizes.dims]
    found = []
    with Bar("measuring", total=len(KINDS) * len(places)) as bar:
        for kind in KINDS:
            both = [measured(kind, n, d, device) for n, d in bar.each(places)]
            along_n, along_d = both[: len(sizes.lengths)], both[len(sizes.lengths) :]
            found.append(
                LayerCost(
                    name=kind.name,
                    operations=kind.operations,
                    sequential=kind.sequential,
                    path=kind.path,
                    theory=kind.theory,
                    seconds_n=[(n, one[0]) for n, one in zip(sizes.lengths, along_n, strict=True)],
                    seconds_d=[(d, one[0]) for d, one in zip(sizes.dims, along_d, strict=True)],
                    bytes_n=[(n, one[1]) for n, one in zip(sizes.lengths, along_n, strict=True)],
                    bytes_d=[(d, one[1]) for d, one in zip(sizes.dims, along_d, strict=True)],
                    steps=sequential_steps(kind, sizes.reach),
                    hops=path_length(kind, sizes.reach),
                )
            )
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "one CPU thread"
    return LayerCosts(name, sizes, found)


@torch.inference_mode()
def measured(kind: Kind, n: int, d: int, device: torch.device) -> tuple[float, float]:
    """Return the seconds of a forward pass and its peak memory in bytes; weights and input do not count."""
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32  # what the fused kernels on CUDA read
    torch.manual_seed(0)
    layer = kind.build(d).to(device, dtype).eval()
    x, layout = torch.randn(n, d, device=device, dtype=dtype), Ragged.of([n], device)

    def run() -> Any:
        return layer(x, layout)

    return min(_seconds(run, device)), _peak(run, device)


def _seconds(run: Callable[[], Any], device: torch.device) -> Iterator[float]:
    """Time some passes after a first one, on the clock of the device."""
    run()
    for _ in range(REPEATS):
        if device.type == "cuda":
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            run()
            end.record()
            torch.cuda.synchronize(device)
            yield start.elapsed_time(end) / 1000
        else:
            began = time.process_time()  # of one thread, so that other work on the machine does not count
            run()
            yield time.process_time() - began


def _peak(run: Callable[[], Any], device: torch.device) -> float:
    """Return the most memory that a pass holds at a time, its result included."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        run()
        torch.cuda.synchronize(device)
        return float(torch.cuda.max_memory_allocated(device) - before)
    with _quiet(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        result = run()
    del result
    now = most = 0
    for event in watched.profiler.kineto_results.events():  # in the order of time
        if event.name() == "[memory]":
            now += event.nbytes()
            most = max(most, now)
    return float(most)


@contextmanager
def _quiet() -> Iterator[None]:
    """Drop what the profiler's C++ code writes to standard error: two lines for each use."""
    sys.stderr.flush()
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """Return b of cost = a · size^b, by least squares on the logarithms; nan if a cost is not above zero."""
    if len(points) < 2 or any(size <= 0 or cost <= 0 for size, cost in points):
        return math.nan
    x, y = ([math.log(point[place]) for point in points] for place in (0, 1))
    middle = sum(x) / len(x)
    spread = sum((one - middle) ** 2 for one in x)
    return sum((a - middle) * b for a, b in zip(x, y, strict=True)) / spread if spread else math.nan
