"""Run an encoder's stack on the CPU engine where that gives the same numbers; PyTorch does everything else."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from qkv.models.skeleton import EncoderDecoder, Headed, Transformer
from qkv.native import library
from qkv.nn import kernels
from qkv.nn.attention import PassContext
from qkv.nn.feedforward import ACTIVATIONS
from qkv.nn.positions import NoPosition, RotaryPlacement, RotaryPosition
from qkv.nn.stack import Stack

NAMES = {function: name for name, function in ACTIVATIONS.items() if name in library.ACTIVATIONS}


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


def engine_of(model: Headed) -> str:
    """Return what computes the layers of the encoder: "torch", or the variant of the engine and its precision."""
    engines = [stack.engine for stack in encoders(model) if isinstance(stack.engine, NativeEngine)]
    return engines[0].name if engines else "torch"


def encoders(model: Headed) -> list[Stack]:
    """Return the stacks that read a whole sequence at once."""
    if isinstance(model, Transformer):
        return [model.stack]
    return [model.encoder] if isinstance(model, EncoderDecoder) else []


def fits(stack: Stack) -> bool:
    """Whether the engine has every part of a stack."""
    return type(stack.position) in (NoPosition, RotaryPosition) and all(_fits(block) for block in stack.blocks)


def _fits(block: Any) -> bool:
    attention, feedforward = block.attention.part, block.feedforward.part
    norms = (block.attention.norm, block.feedforward.norm)
    return (
        block.cross is None
        and not attention.causal
        and attention.window is None
        and attention.num_heads == attention.num_kv_heads
        and attention.num_heads * attention.head_dim == attention.out.out_features
        and not feedforward.gated
        and feedforward.act in NAMES
        and all(type(norm) is nn.LayerNorm and norm.bias is not None for norm in norms)
    )


class NativeEngine:
    """The layers of one stack on the CPU engine.

    Runs only passes in inference: on the CPU, in float32, without a cache, and with nobody watching the attention.
    """

    def __init__(self, stack: Stack, variant: str, *, int8: bool) -> None:
        self.name = f"{variant} {'int8' if int8 else 'float32'}"
        self._stack, self._variant, self._int8 = stack, variant, int8
        blocks: list[Any] = list(stack.blocks)
        self._attentions = [block.attention.part for block in blocks]
        self._parameters = list(stack.parameters())
        self._encoder: library.Encoder | None = None
        self._packed: tuple[int, ...] = ()

    def __call__(self, x: Tensor, context: PassContext) -> Tensor | None:
        """Return the states after the last layer, or None if this pass needs the layers."""
        if torch.is_grad_enabled() or self._stack.training:
            self._encoder = None  # fused optimizers change weights without counting a version
            return None
        if not self._can_run(x, context):
            return None
        placement = self._stack.position.place(context.place, self._stack.depth)[0]
        turn = (placement.cos, placement.sin) if isinstance(placement, RotaryPlacement) else None
        return self._current().run(x, context.place.queries.offsets, turn)

    def _can_run(self, x: Tensor, context: PassContext) -> bool:
        plain = not x.is_cuda and x.dtype == torch.float32
        unwatched = all(a.kernel is kernels.automatic and not a.tap.watched for a in self._attentions)
        return plain and unwatched and context.cache is None and context.memory is None and len(x) > 0

    def _current(self) -> library.Encoder:
        """Return the packed layers; they are packed again if somebody has changed the weights."""
        versions = tuple(parameter._version for parameter in self._parameters)
        if self._encoder is None or versions != self._packed:
            self._encoder, self._packed = self._pack(), versions
        return self._encoder

    def _pack(self) -> library.Encoder:
        stack, blocks = self._stack, self._stack.blocks
        first: Any = blocks[0]
        attention, feedforward = first.attention.part, first.feedforward.part
        encoder = library.Encoder(
            self._variant,
            num_layers=stack.depth,
            dim=attention.out.out_features,
            num_heads=attention.num_heads,
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
