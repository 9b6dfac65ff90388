"""Scores must be numbers: a model whose weights are damaged is an error, not an answer."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from qkv.common.errors import QkvError


def finite(scores: Tensor | Sequence[float]) -> Tensor:
    """Return scores that are numbers, and raise an error for NaN and infinity."""
    found = scores if isinstance(scores, Tensor) else torch.tensor(scores)
    if not bool(found.isfinite().all()):
        raise QkvError("the model's scores are not numbers (NaN or infinity): its weights are damaged or diverged")
    return found
