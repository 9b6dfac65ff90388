"""Run an encoder's stack on the CPU engine where that gives the same numbers; PyTorch does everything else."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from qkv.models.skeleton import EncoderDecoder, Headed, Transformer
from qkv.native import library
from qkv.nn import kernels
from qkv.nn.attention import PassContext, SelfAttention
from qkv.nn.feedforward import ACTIVATIONS
from qkv.nn.gates import has_gates
from qkv.nn.positions import NoPosition, RotaryPlacement, RotaryPosition
from qkv.nn.stack import Stack
from qkv.nn.tap import recorders

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
    return (
        type(stack) is Stack
        and type(stack.position) in (NoPosition, RotaryPosition)
        and all(_fits(block) for block in stack.blocks)
    )


def _fits(block: Any) -> bool:
    attention, feedforward = block.attention.part, block.feedforward.part
    norms = (block.attention.norm, block.feedforward.norm)
    return (
        block.cross is None
        and type(attention) is SelfAttention
        and not attention.causal
        and attention.window is None
        and attention.num_heads == attention.num_kv_heads
        and not feedforward.gated
        and feedforward.act in NAMES
        and all(type(norm) is nn.LayerNorm and norm.bias is not None for norm in norms)
    )


class NativeEngine:
    """The layers of one stack on the CPU engine.

    Runs only passes in inference: on the CPU, in float32, without a cache, through the parts that the stack was built
    with, and with no hook or recorder that wants to see them.
    """

    def __init__(self, stack: Stack, variant: str, *, int8: bool) -> None:
        self.name = f"{variant} {'int8' if int8 else 'float32'}"
        self._stack, self._variant, self._int8 = stack, variant, int8
        self._modules, self._parts = list(stack.modules()), self._find_parts()
        self._encoder: library.Encoder | None = None
        self._packed: list[tuple[Tensor, int]] = []  # parameters and their versions

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
        plain = not x.is_cuda and x.dtype == torch.float32 and context.cache is None and context.memory is None
        unwatched = (
            not recorders()
            and not has_gates()
            and not any(m._forward_hooks or m._forward_pre_hooks for m in self._modules)
        )
        parts = self._find_parts()
        same = all(old is new for old, new in zip(self._parts, parts, strict=True))
        automatic = all(
            attention.kernel is kernels.automatic for attention in parts[:: len(parts) // len(self._blocks)]
        )
        return plain and unwatched and same and automatic and len(x) > 0

    @property
    def _blocks(self) -> list[Any]:
        return list(self._stack.blocks)

    def _find_parts(self) -> list[Any]:
        """List the modules whose work the engine does, as they are now; of each block, its attention comes first."""
        found: list[Any] = []
        for block in self._blocks:
            first, second = block.attention, block.feedforward
            a, f = first.part, second.part
            found += [a, a.qkv, a.out, first.norm, f, f.up, f.down, second.norm]
        return found

    def _current(self) -> library.Encoder:
        """Return the packed layers; they are packed again if somebody has changed the weights."""
        now = [(p, p._version) for part in self._parts for p in part._parameters.values() if p is not None]
        old = self._packed
        same = len(old) == len(now) and all(p is q and v == w for (p, v), (q, w) in zip(old, now, strict=True))
        if self._encoder is None or not same:
            self._encoder, self._packed = self._pack(), now
        return self._encoder

    def _pack(self) -> library.Encoder:
        stack, blocks = self._stack, self._blocks
        first = blocks[0]
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
            block = blocks[layer * len(blocks) // stack.depth]
            a, f = block.attention.part, block.feedforward.part
            for part, product in {"qkv": a.qkv, "out": a.out, "up": f.up, "down": f.down}.items():
                encoder.set_weights(layer, part, product.weight, product.bias, int8=self._int8)
            for number, norm in enumerate((block.attention.norm, block.feedforward.norm)):
                encoder.set_norm(layer, number, norm.weight, norm.bias)
        return encoder
