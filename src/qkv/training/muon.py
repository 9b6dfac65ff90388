"""Muon (Jordan et al. 2024): momentum whose matrix is made orthogonal before each step.

Scaled as Liu et al. 2025 do, so that a step is as large as AdamW's and one rate serves both.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

# The quintic of Jordan et al.: five rounds bring every singular value near 1.
QUINTIC = (3.4445, -4.7750, 2.0315)
ROUNDS = 5
LIKE_ADAMW = 0.2


class Muon(torch.optim.Optimizer):
    """For matrices only."""

    def __init__(self, parameters: Iterable[Tensor], *, lr: float, weight_decay: float, momentum: float = 0.95) -> None:
        super().__init__(parameters, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Move every matrix."""
        del closure
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._move(parameter, parameter.grad, **{key: group[key] for key in self.defaults})

    def _move(self, parameter: Tensor, grad: Tensor, *, lr: float, weight_decay: float, momentum: float) -> None:
        state = self.state[parameter]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(parameter)
        state["momentum"].lerp_(grad, 1 - momentum)
        ahead = grad.lerp(state["momentum"], momentum)  # Nesterov's look ahead
        size = LIKE_ADAMW * max(parameter.shape) ** 0.5
        parameter.mul_(1 - lr * weight_decay).add_(orthogonal(ahead).to(parameter.dtype), alpha=-lr * size)


def orthogonal(matrix: Tensor) -> Tensor:
    """Bring a matrix near to the orthogonal one with its singular vectors, by Newton-Schulz rounds."""
    a, b, c = QUINTIC
    x = matrix.bfloat16() if matrix.is_cuda else matrix.float()  # bf16 products are not safe on every CPU
    tall = x.shape[0] > x.shape[1]
    x = x.t() if tall else x
    x = x / (x.norm() + 1e-7)
    for _ in range(ROUNDS):
        square = x @ x.t()
        x = a * x + (b * square + c * square @ square) @ x
    return x.t() if tall else x
