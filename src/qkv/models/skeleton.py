"""The two skeletons of all attention families: one stack, or an encoder and a decoder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from qkv.common.batch import Images, Pairs, Tokens
from qkv.common.errors import UsageError, unknown
from qkv.common.outputs import Hidden
from qkv.common.protocols import PromptStepper, Stepper
from qkv.common.ragged import Ragged
from qkv.common.rows import Rows
from qkv.models.fixed_steppers import StepperCache
from qkv.models.steppers import PromptDecoding, SourceDecoding
from qkv.nn.attention import PassContext
from qkv.nn.cache import KeyValueCache
from qkv.nn.embeddings import PatchEmbeddings, TextEmbeddings
from qkv.nn.heads import Head, Pooler
from qkv.nn.stack import Stack


class Decodings(Protocol):
    """Another way to decode: each method returns a stepper, or None if this search needs the model's own layers."""

    def after_sources(self, memory: Hidden) -> Stepper | None:
        """Return a stepper over sources that have been read."""

    def after_prompts(self, prompts: Tokens) -> PromptStepper | None:
        """Return a stepper after prompts; it reads them but for their last tokens."""


class Headed(nn.Module):
    """Base of all models: hidden states, and heads over them."""

    heads: nn.ModuleDict
    pooler: Pooler | None

    def __init__(self) -> None:
        super().__init__()
        self.steppers = StepperCache()
        self.decodings: Decodings | None = None

    def _own_heads(self, heads: Mapping[str, Head], pooler: Pooler | None) -> None:
        self.pooler = pooler
        self.heads = nn.ModuleDict(heads)

    @property
    def table(self) -> Tensor:
        """The token table that tied heads read. Shape: [V, E]."""
        raise NotImplementedError

    def head(self, name: str | None = None) -> Head:
        """Return a head by name; by default, the first one."""
        names = list(self.heads)
        if name is None and names:
            name = names[0]
        if name is None or name not in names:
            if not names:
                raise UsageError("this model has no head: build or load it with one to get scores")
            raise unknown("head", name, names)
        return self.heads[name]  # type: ignore[return-value]

    def logits(self, hidden: Hidden, name: str | None = None) -> Tensor:
        """Compute the logits of a head. Shape: [T, D] -> [T, ...] over rows, [B, ...] over sequences."""
        head = self.head(name)
        if head.over == "leading":
            return head(hidden)
        if head.over == "sequences":
            if self.pooler is None:
                raise UsageError("a head over sequences needs a pooler")
            return head(self.pooler(hidden))
        return head(hidden.states, self.table) if head.tied else head(hidden.states)

    def encoder_states(self, batch: Any) -> Hidden:
        """Compute the hidden states of the input; in an encoder-decoder, those of the source."""
        return self(batch)

    def states_for(self, batch: Any, name: str | None = None) -> Hidden:
        """Compute the hidden states that a head reads, and no others if the family can do that."""
        del name
        return self.encoder_states(batch)

    def states_at(self, batch: Any, rows: Tensor) -> Tensor:
        """Compute the hidden states of some rows, and no others if the family can. Shape: [M] -> [M, D]."""
        return self.encoder_states(batch).states[rows]


class Transformer(Headed):
    """Embeddings, a stack, heads. Causal attention makes it a decoder.

    ids or pixels ─► embeddings ─► block × num_layers ─► norm ─► Hidden ─► pooler ─► heads over sequences
                                                                    └─────────────► heads over rows
    """

    def __init__(
        self,
        *,
        embeddings: TextEmbeddings | PatchEmbeddings,
        stack: Stack,
        heads: Mapping[str, Head],
        pooler: Pooler | None = None,
    ) -> None:
        super().__init__()
        self.embeddings, self.stack = embeddings, stack
        self._own_heads(heads, pooler)

    @property
    def table(self) -> Tensor:
        """The token table that tied heads read. Shape: [V, E]."""
        if isinstance(self.embeddings, PatchEmbeddings):
            raise UsageError("a model of images has no token table")
        return self.embeddings.table

    def forward(self, batch: Tokens | Images, cache: KeyValueCache | None = None) -> Hidden:
        """Compute the hidden states of every token."""
        x, context = self._embed(batch, cache)
        return Hidden(self.stack(x, context), context.place.queries)

    def states_for(self, batch: Tokens | Images, name: str | None = None) -> Hidden:
        """Compute the hidden states that a head reads: all, or the first of each sequence for the pooler."""
        pooled = self.head(name).over == "sequences" and self.pooler is not None and self.pooler.row == "first"
        if not pooled:
            return self(batch)
        x, context = self._embed(batch)
        rows = Rows.first(context.place.queries)
        return Hidden(self.stack(x, context, rows), rows.layout)

    def states_at(self, batch: Tokens | Images, rows: Tensor) -> Tensor:
        """Compute the hidden states of some rows only. Shape: [M] -> [M, D]."""
        x, context = self._embed(batch)
        rising, order = rows.sort()
        return self.stack(x, context, Rows.at(context.place.queries, rising)).index_select(0, order.argsort())

    def _embed(self, batch: Tokens | Images, cache: KeyValueCache | None = None) -> tuple[Tensor, PassContext]:
        if isinstance(self.embeddings, PatchEmbeddings):
            if not isinstance(batch, Images):
                raise UsageError("this model takes images, not token ids")
            x, layout = self.embeddings(batch)
            return x, PassContext.of(layout)
        if not isinstance(batch, Tokens):
            raise UsageError("this model takes token ids, not images")
        context = PassContext.of(batch.layout, cache=cache)
        return self.embeddings(batch, context.place), context

    @torch.no_grad()
    def start(self, prompts: Tokens) -> PromptStepper:
        """Read the prompts except their last tokens, which the first step takes (`PromptStepper.first`)."""
        self.head("lm")  # without this head, fail before any work
        native = None if self.decodings is None else self.decodings.after_prompts(prompts)
        return native or PromptDecoding(self, prompts)


class EncoderDecoder(Headed):
    """An encoder for the source and a decoder that attends to its states."""

    def __init__(
        self,
        *,
        embeddings: TextEmbeddings,
        encoder: Stack,
        decoder: Stack | None,
        heads: Mapping[str, Head],
        pooler: Pooler | None = None,
    ) -> None:
        super().__init__()
        self.embeddings, self.encoder, self.decoder = embeddings, encoder, decoder
        self._own_heads(heads, pooler)

    @property
    def table(self) -> Tensor:
        """The token table that tied heads read. Shape: [V, E]."""
        return self.embeddings.table

    def encode(self, source: Tokens) -> Hidden:
        """Compute the encoder states, the decoder's memory."""
        context = PassContext.of(source.layout)
        return Hidden(self.encoder(self.embeddings(source, context.place), context), source.layout)

    def encoder_states(self, batch: Tokens) -> Hidden:
        """Compute the hidden states of the source."""
        return self.encode(batch)

    def decode(
        self,
        target: Tokens,
        memory: Hidden,
        cache: KeyValueCache | None = None,
        askers: Ragged | None = None,
    ) -> Hidden:
        """Compute the hidden states of target tokens over a memory; with `askers`, several targets share one source."""
        if self.decoder is None:
            raise UsageError("this model has no decoder")
        context = PassContext.of(target.layout, cache=cache, memory=memory, askers=askers)
        return Hidden(self.decoder(self.embeddings(target, context.place), context), target.layout)

    def forward(self, batch: Pairs) -> Hidden:
        """Compute the hidden states of every target token."""
        return self.decode(batch.target, self.encode(batch.source))

    @torch.no_grad()
    def start(self, source: Tokens) -> Stepper:
        """Read the sources and return a stepper; its first step takes the start tokens of the targets."""
        memory = self.encode(source)
        native = None if self.decodings is None else self.decodings.after_sources(memory)
        return native or SourceDecoding(self, memory)
