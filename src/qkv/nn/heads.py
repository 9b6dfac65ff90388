"""Heads: from hidden states to logits.

Heads over rows:        LanguageHead, MaskedHead, TokenHead, SpanHead, ReplacedHead
Heads over sequences:   SequenceHead (classes, next sentence) and RegressionHead over a `Pooler`; DistilledHead
"""

from __future__ import annotations

from torch import Tensor, nn

from qkv.common.errors import unknown
from qkv.common.outputs import Hidden
from qkv.nn.dropout import Dropout
from qkv.nn.feedforward import activation as activation_named
from qkv.nn.linear import Linear, TableProduct


class Pooler(nn.Module):
    """One vector per sequence: its first or last row, through a dense layer if there is an activation."""

    def __init__(self, dim: int, *, row: str = "first", activation: str | None = None, dropout: float = 0.0) -> None:
        super().__init__()
        if row not in ("first", "last"):
            raise unknown("row to pool", row, ["first", "last"])
        self.row = row
        self.dense = None if activation is None else Linear(dim, dim)
        self.act = None if activation is None else activation_named(activation)
        self.dropout = Dropout(dropout)

    def forward(self, hidden: Hidden) -> Tensor:
        """Shape: [T, D] -> [B, D]."""
        layout = hidden.layout
        x = hidden.states[layout.first if self.row == "first" else layout.last]
        if self.dense is not None and self.act is not None:
            x = self.act(self.dense(x))
        return self.dropout(x)


class Head(nn.Module):
    """Base of all heads: `over` rows, pooled sequences or all states ("leading"); `tied` heads read the token table."""

    over = "rows"
    tied = False


class LanguageHead(Head):
    """Logits over the vocabulary: with the token table (Press & Wolf 2017), or a table of its own.

    Args:
        dim: D.
        vocab_size: V.
        tied: use the token table instead of a table of its own.
        bias: add a bias per token.
        scale: multiply the states by this first (D^-½ in T5 1.0).
    """

    def __init__(self, dim: int, vocab_size: int, *, tied: bool = True, bias: bool = False, scale: float = 1.0) -> None:
        super().__init__()
        self.tied, self.scale = tied, scale
        self.weight = None if tied else nn.Parameter(Linear(dim, vocab_size, bias=False).weight)
        self.bias = nn.Parameter(Linear(1, vocab_size).bias) if bias else None
        self.product = TableProduct()

    def forward(self, x: Tensor, table: Tensor | None = None) -> Tensor:
        """Shape: [T, D] -> [T, V]."""
        weight = table if self.weight is None else self.weight
        return self.product(x if self.scale == 1.0 else x * self.scale, weight, self.bias)


class MaskedHead(Head):
    """BERT's masked-token head: dense, activation, norm, then the token table, or one of its own, and a bias."""

    tied = True

    def __init__(
        self, dim: int, vocab_size: int, *, embedding_dim: int, activation: str, norm: nn.Module, tied: bool = True
    ) -> None:
        super().__init__()
        self.dense = Linear(dim, embedding_dim)
        self.act = activation_named(activation)
        self.norm = norm
        self.decoder = LanguageHead(embedding_dim, vocab_size, tied=tied, bias=True)

    def forward(self, x: Tensor, table: Tensor) -> Tensor:
        """Shape: [masked rows, D] -> [masked rows, V]. Pass only the masked rows."""
        return self.decoder(self.norm(self.act(self.dense(x))), table)


class TokenHead(Head):
    """A label for each token."""

    def __init__(self, dim: int, num_labels: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.linear = Linear(dim, num_labels)

    def forward(self, x: Tensor) -> Tensor:
        """Shape: [T, D] -> [T, labels]."""
        return self.linear(self.dropout(x))


class SpanHead(TokenHead):
    """Logits of each token as the start and as the end of an answer. Shape: [T, D] -> [T, 2]."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim, 2)


class ReplacedHead(Head):
    """ELECTRA's discriminator: was this token replaced?"""

    def __init__(self, dim: int, *, activation: str = "gelu") -> None:
        super().__init__()
        self.dense = Linear(dim, dim)
        self.act = activation_named(activation)
        self.linear = Linear(dim, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Shape: [T, D] -> [T]."""
        return self.linear(self.act(self.dense(x))).squeeze(-1)


class SequenceHead(Head):
    """A label for each sequence; with two labels on a pair of sentences, next-sentence prediction."""

    over = "sequences"

    def __init__(self, dim: int, num_labels: int, *, bias: bool = True) -> None:
        super().__init__()
        self.linear = Linear(dim, num_labels, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """Shape: [B, D] -> [B, labels]."""
        return self.linear(x)


class RegressionHead(SequenceHead):
    """A number for each sequence."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Shape: [B, D] -> [B]."""
        return self.linear(x).squeeze(-1)


class DistilledHead(Head):
    """DeiT's two classifiers, on the class and the distillation token; their mean is the output."""

    over = "leading"

    def __init__(self, dim: int, num_labels: int) -> None:
        super().__init__()
        self.label = Linear(dim, num_labels)
        self.teacher = Linear(dim, num_labels)

    def both(self, hidden: Hidden) -> tuple[Tensor, Tensor]:
        """Return the logits of both classifiers; in training each has its own target. Shape: [B, labels] each."""
        first = hidden.layout.first
        return self.label(hidden.states[first]), self.teacher(hidden.states[first + 1])

    def forward(self, hidden: Hidden) -> Tensor:
        """Shape: [T, D] -> [B, labels]."""
        label, teacher = self.both(hidden)
        return (label + teacher) / 2
