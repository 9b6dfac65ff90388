"""One layer of a Transformer: parts, each with its residual connection.

         pre-norm                            post-norm
    x ─┬─► norm ─► part ─►(+)─►         x ─┬─► part ─►(+)─► norm ─►
       └───────────────────┘               └───────────┘

Post-norm is Vaswani et al. 2017. Pre-norm (Xiong et al. 2020) trains without warm-up; its stack ends in a norm.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn

from qkv.nn.attention import CrossAttention, PassContext
from qkv.nn.dropout import Dropout, kept_sequences
from qkv.nn.feedforward import FeedForward
from qkv.nn.positions import Placement


class Sublayer(nn.Module):
    """A part with its residual connection; the only place that knows about pre- and post-norm."""

    def __init__(self, part: nn.Module, norm: nn.Module, *, pre_norm: bool, dropout: float = 0.0) -> None:
        super().__init__()
        self.part, self.norm, self.pre_norm = part, norm, pre_norm
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, *context: Any, rows: Tensor | None = None, share: Tensor | None = None) -> Tensor:
        """Shape: [T, D] -> [T, D].

        Args:
            x: the input.
            context: what the part needs besides.
            rows: those that the part returns, if it does not return all.
            share: what the output of the part is multiplied by, for stochastic depth. Shape: [T, 1].
        """
        kept = x if rows is None else x.index_select(0, rows)
        found = self.dropout(self.part(self.norm(x) if self.pre_norm else x, *context))
        found = kept + (found if share is None else found * share)
        return found if self.pre_norm else self.norm(found)


class Block(nn.Module):
    """Self-attention or a convolution, cross-attention if there is an encoder, feed-forward."""

    drop_path = 0.0  # stochastic depth: the probability of skipping each part for a sequence, in training

    def __init__(
        self,
        *,
        attention: nn.Module,
        feedforward: FeedForward,
        norms: list[nn.Module],
        pre_norm: bool,
        cross: CrossAttention | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        norm = iter(norms)
        self.attention = Sublayer(attention, next(norm), pre_norm=pre_norm, dropout=dropout)
        self.cross = None if cross is None else Sublayer(cross, next(norm), pre_norm=pre_norm, dropout=dropout)
        self.feedforward = Sublayer(feedforward, next(norm), pre_norm=pre_norm, dropout=dropout)

    def forward(self, x: Tensor, context: PassContext, placement: Placement, layer: int) -> Tensor:
        """Shape: [T, D] -> [T, D], or [needed rows, D]."""
        rows = None if context.rows is None else context.rows.index
        x = self.attention(x, context, placement, layer, rows=rows, share=self._share(context, x))
        if self.cross is not None:
            x = self.cross(x, context, layer, share=self._share(context, x))
        return self.feedforward(x, share=self._share(context, x))

    def _share(self, context: PassContext, x: Tensor) -> Tensor | None:
        if not self.training or not self.drop_path:
            return None
        layout = context.place.queries if context.rows is None else context.rows.layout
        return kept_sequences(layout, self.drop_path, x)


def stochastic_depth(blocks: Iterable[Any], rate: float) -> None:
    """Let blocks be skipped in training, the last one with this probability and lower ones less often."""
    blocks = list(blocks)
    for number, block in enumerate(blocks):
        block.drop_path = rate * number / max(1, len(blocks) - 1)
