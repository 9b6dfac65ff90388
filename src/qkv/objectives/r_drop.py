"""Classes by cross-entropy, and R-Drop (Liang et al. 2021): two passes with different dropout shall say the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, overload

import torch
from torch import Tensor

from qkv.common.batch import Images, Tokens
from qkv.common.config import check_range
from qkv.common.outputs import LossOutput
from qkv.common.protocols import Scored
from qkv.objectives import fused
from qkv.objectives.entropy import cross_entropy, log_softmax
from qkv.objectives.parts import IGNORED, Losses, number_asked


@dataclass(frozen=True, kw_only=True)
class Passes:
    """One pass, or two that shall say the same.

    Attributes:
        r_drop: R-Drop's α: two passes with different dropout shall say the same; 0: one pass.
    """

    r_drop: float = 0.0
    part: ClassVar[str]

    def __post_init__(self) -> None:
        check_range("r_drop", self.r_drop, 0)

    def asked(self, batch: Any) -> Tensor:
        """Count the targets of one pass."""
        raise NotImplementedError

    @property
    def weights(self) -> dict[str, float]:
        """R-Drop adds both passes' losses to α times their distance; here passes are averaged, so α is halved too."""
        return {self.part: 1.0, "r_drop": self.r_drop / 2} if self.r_drop else {self.part: 1.0}

    def counts(self, batch: Any) -> dict[str, Tensor]:
        """Count the targets, of both passes where there are two."""
        one = self.asked(batch)
        return {self.part: 2 * one, "r_drop": one} if self.again else {self.part: one}

    @property
    def again(self) -> bool:
        """Whether there are two passes: only where there is a gradient to be had from their distance."""
        return self.r_drop > 0 and torch.is_grad_enabled()


@dataclass(frozen=True, kw_only=True)
class Agreeing(Passes):
    """One class of several for each target, by one pass or two.

    Attributes:
        smoothing: ε, the share of the target spread over all classes.
    """

    smoothing: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("smoothing", self.smoothing, 0, below=1)

    def wanted(self, batch: Any) -> Tensor:
        """Return the classes that are wanted. Shape: [T]."""
        raise NotImplementedError

    def scores(self, model: Scored, batch: Any, again: bool) -> Tensor:
        """Score the classes of each target, of a second pass behind the first if asked. Shape: [T or 2T, V]."""
        raise NotImplementedError

    def asked(self, batch: Any) -> Tensor:
        """Count the classes that are wanted."""
        return number_asked(self.wanted(batch))

    def __call__(self, model: Scored, batch: Any) -> Losses:
        """Run one pass, or two side by side."""
        wanted, logits = self.wanted(batch), self.scores(model, batch, self.again)
        if not self.again:
            return {self.part: cross_entropy(logits, wanted, smoothing=self.smoothing)}
        both = cross_entropy(logits, wanted.repeat(2), smoothing=self.smoothing)
        return {self.part: both, "r_drop": distance(logits, wanted)}


@overload
def twice(inputs: Tokens) -> Tokens: ...
@overload
def twice(inputs: Tokens | Images) -> Tokens | Images: ...
def twice(inputs: Tokens | Images) -> Tokens | Images:
    """Return the same sequences or images two times in one batch: dropout differs between the two."""
    if isinstance(inputs, Images):
        return Images(inputs.pixels.repeat(2, 1, 1, 1))
    rows = (None if row is None else row.repeat(2) for row in (inputs.segments, inputs.positions))
    return Tokens(inputs.ids.repeat(2), inputs.layout.twice(), *rows)


def distance(logits_2TV: Tensor, wanted: Tensor) -> LossOutput:
    """½ (KL(p‖q) + KL(q‖p)) of each row (equation 2), which is ½ Σ (p - q)(log p - log q).

    The scores of the second pass follow those of the first. Shape: [2T, V], [T].
    """
    asked = wanted != IGNORED
    rows = fused.distance(logits_2TV)[0] if fused.fits(logits_2TV) else _plain(logits_2TV)
    return LossOutput(rows.masked_fill(~asked, 0).sum(), asked.sum())


def _plain(logits_2TV: Tensor) -> Tensor:
    return apart(log_softmax(logits_2TV)).sum(-1)


def apart(log_2TV: Tensor) -> Tensor:
    """Return what each class adds to the distance of two passes' log-probabilities. Shape: [2T, V] -> [T, V]."""
    log_p, log_q = log_2TV.chunk(2)
    return 0.5 * (log_p.exp() - log_q.exp()) * (log_p - log_q)
