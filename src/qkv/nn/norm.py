"""Normalisation of each row by itself."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

NORMS: dict[str, Callable[..., nn.Module]] = {
    "layer": nn.LayerNorm,  # (x - mean) / std · weight + bias (Ba et al. 2016)
    "rms": nn.RMSNorm,  # x / rms(x) · weight (Zhang & Sennrich 2019)
}
