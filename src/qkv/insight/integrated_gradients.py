"""Integrated gradients (Sundararajan et al. 2017): how much each input token adds to a score.

    attribution_i = (x_i - b_i) · ∫₀¹ ∂F(b + α (x - b)) / ∂x_i dα

x are the rows of the token table, b a baseline without words. The attributions add up to F(x) - F(b) ("completeness",
Proposition 1). The integral is a sum over the points of Gauss and Legendre, which for smooth functions needs far fewer
of them than a sum over equal steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from qkv.common.batch import Pairs, Tokens
from qkv.common.outputs import Hidden
from qkv.insight.embedded import states_from, token_rows


def points(steps: int) -> list[tuple[float, float]]:
    """Return places from 0 to 1 and their weights, which add up to 1."""
    places, weights = np.polynomial.legendre.leggauss(steps)
    return [(float(place), float(weight)) for place, weight in zip((places + 1) / 2, weights / 2, strict=True)]


def path_gradients(
    model: nn.Module,
    batch: Tokens | Pairs,
    baseline_ids: Tensor,
    at: Sequence[tuple[float, float]],
    score: Callable[[Hidden], Tensor],
) -> Tensor:
    """Return the part that one point of the path of each sequence adds to the attributions.

    Args:
        model: a model with a token table; dropout should be off.
        batch: sequences, and their targets in an encoder-decoder.
        baseline_ids: the token at the start of the path, or -1 for a row of zeros; where it equals the batch's own, the
            token stays as it is. Shape: [T].
        at: for each sequence the place on its path, from 0 to 1, and the weight of that place.
        score: from the states to one number for each sequence. Shape: [B].

    Returns:
        A number for each token. Shape: [T].
    """
    source = batch.source if isinstance(batch, Pairs) else batch
    with torch.no_grad():
        x, base = _ends(model, source.ids, baseline_ids)
        place, weight = torch.tensor(at, dtype=x.dtype, device=x.device)[source.layout.sequence_of].T.unsqueeze(-1)
        rows = base + place * (x - base)
    rows.requires_grad_()
    with torch.enable_grad():
        total = score(states_from(model, batch, rows)).sum()
    (slope,) = torch.autograd.grad(total, [rows])
    return (slope * (x - base) * weight).double().sum(-1)


@torch.no_grad()
def baseline_states(model: nn.Module, batch: Tokens | Pairs, baseline_ids: Tensor) -> Hidden:
    """Compute the states at the start of the path."""
    source = batch.source if isinstance(batch, Pairs) else batch
    return states_from(model, batch, _ends(model, source.ids, baseline_ids)[1])


def _ends(model: nn.Module, ids: Tensor, baseline_ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows at the end and at the start of the path. Shape: [T, E] each."""
    x = token_rows(model, ids)
    base = token_rows(model, baseline_ids.clamp_min(0))
    return x, base.masked_fill((baseline_ids < 0).unsqueeze(-1), 0.0)
