"""Run stacks on the CPU engine where that gives the same numbers; PyTorch does everything else."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from qkv.compression.decoding_engine import NativeDecodings, decoding_stack
from qkv.compression.export.models import Exported
from qkv.compression.packed import NAMES, Packed, has_norms, plain
from qkv.models.skeleton import EncoderDecoder, Headed, Transformer
from qkv.native import library
from qkv.nn.attention import PassContext, SelfAttention
from qkv.nn.positions import NoPosition, RotaryPlacement, RotaryPosition
from qkv.nn.stack import Stack


def accelerate(model: Headed, *, int8: bool = False) -> None:
    """Attach the engine to the stacks of a model that it can run.

    Args:
        model: a model on the CPU. Its weights stay as they are; the engine packs a copy when it first runs.
        int8: multiply in int8, with a scale for each output and for each row.
    """
    variant = library.variant()
    if variant is None or (int8 and not library.has_int8(variant)):
        return
    for stack in encoders(model):
        if fits(stack):
            stack.engine = NativeEngine(stack, variant, int8=int8)
    if isinstance(model, Transformer | EncoderDecoder) and (decodes := decoding_stack(model)) is not None:
        model.decodings = decodes.engine = NativeDecodings(model, decodes, variant, int8=int8)


def engine_of(model: Headed) -> str:
    """Return what computes the layers: "torch", or the variant of the engine and its precision.

    In an encoder-decoder, what computes the encoder, and then the decoder if that is something else.
    """
    if isinstance(model, Exported):
        return model.engine.name
    found = [stack.engine.name if isinstance(stack.engine, NativeEngine) else "torch" for stack in encoders(model)]
    if isinstance(model, Transformer | EncoderDecoder) and "lm" in model.heads:
        decodes = model.decodings.name if isinstance(model.decodings, NativeDecodings) else "torch"
        found = [*found[: isinstance(model, EncoderDecoder)], decodes]
    return ", decoder ".join(dict.fromkeys(found)) or "torch"


def encoders(model: Headed) -> list[Stack]:
    """Return the stacks that read a whole sequence at once."""
    if isinstance(model, Transformer):
        return [model.stack]
    return [model.encoder] if isinstance(model, EncoderDecoder) else []


def fits(stack: Stack) -> bool:
    """Whether the engine has every part of an encoder's stack."""
    return (
        type(stack) is Stack
        and type(stack.position) in (NoPosition, RotaryPosition)
        and all(_fits(block) for block in stack.blocks)
    )


def _fits(block: Any) -> bool:
    attention, feedforward = block.attention.part, block.feedforward.part
    return (
        block.cross is None
        and type(attention) is SelfAttention
        and not attention.causal
        and attention.window is None
        and attention.num_heads == attention.num_kv_heads
        and not feedforward.gated
        and feedforward.act in NAMES
        and has_norms(block)
    )


class NativeEngine:
    """The layers of an encoder's stack on the CPU engine.

    Runs only passes in inference: on the CPU, in float32, without a cache, through the parts that the stack was built
    with, and with no hook or recorder that wants to see them.
    """

    def __init__(self, stack: Stack, variant: str, *, int8: bool) -> None:
        self.name = f"{variant} {'int8' if int8 else 'float32'}"
        self._stack, self._variant, self._int8 = stack, variant, int8
        self._packed = Packed(self._pack, stack)

    def __call__(self, x: Tensor, context: PassContext) -> Tensor | None:
        """Return the states after the last layer, or None if this pass needs the layers."""
        if torch.is_grad_enabled() or self._stack.training:
            self._packed.forget()
            return None
        if not plain(x) or context.cache is not None or context.memory is not None or not self._packed.usable():
            return None
        placement = self._stack.position.place(context.place, self._stack.depth)[0]
        turn = (placement.cos, placement.sin) if isinstance(placement, RotaryPlacement) else None
        return self._packed.current().run(x, context.place.queries.offsets, turn)

    def _pack(self) -> library.Encoder:
        stack, blocks = self._stack, list(self._stack.blocks)
        first: Any = blocks[0]
        attention, feedforward = first.attention.part, first.feedforward.part
        encoder = library.Encoder(
            self._variant,
            num_layers=stack.depth,
            dim=attention.out.out_features,
            num_heads=attention.num_heads,
            head_dim=attention.head_dim,
            ff_dim=feedforward.down.in_features,
            activation=NAMES[feedforward.act],
            pre_norm=first.attention.pre_norm,
            eps=first.attention.norm.eps,
            scale=attention.scale,
        )
        for layer in range(stack.depth):
            block: Any = blocks[layer * len(blocks) // stack.depth]
            a, f = block.attention.part, block.feedforward.part
            for part, product in {"qkv": a.qkv, "out": a.out, "up": f.up, "down": f.down}.items():
                encoder.set_weights(layer, part, product.weight, product.bias, int8=self._int8)
            for number, norm in enumerate((block.attention.norm, block.feedforward.norm)):
                encoder.set_norm(layer, number, norm.weight, norm.bias)
        return encoder
