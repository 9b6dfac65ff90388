"""Where a model runs."""

from __future__ import annotations

import torch

from qkv.common.errors import UsageError


def find_device(name: str | None) -> torch.device:
    """Return a device by name; CUDA where there is one if it is None."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError, NotImplementedError):
        here = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
        raise UsageError(f"device {name!r} is not available here (allowed: {', '.join(here)})") from None
    return torch.device(name)
