"""How much each head matters to a loss (Michel et al. 2019), by gradient and by ablation.

by gradient   the mean over examples of |dL/dξ|, ξ being the gate of the head (eq. 2): one pass forward and back
by ablation   how much the loss grows if the head gives nothing (ξ = 0): one pass forward for each head
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from qkv.common.batch import layouts, size
from qkv.insight.sites import Site, by_kind, sites
from qkv.nn.gates import gated

Loss = Callable[[Any], tuple[Tensor, int]]  # from a batch to the sum of its losses and the number of its targets
Progress = Callable[[int], None]


def gradient_importance(
    model: nn.Module, batches: Iterable[Any], loss: Loss, *, progress: Progress | None = None
) -> dict[str, Tensor]:
    """Return the importance of each head by gradient, per target of the loss.

    Every sequence has gates of its own, so that a single backward pass gives the gradient of each example, and opposite
    signs do not cancel.

    Args:
        model: a model with attention heads; dropout should be off.
        batches: batches of examples.
        loss: runs the model on a batch; sequences must not share terms of the loss.
        progress: called with 1 for each batch.

    Returns:
        A tensor for each kind of attention: "self", or "encoder", "decoder" and "cross". Shape: [layers, heads].
    """
    found = sites(model)
    sums = {site: torch.zeros(site.heads, dtype=torch.float64) for site in found}
    count = 0
    for batch in batches:
        gates = {site: torch.ones(_sequences(batch), site.heads, requires_grad=True) for site in found}
        placed = {site: gate.to(_device(model)) for site, gate in gates.items()}
        with torch.enable_grad(), gated({(s.attention, s.layer): gate for s, gate in placed.items()}):
            total, targets = loss(batch)
            slopes = torch.autograd.grad(total, list(gates.values()), allow_unused=True)
        for site, slope in zip(gates, slopes, strict=True):
            if slope is not None:
                sums[site] += slope.double().abs().sum(0)
        count += targets
        if progress is not None:
            progress(1)
    return by_kind(found, lambda site: sums[site] / max(count, 1))


@torch.no_grad()
def ablation_importance(
    model: nn.Module, batches: Sequence[Any], loss: Loss, *, progress: Progress | None = None
) -> dict[str, Tensor]:
    """Return by how much the loss per target grows without each head; below 0 if the model is better without it.

    Args:
        model: a model with attention heads; dropout should be off.
        batches: batches of examples, read once for each head.
        loss: runs the model on a batch.
        progress: called with 1 for each batch and head.

    Returns:
        A tensor for each kind of attention: "self", or "encoder", "decoder" and "cross". Shape: [layers, heads].
    """
    whole = _mean(batches, loss, None)
    device = _device(model)

    def row(site: Site) -> Tensor:
        grown = []
        for head in range(site.heads):
            open_ = torch.ones(1, site.heads, device=device)
            open_[0, head] = 0.0
            with gated({(site.attention, site.layer): open_}):
                grown.append(_mean(batches, loss, progress) - whole)
        return torch.tensor(grown, dtype=torch.float64)

    return by_kind(sites(model), row)


def _mean(batches: Sequence[Any], loss: Loss, progress: Progress | None) -> float:
    total, count = 0.0, 0
    for batch in batches:
        found, targets = loss(batch)
        total, count = total + float(found), count + targets
        if progress is not None:
            progress(1)
    return total / max(count, 1)


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


def _sequences(batch: Any) -> int:
    """Count the sequences of a batch, whatever its kind; a source and its target count once."""
    found = [layout.num_sequences for layout in layouts(batch)]
    return max(found) if found else size(batch).amount  # images
