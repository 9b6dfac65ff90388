"""One layer of a Transformer: parts, each with its residual connection.

         pre-norm                            post-norm
    x ─┬─► norm ─► part ─►(+)─►         x ─┬─► part ─►(+)─► norm ─►
       └───────────────────┘               └───────────┘

Post-norm is Vaswani et al. 2017. Pre-norm (Xiong et al. 2020) trains without warm-up; its stack ends in a norm.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from qkv.nn.attention import CrossAttention, PassContext
from qkv.nn.dropout import Dropout
from qkv.nn.feedforward import FeedForward
from qkv.nn.positions import Placement


class Sublayer(nn.Module):
    """A part with its residual connection; the only place that knows about pre- and post-norm."""

    def __init__(self, part: nn.Module, norm: nn.Module, *, pre_norm: bool, dropout: float = 0.0) -> None:
        super().__init__()
        self.part, self.norm, self.pre_norm = part, norm, pre_norm
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, *context: Any, rows: Tensor | None = None) -> Tensor:
        """Shape: [T, D] -> [T, D]; `rows` are those that the part returns, if it does not return all."""
        kept = x if rows is None else x.index_select(0, rows)
        if self.pre_norm:
            return kept + self.dropout(self.part(self.norm(x), *context))
        return self.norm(kept + self.dropout(self.part(x, *context)))


class Block(nn.Module):
    """Self-attention or a convolution, cross-attention if there is an encoder, feed-forward."""

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
        x = self.attention(x, context, placement, layer, rows=None if context.rows is None else context.rows.index)
        if self.cross is not None:
            x = self.cross(x, context, layer)
        return self.feedforward(x)
