"""How much of a GPU's peak performance a run reaches."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from qkv.common.batch import move, size
from qkv.nn.kernels import Call
from qkv.training.run import Run

# Dense bf16 operations per second from the data sheets; the longest matching name counts.
PEAKS = {
    "B200": 2250e12,
    "H200": 989e12,
    "H100": 989e12,
    "H100 PCIe": 756e12,
    "H100 NVL": 835e12,
    "A100": 312e12,
    "A40": 150e12,
    "A10": 125e12,
    "L40S": 362e12,
    "L4": 121e12,
    "RTX 4090": 165e12,
    "RTX 3090": 71e12,
}


def peak_of(name: str) -> float | None:
    """Return the peak of a GPU by its name, or None if it is not listed."""
    return next((PEAKS[known] for known in sorted(PEAKS, key=len, reverse=True) if known in name), None)


def work_per_unit(run: Run) -> float | None:
    """Return the share of the peak that one token (or image) a second takes, or None off a GPU that is known."""
    peak = peak_of(torch.cuda.get_device_name(run.device)) if run.device.type == "cuda" and run.bf16 else None
    if peak is None:
        return None
    try:
        batch = next(run.job.batches(0))[0]
        return operations(run, batch) / max(size(batch).amount, 1) / peak
    except Exception:  # a number that is only shown must not stop a run
        return None


def operations(run: Run, batch: Any) -> float:
    """Count the operations of a step's products over one batch; backwards has twice as many as forwards.

    Attention is counted by its formula, whatever kernel the model takes: torch's counter knows no ragged ones.
    """
    devices = [run.device] if run.device.type == "cuda" else []
    with (
        torch.random.fork_rng(devices),
        torch.no_grad(),
        torch.backends.cudnn.flags(enabled=False),  # nor does the counter know cuDNN's recurrent networks
        _counted(run.job.model) as attention,
        FlopCounterMode(display=False) as counter,
    ):
        run.plain_losses(move(batch, run.device))
    return 3.0 * (counter.get_total_flops() + sum(attention))


@contextmanager
def _counted(model: nn.Module) -> Iterator[list[int]]:
    """Have attention count its products, q kᵀ and p v, in place of computing them."""
    found: list[int] = []

    def count(call: Call) -> Tensor:
        pairs = sum(map(math.prod, zip(call.queries.host_lengths, call.keys.host_lengths, strict=True)))
        found.append(4 * pairs * math.prod(call.q.shape[1:]))
        return torch.zeros_like(call.q)

    kept: list[Any] = [module for module in model.modules() if hasattr(module, "kernel")]
    kernels = [module.kernel for module in kept]
    try:
        for module in kept:
            module.kernel = count
        yield found
    finally:
        for module, kernel in zip(kept, kernels, strict=True):
            module.kernel = kernel
