"""Token representations from layer to layer, and how alike the tokens of a text become.

Pure attention makes all tokens of a text alike, doubly exponentially with depth; skip connections and, less so,
feed-forward layers prevent it (Dong et al. 2021). `walk` runs a stack with or without them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from qkv.common.batch import Images, Tokens
from qkv.common.errors import UsageError
from qkv.common.ragged import Ragged
from qkv.models.skeleton import EncoderDecoder, Transformer
from qkv.nn.attention import PassContext
from qkv.nn.block import Block, Sublayer
from qkv.nn.embeddings import PatchEmbeddings
from qkv.nn.stack import Stack


@dataclass(frozen=True)
class Alikeness:
    """How alike the tokens of a text are after the embeddings and after each layer, averaged over texts.

    Attributes:
        cosine: the mean cosine of two different tokens of a text; 1 if all tokens are the same.
        residual: ‖X - 1x̄ᵀ‖ / ‖X‖, the share of a text's states that its mean token does not explain; 0 if all tokens
            are the same. (Dong et al. use another norm.)
    """

    cosine: list[float]
    residual: list[float]


@torch.no_grad()
def layer_states(
    model: nn.Module, batch: Tokens | Images, *, skip: bool = True, feedforward: bool = True
) -> tuple[list[Tensor], Ragged]:
    """Return the states after the embeddings and after each layer, and their layout; of the source's, if there are two.

    Args:
        model: an encoder, a decoder or an encoder-decoder.
        batch: what it reads.
        skip: whether sublayers add their input to their output.
        feedforward: whether there are feed-forward layers.
    """
    stack, x, context = begin(model, batch)
    return list(walk(stack, x, context, skip=skip, feedforward=feedforward)), context.place.queries


def begin(model: nn.Module, batch: Any) -> tuple[Stack, Tensor, PassContext]:
    """Embed a batch: return the stack that reads it first, its input and its context."""
    if isinstance(model, Transformer | EncoderDecoder):
        stack = model.encoder if isinstance(model, EncoderDecoder) else model.stack
        if isinstance(model.embeddings, PatchEmbeddings):
            x, layout = model.embeddings(batch)
            return stack, x, PassContext.of(layout)
        context = PassContext.of(batch.layout)
        return stack, model.embeddings(batch, context.place), context
    raise UsageError(f"{type(model).__name__} has no layers of attention")


def walk(stack: Stack, x: Tensor, context: PassContext, *, skip: bool, feedforward: bool) -> Iterator[Tensor]:
    """Yield the input of a stack and the states after each layer, before the final norm. Shape of each: [T, D]."""
    yield x
    for layer, placement in enumerate(stack.position.place(context.place, stack.depth)):
        block = stack.blocks[layer * len(stack.blocks) // stack.depth]
        assert isinstance(block, Block)
        x = _apply(block.attention, x, context, placement, layer, skip=skip)
        if feedforward:
            x = _apply(block.feedforward, x, skip=skip)
        yield x


def _apply(sublayer: Sublayer, x: Tensor, *context: Any, skip: bool) -> Tensor:
    if skip:
        return sublayer(x, *context)
    if sublayer.pre_norm:
        return sublayer.part(sublayer.norm(x), *context)
    return sublayer.norm(sublayer.part(x, *context))


class AlikenessMeter:
    """Averages over the texts of many batches; texts of one token are left out."""

    def __init__(self) -> None:
        self._sums: Tensor | None = None
        self._count = 0

    def add(self, states: list[Tensor], layout: Ragged) -> None:
        """Add the layers of a batch. Shape of each: [T, D]."""
        several = layout.lengths > 1
        rows = torch.stack([_alike(x_TD.double(), layout)[:, several].sum(-1) for x_TD in states]).cpu()
        self._sums = rows if self._sums is None else self._sums + rows
        self._count += int(several.sum())

    def result(self) -> Alikeness:
        """Return the averages."""
        if self._sums is None or not self._count:
            raise UsageError("similarity needs a text of at least two tokens")
        cosine, residual = (self._sums / self._count).T.tolist()
        return Alikeness(cosine, residual)


def _alike(x_TD: Tensor, layout: Ragged) -> Tensor:
    """Return cosine and residual of each sequence. Shape: [2, B]."""
    number, of = layout.num_sequences, layout.sequence_of
    length = layout.lengths.double()

    def total(x: Tensor) -> Tensor:
        return x.new_zeros(number, *x.shape[1:]).index_add_(0, of, x)

    unit = torch.nn.functional.normalize(x_TD, dim=-1)
    # Σ_{i≠j} u_i · u_j = |Σ u|² - n, so no pair is ever formed.
    cosine = (total(unit).square().sum(-1) - length) / (length * (length - 1)).clamp_min(1)
    rest = x_TD - layout.mean(x_TD)[of]
    residual = (total(rest.square()).sum(-1) / total(x_TD.square()).sum(-1).clamp_min(1e-300)).sqrt()
    return torch.stack([cosine, residual])
