"""Decode on the CPU engine: all layers and the best next tokens of a step in one call."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from qkv.common.batch import Tokens
from qkv.common.errors import UsageError
from qkv.common.outputs import Hidden
from qkv.common.ragged import Ragged
from qkv.compression.packed import NAMES, Packed, has_norms, plain
from qkv.models.skeleton import EncoderDecoder, Transformer
from qkv.native.decoder import LAST, Decoder, Session
from qkv.nn.attention import CrossAttention, PassContext, SelfAttention
from qkv.nn.embeddings import TextEmbeddings
from qkv.nn.heads import LanguageHead
from qkv.nn.linear import TableProduct
from qkv.nn.positions import NoPosition, Place, RotaryPlacement, RotaryPosition
from qkv.nn.stack import Stack

Model = Transformer | EncoderDecoder


def decoding_stack(model: Model) -> Stack | None:
    """Return the layers that decode, or None if the engine lacks a part that a step needs."""
    stack = model.stack if isinstance(model, Transformer) else model.decoder
    return stack if stack is not None and _can_decode(model, stack) else None


def _can_decode(model: Model, stack: Stack) -> bool:
    embeddings, head = model.embeddings, dict(model.heads.items()).get("lm")
    first: Any = stack.blocks[0]
    return (
        type(stack) is Stack
        and type(stack.position) in (NoPosition, RotaryPosition)
        and isinstance(stack.norm, nn.Identity | nn.LayerNorm)
        and isinstance(embeddings, TextEmbeddings)
        and embeddings.convolution is None
        and type(head) is LanguageHead
        and head.scale == 1.0
        and type(head.product) is TableProduct
        and all(_fits(block) for block in stack.blocks)
        and (head.weight is not None or embeddings.table.shape[1] == first.attention.part.out.out_features)
    )


def _fits(block: Any) -> bool:
    attention, cross, feedforward = block.attention.part, block.cross and block.cross.part, block.feedforward.part
    return (
        type(attention) is SelfAttention
        and attention.causal
        and attention.window is None
        and (cross is None or (type(cross) is CrossAttention and _same_heads(cross, attention)))
        and not feedforward.gated
        and feedforward.act in NAMES
        and has_norms(block)
    )


def _same_heads(cross: Any, attention: Any) -> bool:
    return cross.num_heads == cross.num_kv_heads == attention.num_heads and cross.head_dim == attention.head_dim


class NativeDecodings:
    """Starts searches over a model on the CPU engine.

    Only in inference: on the CPU, in float32, through the parts that the model was built with, and with no hook or
    recorder that wants to see them.
    """

    def __init__(self, model: Model, stack: Stack, variant: str, *, int8: bool) -> None:
        self.name = f"{variant} {'int8' if int8 else 'float32'}"
        self._model, self._stack, self._variant, self._int8 = model, stack, variant, int8
        self._head: Any = model.heads["lm"]
        self._packed = Packed(self._pack, stack, self._others)

    def __call__(self, x: Tensor, context: PassContext) -> None:
        """Leave a whole pass to the layers; one with gradients may be followed by other weights."""
        del x, context
        if torch.is_grad_enabled() or self._stack.training:
            self._packed.forget()

    def after_sources(self, memory: Hidden) -> NativeDecoding | None:
        """Return a stepper over sources that an encoder has read, or None if this search needs the layers."""
        if not self._usable(memory.states) or min(memory.layout.host_lengths) < 1 or not memory.layout.packed:
            return None
        return NativeDecoding(self._model, self._stack, self._packed.current(), memory.layout.num_sequences, memory)

    def after_prompts(self, prompts: Tokens) -> NativeDecoding | None:
        """Return a stepper after prompts, which it reads but for their last tokens, or None as above."""
        lengths = prompts.layout.host_lengths
        if not self._usable(self._model.table) or not lengths or min(lengths) < 1:
            return None
        found = NativeDecoding(self._model, self._stack, self._packed.current(), len(lengths))
        found.read(prompts)
        return found

    def _usable(self, like: Tensor) -> bool:
        return not self._stack.training and plain(like) and self._packed.usable()

    def _others(self) -> list[Any]:
        return [self._head, self._head.product, self._model.embeddings.token]

    def _pack(self) -> Decoder:
        stack, blocks = self._stack, list(self._stack.blocks)
        first: Any = blocks[0]
        attention, feedforward = first.attention.part, first.feedforward.part
        decoder = Decoder(
            self._variant,
            num_layers=stack.depth,
            dim=attention.out.out_features,
            num_heads=attention.num_heads,
            num_kv_heads=attention.num_kv_heads,
            head_dim=attention.head_dim,
            ff_dim=feedforward.down.in_features,
            activation=NAMES[feedforward.act],
            pre_norm=first.attention.pre_norm,
            eps=first.attention.norm.eps,
            scale=attention.scale,
            cross_scale=attention.scale if first.cross is None else first.cross.part.scale,
        )
        for layer in range(stack.depth):
            self._pack_layer(decoder, layer, blocks[layer * len(blocks) // stack.depth])
        if isinstance(stack.norm, nn.LayerNorm):
            decoder.set_norm(LAST, "attention", stack.norm.weight, stack.norm.bias)
        table = self._model.table if self._head.weight is None else self._head.weight
        decoder.set_table(table, self._head.bias, int8=self._int8)
        return decoder

    def _pack_layer(self, decoder: Decoder, layer: int, block: Any) -> None:
        a, f = block.attention.part, block.feedforward.part
        products = {"qkv": a.qkv, "out": a.out, "up": f.up, "down": f.down}
        norms = {"attention": block.attention.norm, "feedforward": block.feedforward.norm}
        if block.cross is not None:
            c = block.cross.part
            products |= {"ask": c.q, "memory": c.kv, "back": c.out}
            norms["cross"] = block.cross.norm
        for part, product in products.items():
            decoder.set_weights(layer, part, product.weight, product.bias, int8=self._int8)
        for part, norm in norms.items():
            decoder.set_norm(layer, part, norm.weight, norm.bias)


class NativeDecoding:
    """A search on the engine: a stepper.

    Attributes:
        first: of a causal model, the last token of each prompt, for the first step. Shape: [B].
    """

    device = torch.device("cpu")

    def __init__(
        self, model: Model, stack: Stack, decoder: Decoder, num_rows: int, memory: Hidden | None = None
    ) -> None:
        self._model, self._position, self._depth = model, stack.position, stack.depth
        # After prompts there is one more row, always empty: rows that join continue it.
        self._blanks = int(memory is None)
        self._session = Session(decoder, num_rows + self._blanks)
        self._ones, self._filled, self._longest = Ragged.of([1] * num_rows), torch.zeros(num_rows, dtype=torch.int64), 0
        if memory is not None:
            self._session.remember(memory.states, memory.layout.offsets)

    def read(self, prompts: Tokens) -> None:
        """Read all tokens of each prompt but the last."""
        self.first = prompts.ids[prompts.layout.last]
        counts = [length - 1 for length in prompts.layout.host_lengths]
        before = len(self._filled) - len(counts)  # rows that read nothing
        if any(counts):
            earlier = torch.ones_like(prompts.ids, dtype=torch.bool)
            earlier[prompts.layout.last] = False
            layout = Ragged.of(counts)
            x, turn = self._embed(Tokens(prompts.ids[earlier], layout), Place(layout, layout, layout.position_of))
            self._session.read(x, [0] * before + counts + [0] * self._blanks, turn)
            self._filled[before:] = torch.tensor(counts)
            self._longest = max(self._longest, *counts)

    def join(self, prompts: Tokens) -> None:
        """Read more prompts, whose rows follow those that are here; `first` is then theirs."""
        here, more = len(self._filled), prompts.layout.num_sequences
        self._session.reorder(torch.tensor([*range(here), *[here] * (more + 1)]))
        self._filled = torch.cat([self._filled, torch.zeros(more, dtype=torch.int64)])
        self._ones = Ragged.of([1] * (here + more))
        self.read(prompts)

    @torch.no_grad()
    def step(self, ids: Tensor) -> Tensor:
        """Shape: [R] -> [R, V]."""
        x, turn = self._next(ids)
        return self._session.logits(x, turn, self._counts())

    @torch.no_grad()
    def best(self, ids: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Read a token of each row; return the best log-probabilities and their tokens. Shape: [R] -> [R, count]."""
        x, turn = self._next(ids)
        return self._session.best(x, count, turn, self._counts())

    def fixed(self, beams: int, longest: int) -> None:
        """A step on the engine is not recorded."""

    def reorder(self, rows: Tensor) -> None:
        """Make row i continue what row `rows[i]` held."""
        if len(rows) != self._ones.num_rows:
            self._ones = Ragged.of([1] * len(rows))
        blank = torch.tensor([len(self._filled)] * self._blanks, dtype=torch.int64)
        self._filled = self._filled[rows]
        self._longest = int(self._filled.max()) if len(rows) else 0
        self._session.reorder(torch.cat([rows, blank]))

    def _counts(self) -> list[int] | None:
        return [1] * len(self._filled) + [0] if self._blanks else None

    def _next(self, ids: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor] | None]:
        """Embed the next token of each row."""
        self._longest += 1
        place = Place(self._ones, replace(self._ones, max_length=self._longest), self._filled)
        self._filled = self._filled + 1
        return self._embed(Tokens(ids, self._ones), place)

    def _embed(self, tokens: Tokens, place: Place) -> tuple[Tensor, tuple[Tensor, Tensor] | None]:
        embeddings = self._model.embeddings
        if not isinstance(embeddings, TextEmbeddings):
            raise UsageError("this model reads no text")
        placement = self._position.place(place, self._depth)[0]
        turn = (placement.cos, placement.sin) if isinstance(placement, RotaryPlacement) else None
        return embeddings(tokens, place), turn
