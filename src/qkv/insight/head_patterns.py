"""What each head looks at: entropy, distance, and the share of its attention on certain tokens (Clark et al. 2019).

Weights are computed from the queries and keys that the taps receive and dropped after counting, so memory is bounded
by the maps of one layer, and the model computes what it always does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from qkv.common.batch import Pairs, Tokens
from qkv.insight.sites import Meter, Site, sites
from qkv.models.skeleton import Headed
from qkv.nn import kernels
from qkv.nn.kernels import Call
from qkv.nn.tap import recording

SHARES = ("previous", "same", "next", "first", "separator")
NAMED = 0.5  # a head is named after the tokens that get more than half of its attention


@dataclass(frozen=True)
class HeadNumbers:
    """What one head does, averaged over all query tokens.

    Attributes:
        kind: self, or in an encoder-decoder encoder, decoder or cross.
        layer: from 0.
        head: from 0.
        entropy: of its weights, in bits: 0 for a single key, 3 for eight keys with equal weights.
        distance: the mean distance in tokens from a query to its keys, by weight; None for cross-attention.
        shares: the share of attention on the previous, the same, the next, the first and the separator token; each
            over the queries that have such a key, and None if there are none.
    """

    kind: str
    layer: int
    head: int
    entropy: float
    distance: float | None
    shares: dict[str, float | None]

    @property
    def pattern(self) -> str:
        """The tokens that get more than half of the attention, or an empty string."""
        known = {name: share for name, share in self.shares.items() if share is not None}
        name = max(known, key=lambda key: known[key], default="")
        return name if name and known[name] > NAMED else ""

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers for JSON."""
        return {
            "kind": self.kind, "layer": self.layer, "head": self.head, "entropy": self.entropy,
            "distance": self.distance, "shares": self.shares, "pattern": self.pattern or None,
        }  # fmt: skip


class _Weights(Meter):
    """Sums up the weights of all passes.

    Attributes:
        separators: which rows of the batch are separators, by kind of attention: those of its keys.
    """

    def __init__(self, found: list[Site]) -> None:
        super().__init__(found)
        self.sums: dict[Site, dict[str, Tensor]] = {site: {} for site in found}
        self.separators: dict[str, Tensor] = {}

    def measure(self, site: Site, call: Call) -> None:
        """Count the weights of a call."""
        marks = self.separators[site.kind]
        for start, weights in zip(call.keys.offsets.tolist(), kernels.weights(call), strict=False):
            if weights.shape[1]:
                inside = marks[start : start + weights.shape[2]]
                _count(self.sums[site], weights.double(), inside, crossing=site.kind == "cross")


@torch.no_grad()
def measure_heads(
    model: Headed, batches: Iterable[Tokens | Pairs], separators: Collection[int] = ()
) -> list[HeadNumbers]:
    """Measure every head while the model reads some batches; heads that do not take part are left out.

    Args:
        model: a model with attention heads.
        batches: what it reads; an encoder-decoder that gets no targets runs its encoder alone.
        separators: the ids of separator tokens, such as [SEP] or </s>.
    """
    meter = _Weights(sites(model))
    for batch in batches:
        own = batch.target if isinstance(batch, Pairs) else batch
        source = batch.source if isinstance(batch, Pairs) else batch
        meter.separators = dict.fromkeys(("self", "decoder"), _are(separators, own))
        meter.separators |= dict.fromkeys(("encoder", "cross"), _are(separators, source))
        with recording(meter):  # and not while the next batch is made, which may run the model too
            model(batch) if isinstance(batch, Pairs) else model.encoder_states(batch)
    return [_numbers(site, head, sums) for site, sums in meter.sums.items() if sums for head in range(site.heads)]


def _are(separators: Collection[int], tokens: Tokens) -> Tensor:
    """Return which rows are separators; the first token of a sequence counts as first. Shape: [T], bool."""
    marks = torch.isin(tokens.ids, torch.tensor(sorted(separators), dtype=tokens.ids.dtype, device=tokens.ids.device))
    return marks & (tokens.layout.position_of > 0)


def _count(sums: dict[str, Tensor], w_NLS: Tensor, separators: Tensor, *, crossing: bool) -> None:
    """Add the weights of one sequence; the last query is aligned with the last key."""
    _, queries, keys = w_NLS.shape
    _add(sums, "entropy", torch.special.entr(w_NLS).sum(-1) / torch.log(w_NLS.new_tensor(2.0)))
    _add(sums, "first", w_NLS[..., 0])
    if bool(separators.any()):
        _add(sums, "separator", w_NLS[..., separators].sum(-1))
    if crossing:
        return
    i = torch.arange(keys - queries, keys, device=w_NLS.device)
    j = torch.arange(keys, device=w_NLS.device)
    _add(sums, "distance", (w_NLS * (i.unsqueeze(1) - j).abs()).sum(-1))
    for name, step in (("previous", -1), ("same", 0), ("next", 1)):
        there = (i + step >= 0) & (i + step < keys)
        _add(sums, name, w_NLS[:, there].gather(-1, (i + step)[there].expand(len(w_NLS), -1).unsqueeze(-1)).squeeze(-1))


def _add(sums: dict[str, Tensor], name: str, values_NL: Tensor) -> None:
    """Add the values of some queries to the sum, and their number to the count."""
    both = torch.cat([values_NL.sum(-1), values_NL.new_tensor([values_NL.shape[-1]])]).cpu()
    sums[name] = sums[name] + both if name in sums else both


def _numbers(site: Site, head: int, sums: dict[str, Tensor]) -> HeadNumbers:
    mean = {name: float(both[head] / both[-1]) for name, both in sums.items() if both[-1]}
    return HeadNumbers(
        kind=site.kind,
        layer=site.layer,
        head=head,
        entropy=mean.get("entropy", float("nan")),
        distance=mean.get("distance"),
        shares={name: mean.get(name) for name in SHARES},
    )
