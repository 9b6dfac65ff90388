"""Builders that all families share: numbers in, a stack or heads out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from torch import nn

from qkv.common.errors import unknown
from qkv.models.position import AttentionSizes, PositionConfig, attended_position
from qkv.nn.attention import CrossAttention, SelfAttention
from qkv.nn.block import Block
from qkv.nn.feedforward import FeedForward
from qkv.nn.heads import Head
from qkv.nn.norm import NORMS
from qkv.nn.stack import Stack

Norm = Callable[[], nn.Module]


def norm_of(name: str, dim: int, eps: float) -> Norm:
    """Return a function that makes a norm: each place gets its own."""
    if name not in NORMS:
        raise unknown("norm", name, NORMS)
    return partial(NORMS[name], dim, eps=eps)


def build_stack(
    *,
    position: PositionConfig,
    max_length: int,
    attention: dict[str, Any],
    feedforward: dict[str, Any],
    norm: Norm,
    num_layers: int,
    num_blocks: int | None = None,
    pre_norm: bool = False,
    cross: bool = False,
    dropout: float = 0.0,
    kind: Callable[..., Stack] = Stack,
) -> Stack:
    """Build `num_layers` equal layers. With fewer `num_blocks`, layers share weights. Pre-norm stacks end in a norm."""

    def block() -> Block:
        plain = {key: value for key, value in attention.items() if key not in ("causal", "window")}
        return Block(
            attention=SelfAttention(**attention),
            cross=CrossAttention(**plain) if cross else None,
            feedforward=FeedForward(**feedforward),
            norms=[norm() for _ in range(3 if cross else 2)],
            pre_norm=pre_norm,
            dropout=dropout,
        )

    blocks = [block() for _ in range(num_blocks or num_layers)]
    heads, dim = attention["num_heads"], attention["dim"]
    sizes = AttentionSizes(
        num_layers=num_layers,
        num_heads=heads,
        head_dim=attention.get("head_dim") or dim // heads,
        max_length=max_length,
        causal=attention.get("causal", False),
    )
    return kind(
        blocks,
        depth=num_layers,
        position=attended_position(position, sizes),
        norm=norm() if pre_norm else None,
    )


def is_tied(output: str) -> bool:
    """Whether scores of tokens use the token table, or one of their own."""
    if output not in ("tied", "own"):
        raise unknown("output", output, ["tied", "own"])
    return output == "tied"


def build_heads(names: Sequence[str], makers: dict[str, Callable[[], Head]]) -> dict[str, Head]:
    """Build the heads that a config names; "pool" means the pooler alone."""
    for name in names:
        if name not in makers and name != "pool":
            raise unknown("head", name, ["pool", *makers])
    return {name: makers[name]() for name in names if name != "pool"}
