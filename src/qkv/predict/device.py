"""Where a model runs."""

from __future__ import annotations

import os

import torch

from qkv.common.errors import UsageError

PRIMITIVES = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"


def bound_primitives() -> None:
    """Keep oneDNN's cache small, unless the user has set its size; oneDNN reads the variable when it first computes.

    It keeps code for each shape, and ragged batches rarely have the same shape twice. Over 5 MB of text a small
    classifier took 478 MB with the usual 1024 entries and 403 MB with 16; the speed was the same.
    """
    os.environ.setdefault(PRIMITIVES, "16")


def find_device(name: str | None) -> torch.device:
    """Return a device by name; None means CUDA if it is available, else the CPU."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError, NotImplementedError):
        here = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
        raise UsageError(f"device {name!r} is not available here (allowed: {', '.join(here)})") from None
    return torch.device(name)
