"""Muon (Jordan et al. 2024): orthogonalise the momentum before each step.

Updates are scaled as in Liu et al. 2025 to the size of AdamW's, so that both use the same learning rate.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

# The quintic of Jordan et al.: five iterations bring every singular value near 1.
QUINTIC = (3.4445, -4.7750, 2.0315)
ROUNDS = 5
LIKE_ADAMW = 0.2


class Muon(torch.optim.Optimizer):
    """Muon, for matrices only.

    As in torch's fused optimizers, a step divides the gradients by `grad_scale` and changes nothing if `found_inf` is
    1. The loop sets both.
    """

    def __init__(
        self, parameters: Iterable[Tensor], *, lr: float | Tensor, weight_decay: float, momentum: float = 0.95
    ) -> None:
        self.grad_scale, self.found_inf = torch.ones(()), torch.zeros(())
        super().__init__(parameters, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update every matrix; matrices of the same shape are orthogonalised as one batch."""
        del closure
        for group in self.param_groups:
            alike: dict[torch.Size, list[Tensor]] = {}
            for parameter in group["params"]:
                if parameter.grad is not None:
                    alike.setdefault(parameter.shape, []).append(parameter)
            for parameters in alike.values():
                self._move(parameters, **{key: group[key] for key in self.defaults})

    def _move(self, parameters: list[Tensor], *, lr: float | Tensor, weight_decay: float, momentum: float) -> None:
        moved = [self.state[p].setdefault("momentum", torch.zeros_like(p)) for p in parameters]
        pairs = [(p.grad, m) for p, m in zip(parameters, moved, strict=True) if p.grad is not None]
        # if found_inf is 1, the gradient is replaced by the momentum itself, and the update is zero
        grads = [torch.where(self.found_inf > 0, m, grad / self.grad_scale) for grad, m in pairs]
        torch._foreach_lerp_(moved, grads, 1 - momentum)
        ahead = torch._foreach_lerp(grads, moved, momentum)  # Nesterov momentum
        rate = lr * (1.0 - self.found_inf)
        size = LIKE_ADAMW * max(parameters[0].shape) ** 0.5
        updates = orthogonal(torch.stack(ahead)).to(parameters[0].dtype) * (rate * size)
        torch._foreach_mul_(parameters, 1 - rate * weight_decay)
        torch._foreach_sub_(parameters, list(updates.unbind()))


def orthogonal(matrix: Tensor) -> Tensor:
    """Approximate the orthogonal matrices with the same singular vectors, by Newton-Schulz iterations.

    Shape: [..., rows, columns].
    """
    a, b, c = QUINTIC
    x = matrix.bfloat16() if matrix.is_cuda else matrix.float()  # bf16 products are not safe on every CPU
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(ROUNDS):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return x.mT if tall else x
