"""Reject impossible numbers in a config.json before the model is built."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from qkv.common.errors import UsageError

SHARED = 1024  # maximum number of layers with shared weights, which the file does not limit
LENGTH = 1 << 24  # maximum number of computed positions, which no weights limit


def check_limits(config: Any, tensors: Mapping[str, Tensor]) -> None:
    """Raise an error if a config has more layers than the file has tensors, or sizes out of range."""
    layers = SHARED if getattr(config, "flavour", "") == "albert" else len(tensors)
    for name in ("num_layers", "num_decoder_layers"):
        if getattr(config, name, 0) > layers:
            why = "" if layers == SHARED else f": the weights contain only {layers} tensors"
            raise UsageError(f"{name} {getattr(config, name)} is too large{why}")
    largest = max((tensor.numel() for tensor in tensors.values()), default=0)
    for part in (config, getattr(config, "position", None), getattr(config, "patches", None)):
        for field in dataclasses.fields(part) if part is not None else ():
            _check(field.name, getattr(part, field.name), largest)
    vocabulary = getattr(config, "vocab_size", 0)
    for name in ("start_id", "end_id", "pad_id"):
        number = getattr(config, name, None)
        if number is not None and vocabulary and not 0 <= number < vocabulary:
            raise UsageError(f"{name} {number} is outside the vocabulary of {vocabulary} tokens")


def _check(name: str, value: Any, largest: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    if isinstance(value, int):
        # Every size is a dimension of some tensor, except lengths: positions may be computed.
        most = max(LENGTH if name in ("max_length", "max_distance") else SHARED, largest)
        if not 0 <= value <= most:
            raise UsageError(f"{name} {value} must be from 0 to {most} with these weights")
    elif not math.isfinite(value) or value < 0:
        raise UsageError(f"{name} must be a finite number of at least 0, got {value}")
    elif "dropout" in name and value > 1:
        raise UsageError(f"{name} must be from 0 to 1, got {value}")
