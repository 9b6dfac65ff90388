"""Model FLOPs utilisation: the share of a GPU's peak performance that a run reaches."""

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

# Dense bf16 operations per second from the data sheets; the longest matching name is used.
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
    """Return the share of the peak that one token (or image) per second takes, or None if the GPU is not listed."""
    peak = peak_of(torch.cuda.get_device_name(run.device)) if run.device.type == "cuda" and run.bf16 else None
    if peak is None:
        return None
    try:
        batch = next(run.job.batches(0))[0]
        return operations(run, batch) / max(size(batch).amount, 1) / peak
    except Exception:  # this number is only displayed: failing to compute it must not stop a run
        return None


def operations(run: Run, batch: Any) -> float:
    """Count the matrix-product FLOPs of a step on one batch; the backward pass has twice as many as the forward pass.

    Attention is counted by its formula for every kernel, since torch's counter does not support ragged kernels.
    """
    devices = [run.device] if run.device.type == "cuda" else []
    with (
        torch.random.fork_rng(devices),
        torch.no_grad(),
        torch.backends.cudnn.flags(enabled=False),  # the counter does not support cuDNN's recurrent networks either
        _counted(run.job.model) as attention,
        FlopCounterMode(display=False) as counter,
    ):
        run.plain_losses(move(batch, run.device))
    return 3.0 * (counter.get_total_flops() + sum(attention))


@contextmanager
def _counted(model: nn.Module) -> Iterator[list[int]]:
    """Make attention count its products, q kᵀ and p v, instead of computing them."""
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
