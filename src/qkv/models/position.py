"""Positions by one config value, for any family."""

from __future__ import annotations

from dataclasses import dataclass

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
POSITIONS = ("learned", "sinusoidal", "relative", "bucketed", "alibi", "rotary", "rotary-ntk", "rotary-dynamic", "none")


@dataclass(frozen=True, kw_only=True)
class PositionConfig:
    """How a model knows the order of its tokens; the name alone is enough.

    Attributes:
        name: one of `POSITIONS`; relative is Shaw et al., bucketed is T5.
        base: of the rotary angles.
        scale: how much further than trained `rotary-ntk` and `rotary-dynamic` shall read.
        max_distance: where `relative` clips (0: at 16) and where `bucketed` stops telling distances apart (0: at 128).
        num_buckets: of `bucketed`.
    """

    name: str = "learned"
    base: float = 10_000.0
    scale: float = 2.0
    max_distance: int = 0
    num_buckets: int = 32


def added_position(config: PositionConfig, *, max_length: int, dim: int) -> LearnedPosition | SinusoidalPosition | None:
    """Build what is added to the embeddings."""
    if config.name not in POSITIONS:
        raise unknown("position", config.name, POSITIONS)
    if config.name == "learned":
        return LearnedPosition(max_length, dim)
    return SinusoidalPosition(dim) if config.name == "sinusoidal" else None


def attended_position(
    config: PositionConfig, *, num_layers: int, num_heads: int, head_dim: int, max_length: int, causal: bool
) -> NoPosition:
    """Build what is done inside the attention of one stack."""
    if config.name.startswith("rotary") and (head_dim % 2 or head_dim < 4):
        raise UsageError(f"{config.name} positions need an even head_dim of at least 4, got {head_dim}")
    if not 0 <= config.max_distance <= FARTHEST:
        raise UsageError(f"max_distance must be from 0 to {FARTHEST}, got {config.max_distance}")
    match config.name:
        case "relative":
            return ShawPosition(num_layers, head_dim, max_distance=config.max_distance or 16)
        case "bucketed":
            distance = config.max_distance or 128
            exact = config.num_buckets // (2 if causal else 4)  # half of them, for each direction, hold one distance
            if not 1 <= exact < distance:
                raise UsageError(
                    f"bucketed positions need 4 buckets or more and a max_distance above {max(exact, 1)}, "
                    f"got num_buckets {config.num_buckets} and max_distance {distance}"
                )
            return BucketedPosition(num_heads, num_buckets=config.num_buckets, max_distance=distance, causal=causal)
        case "alibi":
            return AlibiPosition(num_heads)
        case "rotary":
            return RotaryPosition(head_dim, base=config.base)
        case "rotary-ntk":
            return RotaryPosition(head_dim, base=config.base, scale=config.scale)
        case "rotary-dynamic":
            return DynamicRotaryPosition(head_dim, trained=max_length, base=config.base, scale=config.scale)
    return NoPosition()
