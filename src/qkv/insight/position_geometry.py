"""What a model's positions do: the mean attention score q·k by the distance from the query to the key.

With the same token at every place, only positions differ, and the curve is the geometry of the position scheme itself:
a straight slope for ALiBi, waves for rotary and sinusoidal positions, whatever was learned for the others.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from qkv.common.batch import Tokens
from qkv.insight.sites import Meter, Site, by_kind, sites
from qkv.models.skeleton import Headed
from qkv.nn.kernels import Call
from qkv.nn.tap import recording

REACH = 64


@torch.no_grad()
def scores_by_distance(model: Headed, batches: Iterable[Tokens], reach: int = REACH) -> dict[str, Tensor]:
    """Return the mean of q·k · scale + bias at each distance, key minus query, from -reach to reach.

    Args:
        model: a model with attention; of an encoder-decoder, the encoder.
        batches: what it reads.
        reach: the largest distance.

    Returns:
        For each kind of self-attention; NaN at distances that never occur. Shape: [layers, heads, 2 · reach + 1].
    """
    found = [site for site in sites(model) if site.kind in ("self", "encoder")]
    meter = _Distances(found, reach)
    for batch in batches:
        with recording(meter):
            model.encoder_states(batch)
    return by_kind(found, lambda site: (meter.sums[site] / meter.counts[site]).float())


class _Distances(Meter):
    """Sums up scores by distance."""

    def __init__(self, found: list[Site], reach: int) -> None:
        super().__init__(found)
        self.reach = reach
        width = 2 * reach + 1
        self.sums = {site: torch.zeros(site.heads, width, dtype=torch.float64) for site in found}
        self.counts = {site: torch.zeros(width, dtype=torch.float64) for site in found}

    def measure(self, site: Site, call: Call) -> None:
        """Add the scores of a call."""
        for scores, distance, visible in _scores(call):
            near = visible & (distance.abs() <= self.reach)
            column = distance[near] + self.reach
            values = scores[:, near].double().cpu()
            self.sums[site].index_add_(1, column.cpu(), values)
            self.counts[site].index_add_(0, column.cpu(), torch.ones(len(column), dtype=torch.float64))


def _scores(call: Call) -> Iterable[tuple[Tensor, Tensor, Tensor]]:
    """Yield for each sequence its scores [N, L, S], the distances [L, S] and which keys are visible [L, S]."""
    group = call.q.shape[1] // call.k.shape[1]
    tables = None if call.bias is None or call.bias.table.dim() == 2 else call.queries.split(call.bias.table)
    for number, (q, k) in enumerate(zip(call.queries.split(call.q), call.keys.split(call.k), strict=True)):
        i = torch.arange(len(k) - len(q), len(k), device=q.device)
        distance = torch.arange(len(k), device=q.device) - i.unsqueeze(1)
        scores = torch.einsum("lnh,snh->nls", q, k.repeat_interleave(group, 1)) * call.scale
        if call.bias is not None:
            column = distance.clamp(-call.bias.reach, call.bias.reach) + call.bias.reach
            if tables is None:
                scores = scores + call.bias.table[:, column]
            else:
                wide = column.expand(scores.shape[0], -1, -1)
                scores = scores + tables[number].transpose(0, 1).gather(-1, wide)
        visible = distance <= 0 if call.causal else torch.ones_like(distance, dtype=torch.bool)
        yield scores, distance, visible if call.window is None else visible & (distance.abs() <= call.window)
