"""How much of a GPU's peak performance a run reaches."""

from __future__ import annotations

import torch
from torch.utils.flop_counter import FlopCounterMode

from qkv.common.batch import move, size
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
    """Return the share of the peak that one token (or image) per second takes, or None if the GPU is not known.

    The forward operations of one batch are counted; the backward pass has twice as many.
    """
    peak = peak_of(torch.cuda.get_device_name(run.device)) if run.device.type == "cuda" and run.bf16 else None
    if peak is None:
        return None
    batch = next(run.job.batches(0))[0]
    random_state = torch.cuda.get_rng_state(run.device)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        run.plain_losses(move(batch, run.device))
    torch.cuda.set_rng_state(random_state, run.device)
    return 3.0 * counter.get_total_flops() / max(size(batch).amount, 1) / peak
