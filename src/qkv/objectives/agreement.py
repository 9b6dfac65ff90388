"""R-Drop (Liang et al. 2021): two passes with different dropout shall say the same."""

from __future__ import annotations

from typing import overload

from torch import Tensor

from qkv.common.batch import Images, Tokens
from qkv.common.outputs import LossOutput
from qkv.objectives.parts import IGNORED


@overload
def twice(inputs: Tokens) -> Tokens: ...
@overload
def twice(inputs: Tokens | Images) -> Tokens | Images: ...
def twice(inputs: Tokens | Images) -> Tokens | Images:
    """Return the same sequences or pictures two times in one batch: dropout differs between the two."""
    if isinstance(inputs, Images):
        return Images(inputs.pixels.repeat(2, 1, 1, 1))
    segments = None if inputs.segments is None else inputs.segments.repeat(2)
    return Tokens(inputs.ids.repeat(2), inputs.layout.twice(), segments)


def distance(log_p_TV: Tensor, log_q_TV: Tensor, wanted: Tensor) -> LossOutput:
    """½ (KL(p‖q) + KL(q‖p)) of each row (equation 2), which is ½ Σ (p - q)(log p - log q)."""
    asked = wanted != IGNORED
    rows = 0.5 * ((log_p_TV.exp() - log_q_TV.exp()) * (log_p_TV - log_q_TV)).sum(-1)
    return LossOutput(rows.masked_fill(~asked, 0).sum(), asked.sum())
