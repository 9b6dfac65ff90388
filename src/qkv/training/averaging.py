"""Weight averaging: an exponential moving average (EMA) over steps, or the mean of the last checkpoints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn


class MovingAverage:
    """average ← decay · average + (1 - decay) · weights, with a lower decay in the first steps."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay, self.steps = decay, 0
        self.weights = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Update the average with the weights after a step."""
        self.steps += 1
        decay = min(self.decay, self.steps / (self.steps + 10))
        parameters = dict(model.named_parameters())
        torch._foreach_lerp_(list(self.weights.values()), [parameters[name] for name in self.weights], 1 - decay)


def mean_of(weights: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Average several sets of weights (Vaswani et al. 2017, section 6.1), in fp64."""
    total: dict[str, Tensor] = {}
    count = 0
    for one in weights:
        count += 1
        for name, tensor in one.items():
            total[name] = total[name] + tensor.double() if name in total else tensor.double()
    return {name: (tensor / count).float() for name, tensor in total.items()}
