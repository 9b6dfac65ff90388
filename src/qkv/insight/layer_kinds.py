"""The kinds of layers that mix the tokens of a sequence, as parts of nn/ with one signature: (x, layout) -> y."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from qkv.common.ragged import Ragged
from qkv.nn import kernels
from qkv.nn.attention import PassContext, SelfAttention
from qkv.nn.convolution import CausalConvolution
from qkv.nn.kernels import Call
from qkv.nn.positions import Placement
from qkv.nn.recurrent import RecurrentEncoder

KERNEL_WIDTH = 3  # k
WINDOW = 64  # w: a token sees as many tokens on each side
HEAD = 32  # the width of a head: d / 32 heads, so that d adds heads and nothing else changes


class Mixing(nn.Module):
    """Attention alone: x is query, key and value, without the projections that table 1 of the paper leaves out."""

    def __init__(self, dim: int, window: int | None = None) -> None:
        super().__init__()
        self.head_dim, self.window = min(HEAD, dim), window

    def forward(self, x: Tensor, layout: Ragged) -> Tensor:
        """Shape: [T, D] -> [T, D]."""
        heads = x.unflatten(-1, (-1, self.head_dim))
        scale = self.head_dim**-0.5
        call = Call(q=heads, k=heads, v=heads, queries=layout, keys=layout, scale=scale, window=self.window)
        return kernels.automatic(call).flatten(1)


class Projected(nn.Module):
    """Attention with its projections, the layer of a Transformer."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.part = SelfAttention(dim, dim // min(HEAD, dim))

    def forward(self, x: Tensor, layout: Ragged) -> Tensor:
        """Shape: [T, D] -> [T, D]."""
        return self.part(x, PassContext.of(layout), Placement(), 0)


class Recurrent(nn.Module):
    """A bidirectional LSTM, half of the width in each direction."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.part = RecurrentEncoder(dim)

    def forward(self, x: Tensor, layout: Ragged) -> Tensor:
        """Shape: [T, D] -> [T, D]."""
        return self.part(x, layout)[0]


@dataclass(frozen=True)
class Kind:
    """A kind of layer.

    Attributes:
        name: what the table calls it.
        operations: how many operations a layer takes.
        sequential: how many of them must wait for each other.
        path: how far apart two tokens are at most.
        theory: the exponents of n and d in `operations`.
        build: from the width, and the number of layers below, to a layer.
        is_recurrent: whether the layer takes one step a token.
    """

    name: str
    operations: str
    sequential: str
    path: str
    theory: tuple[float, float]
    make: Callable[[int, int], nn.Module]
    is_recurrent: bool = False

    def build(self, dim: int, depth: int = 0) -> nn.Module:
        """Build the layer that has `depth` layers of its kind below it."""
        return self.make(dim, depth)


def _convolution(dim: int, dilation: int = 1) -> nn.Module:
    return CausalConvolution(dim, dim, width=KERNEL_WIDTH, dilation=dilation)


K, W = KERNEL_WIDTH, WINDOW
KINDS = (
    Kind("self-attention", "n²·d", "O(1)", "O(1)", (2, 1), lambda d, _: Mixing(d)),
    Kind("self-attention, projected", "n²·d + n·d²", "O(1)", "O(1)", (2, 2), lambda d, _: Projected(d)),
    Kind(f"local attention, w={W}", "w·n·d", "O(1)", "O(n/w)", (1, 1), lambda d, _: Mixing(d, W)),
    Kind("recurrent", "n·d²", "O(n)", "O(n)", (1, 2), lambda d, _: Recurrent(d), is_recurrent=True),
    Kind(f"convolution, k={K}", "k·n·d²", "O(1)", "O(n/k)", (1, 2), lambda d, _: _convolution(d)),
    # the same cost at any dilation: measured at that of the first layer of a stack that has one
    Kind(f"dilated convolution, k={K}", "k·n·d²", "O(1)", "O(log_k n)", (1, 2), lambda d, m: _convolution(d, K**m)),
)
