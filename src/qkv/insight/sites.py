"""Where a model attends: every attention of every layer, by kind, and a recorder that knows them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from qkv.common.errors import UsageError
from qkv.models.skeleton import EncoderDecoder, Transformer
from qkv.nn.attention import CrossAttention, SelfAttention
from qkv.nn.kernels import Call
from qkv.nn.stack import Stack
from qkv.nn.tap import Tap


@dataclass(frozen=True)
class Site:
    """One attention in one layer.

    Attributes:
        kind: self, or in an encoder-decoder encoder, decoder or cross.
        layer: its layer, from 0.
        attention: the module; layers may share one (ALBERT).
    """

    kind: str
    layer: int
    attention: SelfAttention | CrossAttention

    @property
    def heads(self) -> int:
        """Its number of heads."""
        return self.attention.num_heads


def sites(model: nn.Module) -> list[Site]:
    """Return every attention of a model, kind by kind, from the first layer to the last."""
    if isinstance(model, EncoderDecoder):
        found = _of(model.encoder, "encoder", "attention")
        if model.decoder is not None:
            found += _of(model.decoder, "decoder", "attention") + _of(model.decoder, "cross", "cross")
        return found
    if isinstance(model, Transformer):
        return _of(model.stack, "self", "attention")
    raise UsageError(f"{type(model).__name__} has no attention heads")


def by_kind(found: list[Site], row: Callable[[Site], Tensor]) -> dict[str, Tensor]:
    """Stack one row of numbers per site. Shape of each kind: [layers, heads]."""
    kinds = dict.fromkeys(site.kind for site in found)
    return {kind: torch.stack([row(site) for site in found if site.kind == kind]) for kind in kinds}


class Meter:
    """Base of recorders that measure the calls of known sites, and drop each call at once."""

    def __init__(self, found: list[Site]) -> None:
        self._sites = {(site.attention.tap, site.layer): site for site in found}
        self._layer: dict[Tap, int] = {}

    def begin(self, tap: Tap, layer: int) -> None:
        """Remember the layer of the calls that follow."""
        self._layer[tap] = layer

    def add(self, tap: Tap, seen: Call) -> None:
        """Measure a call; other sites and other models are ignored."""
        site = self._sites.get((tap, self._layer.get(tap, -1)))
        if site is not None:
            with torch.no_grad():
                self.measure(site, seen)

    def measure(self, site: Site, call: Call) -> None:
        """Measure a call of a site."""
        raise NotImplementedError


def _of(stack: Stack, kind: str, part: str) -> list[Site]:
    blocks = [stack.blocks[layer * len(stack.blocks) // stack.depth] for layer in range(stack.depth)]
    return [Site(kind, layer, getattr(block, part).part) for layer, block in enumerate(blocks)]
