"""Classes by cross-entropy, and R-Drop (Liang et al. 2021): two passes with different dropout should agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from qkv.common.config import check_range
from qkv.common.outputs import LossOutput
from qkv.common.protocols import Scored
from qkv.objectives import fused
from qkv.objectives.entropy import cross_entropy, log_softmax
from qkv.objectives.parts import IGNORED, Losses, Soft, count_targets
from qkv.objectives.soft import soft_classes


@dataclass(frozen=True, kw_only=True)
class RDrop:
    """Base of objectives with one pass, or with R-Drop's two.

    Attributes:
        r_drop: α of R-Drop, the weight of the divergence between two passes with different dropout. 0 runs one pass.
    """

    r_drop: float = 0.0
    part: ClassVar[str]

    def __post_init__(self) -> None:
        check_range("r_drop", self.r_drop, 0)

    def num_targets(self, batch: Any) -> Tensor:
        """Count the targets of one pass."""
        raise NotImplementedError

    @property
    def weights(self) -> dict[str, float]:
        """R-Drop adds both passes' losses and α times their distance. Here passes are averaged, so α is halved."""
        return {self.part: 1.0, "r_drop": self.r_drop / 2} if self.r_drop else {self.part: 1.0}

    def counts(self, batch: Any) -> dict[str, Tensor]:
        """Count the targets, of both passes where there are two."""
        one = self.num_targets(batch)
        return {self.part: 2 * one, "r_drop": one} if self.two_passes else {self.part: one}

    @property
    def two_passes(self) -> bool:
        """Whether there are two passes: only in training, because only the gradient needs their distance."""
        return self.r_drop > 0 and torch.is_grad_enabled()


@dataclass(frozen=True, kw_only=True)
class CrossEntropy(RDrop):
    """Base of objectives with one class for each target.

    Attributes:
        smoothing: ε of label smoothing, the share of the target spread over all classes.
    """

    smoothing: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("smoothing", self.smoothing, 0, below=1)

    def targets(self, batch: Any) -> Tensor:
        """Return the target classes. Shape: [T]."""
        raise NotImplementedError

    def logits(self, model: Scored, batch: Any, twice: bool) -> Tensor:
        """Compute the logits of each target; with `twice`, of a second pass after the first. Shape: [T or 2T, V]."""
        raise NotImplementedError

    def importance(self) -> tuple[float, ...]:
        """Return how much each class counts in training; empty if all count the same."""
        return ()

    def num_targets(self, batch: Any) -> Tensor:
        """Count the targets that are not ignored."""
        return count_targets(self.targets(batch))

    def __call__(self, model: Scored, batch: Any) -> Losses:
        """Run one pass, or two side by side."""
        return self.losses(self.said(model, batch), batch)

    def said(self, model: Scored, batch: Any) -> Tensor:
        """Compute the logits of each target, of both passes where there are two. Shape: [T or 2T, V]."""
        return self.logits(model, batch, self.two_passes)

    def soft(self, said: Tensor, taught: Tensor, batch: Any, how: Soft) -> LossOutput:
        """Compare the classes of each target."""
        return soft_classes(said, taught, self.targets(batch), how)

    def losses(self, said: Tensor, batch: Any) -> Losses:
        """Compute the cross-entropy and, of two passes, their distance."""
        wanted, logits = self.targets(batch), said
        how: dict[str, Any] = {"smoothing": self.smoothing}
        if torch.is_grad_enabled():
            how["class_weights"] = self.importance()
        if not self.two_passes:
            return {self.part: cross_entropy(logits, wanted, **how)}
        both = cross_entropy(logits, wanted.repeat(2), **how)
        return {self.part: both, "r_drop": distance(logits, wanted)}


def distance(logits_2TV: Tensor, wanted: Tensor) -> LossOutput:
    """½ (KL(p‖q) + KL(q‖p)) of each row (equation 2), which is ½ Σ (p - q)(log p - log q).

    The logits of the second pass follow those of the first. Shape: [2T, V], [T].
    """
    asked = wanted != IGNORED
    rows = fused.distance(logits_2TV)[0] if fused.fits(logits_2TV) else _plain(logits_2TV)
    return LossOutput(rows.masked_fill(~asked, 0).sum(), asked.sum())


def _plain(logits_2TV: Tensor) -> Tensor:
    return divergence(log_softmax(logits_2TV)).sum(-1)


def divergence(log_2TV: Tensor) -> Tensor:
    """Return what each class adds to the distance of two passes. Shape: [2T, V] -> [T, V]."""
    log_p, log_q = log_2TV.chunk(2)
    return 0.5 * (log_p.exp() - log_q.exp()) * (log_p - log_q)
