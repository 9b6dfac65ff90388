"""R-Drop (Liang et al. 2021): two passes with different dropout shall say the same."""

from __future__ import annotations

from typing import overload

from torch import Tensor

from qkv.common.batch import Images, Tokens
from qkv.common.outputs import LossOutput
from qkv.objectives import fused
from qkv.objectives.entropy import log_softmax
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


def distance(logits_2TV: Tensor, wanted: Tensor) -> LossOutput:
    """½ (KL(p‖q) + KL(q‖p)) of each row (equation 2), which is ½ Σ (p - q)(log p - log q).

    The scores of the second pass follow those of the first. Shape: [2T, V], [T].
    """
    asked = wanted != IGNORED
    rows = fused.distance(logits_2TV)[0] if fused.fits(logits_2TV) else _plain(logits_2TV)
    return LossOutput(rows.masked_fill(~asked, 0).sum(), asked.sum())


def _plain(logits_2TV: Tensor) -> Tensor:
    log_p, log_q = log_softmax(logits_2TV).chunk(2)
    return 0.5 * ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(-1)
