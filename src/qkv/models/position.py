"""Positions by one config value, for any family.

`POSITIONS` is the table of all schemes. To add one of your own, put a `PositionScheme` into it under a new name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from qkv.common.errors import UsageError, unknown
from qkv.nn.positions import (
    AlibiPosition,
    BucketedPosition,
    DynamicRotaryPosition,
    LearnedPosition,
    NoPosition,
    RotaryPosition,
    ShawPosition,
    SinusoidalPosition,
)

FARTHEST = 1 << 17  # the largest max_distance: every pass makes a row of twice as many numbers for each head


@dataclass(frozen=True, kw_only=True)
class PositionConfig:
    """How positions are encoded; the name alone is enough.

    Attributes:
        name: one of `POSITIONS`; relative is Shaw et al., bucketed is T5.
        base: base of the rotary angles.
        scale: how much longer than in training sequences may be, for `rotary-ntk` and `rotary-dynamic`.
        max_distance: where `relative` clips distances (0: at 16), and the last bucket of `bucketed` begins (0: at 128).
        num_buckets: buckets of `bucketed`.
    """

    name: str = "learned"
    base: float = 10_000.0
    scale: float = 2.0
    max_distance: int = 0
    num_buckets: int = 32


@dataclass(frozen=True, kw_only=True)
class AttentionSizes:
    """The numbers of a stack that a scheme inside attention may need."""

    num_layers: int
    num_heads: int
    head_dim: int
    max_length: int
    causal: bool


Added = LearnedPosition | SinusoidalPosition


@dataclass(frozen=True, kw_only=True)
class PositionScheme:
    """How a scheme is built.

    Attributes:
        added: from the config, max_length and dim to what is added to the embeddings, or None for nothing.
        attended: from the config and the sizes of a stack to what is done inside attention.
    """

    added: Callable[[PositionConfig, int, int], Added | None] = lambda _config, _max_length, _dim: None
    attended: Callable[[PositionConfig, AttentionSizes], NoPosition] = lambda _config, _sizes: NoPosition()


def _relative(config: PositionConfig, sizes: AttentionSizes) -> NoPosition:
    return ShawPosition(sizes.num_layers, sizes.head_dim, max_distance=config.max_distance or 16)


def _bucketed(config: PositionConfig, sizes: AttentionSizes) -> NoPosition:
    distance, causal = config.max_distance or 128, sizes.causal
    exact = config.num_buckets // (2 if causal else 4)  # half of them, for each direction, hold one distance
    if not 1 <= exact < distance:
        raise UsageError(
            f"bucketed positions need 4 buckets or more and a max_distance above {max(exact, 1)}, "
            f"got num_buckets {config.num_buckets} and max_distance {distance}"
        )
    return BucketedPosition(sizes.num_heads, num_buckets=config.num_buckets, max_distance=distance, causal=causal)


def _rotary(config: PositionConfig, sizes: AttentionSizes) -> NoPosition:
    if sizes.head_dim % 2 or sizes.head_dim < 4:
        raise UsageError(f"{config.name} positions need an even head_dim of at least 4, got {sizes.head_dim}")
    numbers = {"base": config.base} if config.name == "rotary" else {"base": config.base, "scale": config.scale}
    if config.name == "rotary-dynamic":
        return DynamicRotaryPosition(sizes.head_dim, trained=sizes.max_length, **numbers)
    return RotaryPosition(sizes.head_dim, **numbers)


POSITIONS: dict[str, PositionScheme] = {
    "learned": PositionScheme(added=lambda _, max_length, dim: LearnedPosition(max_length, dim)),
    "sinusoidal": PositionScheme(added=lambda _config, _max_length, dim: SinusoidalPosition(dim)),
    "relative": PositionScheme(attended=_relative),
    "bucketed": PositionScheme(attended=_bucketed),
    "alibi": PositionScheme(attended=lambda _, sizes: AlibiPosition(sizes.num_heads)),
    "rotary": PositionScheme(attended=_rotary),
    "rotary-ntk": PositionScheme(attended=_rotary),
    "rotary-dynamic": PositionScheme(attended=_rotary),
    "none": PositionScheme(),
}


def position_limit(config: Any) -> int | None:
    """Return the longest sequence that a model's positions allow: a table of learned positions ends somewhere."""
    position = getattr(config, "position", None)
    return int(config.max_length) if position is not None and position.name == "learned" else None


def added_position(config: PositionConfig, *, max_length: int, dim: int) -> Added | None:
    """Build what is added to the embeddings."""
    return _scheme(config).added(config, max_length, dim)


def attended_position(config: PositionConfig, sizes: AttentionSizes) -> NoPosition:
    """Build what is done inside the attention of one stack."""
    if not 0 <= config.max_distance <= FARTHEST:
        raise UsageError(f"max_distance must be from 0 to {FARTHEST}, got {config.max_distance}")
    return _scheme(config).attended(config, sizes)


def _scheme(config: PositionConfig) -> PositionScheme:
    if config.name not in POSITIONS:
        raise unknown("position", config.name, POSITIONS)
    return POSITIONS[config.name]
