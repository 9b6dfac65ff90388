"""Numbers of a config.json that cannot be, found before anything is built of them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from qkv.common.errors import UsageError

SHARED = 1024  # layers that may share their weights: those in the file do not bound them
LENGTH = 1 << 24  # positions that may be computed: no weights bound them


def check_limits(config: Any, tensors: Mapping[str, Tensor]) -> None:
    """Stop where a config asks for more layers than the file has tensors, or for numbers that no model has."""
    layers = SHARED if getattr(config, "flavour", "") == "albert" else len(tensors)
    for name in ("num_layers", "num_decoder_layers"):
        if getattr(config, name, 0) > layers:
            why = "" if layers == SHARED else f", and the weights hold {layers} tensors in all"
            raise UsageError(f"{name} {getattr(config, name)} is too large{why}")
    largest = max((tensor.numel() for tensor in tensors.values()), default=0)
    for part in (config, getattr(config, "position", None)):
        for field in dataclasses.fields(part) if part is not None else ():
            _check(field.name, getattr(part, field.name), largest)
    vocabulary = getattr(config, "vocab_size", 0)
    for name in ("start_id", "end_id", "pad_id"):
        number = getattr(config, name, None)
        if number is not None and vocabulary and not 0 <= number < vocabulary:
            raise UsageError(f"{name} {number} is not among the {vocabulary} tokens")


def _check(name: str, value: Any, largest: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    if isinstance(value, int):
        # Every size is a side of some tensor, but for lengths, which may be computed.
        most = max(LENGTH if name in ("max_length", "max_distance") else SHARED, largest)
        if not 0 <= value <= most:
            raise UsageError(f"{name} {value} must be from 0 to {most} with these weights")
    elif not math.isfinite(value) or value < 0:
        raise UsageError(f"{name} must be a finite number of at least 0, got {value}")
    elif "dropout" in name and value > 1:
        raise UsageError(f"{name} must be from 0 to 1, got {value}")
