"""Multi-task learning: several objectives on one model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from qkv.common.config import check_range
from qkv.common.errors import UsageError, unknown
from qkv.objectives.parts import Losses, Objective


@dataclass(frozen=True)
class Mixture:
    """Several objectives at once: a batch for each, and a weighted sum of their losses.

    A part is named "objective/part". A step may have only some of the batches.

    Attributes:
        objectives: each objective and its weight, by the name of its batch.
    """

    objectives: Mapping[str, tuple[Objective, float]]

    def __post_init__(self) -> None:
        if not self.objectives:
            raise UsageError("a mixture needs at least one objective")
        for name, (_, weight) in self.objectives.items():
            check_range(f"the weight of {name}", weight, 0)

    @property
    def weights(self) -> dict[str, float]:
        """Each objective's weights times its own."""
        return {
            f"{name}/{part}": weight * inner
            for name, (objective, weight) in self.objectives.items()
            for part, inner in objective.weights.items()
        }

    def counts(self, batch: Mapping[str, Any]) -> dict[str, Tensor]:
        """Each objective's own."""
        return {
            f"{name}/{key}": count
            for name, part in batch.items()
            for key, count in self._objective(name).counts(part).items()
        }

    def __call__(self, model: Any, batch: Mapping[str, Any]) -> Losses:
        """Run each objective on the batch of its name."""
        losses: Losses = {}
        for name, part in batch.items():
            losses |= {f"{name}/{key}": loss for key, loss in self._objective(name)(model, part).items()}
        return losses

    def _objective(self, name: str) -> Objective:
        if name not in self.objectives:
            raise unknown("objective of the mixture", name, self.objectives)
        return self.objectives[name][0]
