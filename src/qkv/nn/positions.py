"""Positions: what is added to the embeddings, and what is done inside attention.

Added to the embeddings (a module from positions to rows):
    LearnedPosition      a vector per position (Devlin et al. 2019)
    SinusoidalPosition   sin and cos of the position (Vaswani et al. 2017, section 3.5)
Done inside attention (a module that gives each layer its `Placement`):
    NoPosition           nothing
    ShawPosition         vectors per clipped distance, for keys and values (Shaw et al. 2018)
    BucketedPosition     a scalar per head and bucket of distances, shared by all layers (Raffel et al. 2020)
    AlibiPosition        a slope per head times the distance (Press et al. 2022)
    RotaryPosition       q and k turned by their position (Su et al. 2021), with NTK scaling of the base
    DynamicRotaryPosition   the base grows with what the query can see, once that passes the trained length
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from qkv.common.ragged import Ragged
from qkv.nn.kernels import Bias, Call, Kernel


class LearnedPosition(nn.Module):
    """A learned vector for each of `max_length` positions."""

    def __init__(self, max_length: int, dim: int) -> None:
        super().__init__()
        self.limit: int | None = max_length
        self.table = nn.Embedding(max_length, dim)

    def forward(self, positions: Tensor, length: int) -> Tensor:
        """Shape: [T] -> [T, D]; every position is below `length`."""
        del length
        return self.table(positions)


class SinusoidalPosition(nn.Module):
    """PE(p, i) = sin(p / 10000^(2i/D)) for the first half of the channels, cos of the same for the second.

    The paper interleaves the two; as tensor2tensor and Marian do, we put the halves one after the other, which is the
    same up to the order of the channels.
    """

    limit: int | None = None

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, positions: Tensor, length: int) -> Tensor:
        """Shape: [T] -> [T, D]; every position is below `length`."""
        if not torch.compiler.is_exporting() and len(positions) > length:  # each position once, then looked up
            return self(torch.arange(length, device=positions.device), length)[positions]
        even = torch.arange(0, self.dim, 2, device=positions.device, dtype=torch.float64)
        angle = positions.unsqueeze(-1) / 10000 ** (even / self.dim)
        return torch.cat([angle.sin(), angle[:, : self.dim // 2].cos()], dim=-1).float()


@dataclass(frozen=True, eq=False)
class Place:
    """What a position scheme knows about a forward pass, once for all layers.

    Attributes:
        queries: the layout of the new tokens.
        keys: the layout of all tokens so far; the same as `queries` without a cache.
        positions: the position of each new token in its sequence. Shape: [T].
    """

    queries: Ragged
    keys: Ragged
    positions: Tensor


class Placement:
    """What the attention of one layer does about positions; by default, nothing."""

    def turn(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Change the new queries and keys before the keys are cached."""
        return q, k

    def attend(self, call: Call, kernel: Kernel) -> Tensor:
        """Call the kernel."""
        return kernel(call)


class NoPosition(nn.Module):
    """No position inside attention: order comes from the embeddings, from the causal order, or not at all."""

    fixed_shapes = True  # what it does depends on shapes alone, so that a step can be recorded
    adds_bias = False  # it adds a bias to the scores, which not every kernel can

    def place(self, place: Place, num_layers: int) -> list[Placement]:
        """Return the placement of each layer."""
        del place
        return [Placement()] * num_layers


@dataclass(frozen=True, eq=False)
class BiasPlacement(Placement):
    """Adds a bias to the scores of a layer."""

    bias: Bias

    def attend(self, call: Call, kernel: Kernel) -> Tensor:
        """Ask the kernel, with the bias."""
        return kernel(replace(call, bias=self.bias))


class BucketedPosition(NoPosition):
    """One learned scalar per head and bucket: exact for near distances, logarithmic up to `max_distance`."""

    adds_bias = True

    def __init__(self, num_heads: int, *, num_buckets: int = 32, max_distance: int = 128, causal: bool = False) -> None:
        super().__init__()
        self.num_buckets, self.max_distance, self.causal = num_buckets, max_distance, causal
        self.table = nn.Embedding(num_buckets, num_heads)

    def place(self, place: Place, num_layers: int) -> list[Placement]:
        """Return one bias for all layers; past `max_distance` all share a bucket, so the table ends there."""
        reach = self.max_distance
        distance = torch.arange(-reach, reach + 1, device=place.positions.device)
        bias = Bias(self.table(self.bucket(distance)).t())
        return [BiasPlacement(bias)] * num_layers

    def bucket(self, distance: Tensor) -> Tensor:
        """Sort distances (key minus query) into buckets."""
        buckets, start = self.num_buckets, torch.zeros_like(distance)
        if self.causal:
            distance = (-distance).clamp_min(0)
        else:
            buckets //= 2
            start, distance = (distance > 0) * buckets, distance.abs()
        exact = buckets // 2
        growth = torch.log(distance.clamp_min(1).float() / exact) / math.log(self.max_distance / exact)
        far = (exact + (growth * (buckets - exact)).long()).clamp_max(buckets - 1)
        return start + torch.where(distance < exact, distance, far)


class AlibiPosition(NoPosition):
    """-slope · |distance| on each head; nothing is learned, and it works at any length."""

    adds_bias = True

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads

    def slopes(self) -> list[float]:
        """Return the geometric sequence of the paper; for other head counts, every second of the next power's."""
        power = 2 ** math.floor(math.log2(self.num_heads))
        slopes = [2 ** (-8 * (i + 1) / power) for i in range(power)]
        between = [2 ** (-4 * (i + 1) / power) for i in range(0, 2 * power, 2)]
        return slopes + between[: self.num_heads - power]

    def place(self, place: Place, num_layers: int) -> list[Placement]:
        """Return one bias for all layers."""
        reach = max(place.keys.max_length - 1, 0)
        distance = torch.arange(-reach, reach + 1, device=place.positions.device).abs()
        # Head by head: a list of numbers would wait for the device, which a recorded step must not.
        return [BiasPlacement(Bias(torch.stack([-slope * distance for slope in self.slopes()])))] * num_layers


@dataclass(frozen=True, eq=False)
class _ShawPlacement(Placement):
    keys: Tensor
    values: Tensor

    def attend(self, call: Call, kernel: Kernel) -> Tensor:
        # eq. 4: e_ij = q_i · (k_j + a^K_ij) · scale, so the bias is q_i · a^K at the clipped distance.
        table = call.q @ self.keys.to(call.q.dtype).t() * call.scale
        return kernel(replace(call, bias=Bias(table, self.values)))


class ShawPosition(NoPosition):
    """A vector per distance, clipped at `max_distance`, for keys and for values; each layer has its own."""

    fixed_shapes = False

    def __init__(self, num_layers: int, head_dim: int, *, max_distance: int = 16) -> None:
        super().__init__()
        self.keys = nn.Parameter(torch.empty(num_layers, 2 * max_distance + 1, head_dim))
        self.values = nn.Parameter(torch.empty(num_layers, 2 * max_distance + 1, head_dim))

    def place(self, place: Place, num_layers: int) -> list[Placement]:
        """Return each layer's own vectors."""
        del place
        return [_ShawPlacement(self.keys[i], self.values[i]) for i in range(num_layers)]


@dataclass(frozen=True, eq=False)
class RotaryPlacement(Placement):
    """The rotation of each row. Shape: [T, 1, H / 2] each."""

    cos: Tensor
    sin: Tensor

    def turn(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Turn queries and keys."""
        return _rotate(q, self.cos, self.sin), _rotate(k, self.cos, self.sin)


class RotaryPosition(NoPosition):
    """Channel pairs (i, i + H/2) of q and k turned by position · base^(-2i/H); q·k then depends on the distance alone.

    NTK scaling: to read `scale` times further than trained, stretch the base by scale^(H/(H-2)), so that the slowest
    pair is interpolated and the fastest hardly changes.
    """

    def __init__(self, head_dim: int, *, base: float = 10_000.0, scale: float = 1.0) -> None:
        super().__init__()
        self.head_dim = head_dim
        self.base = base * scale ** (head_dim / (head_dim - 2))

    def place(self, place: Place, num_layers: int) -> list[Placement]:
        """Return one rotation for all layers; keys are cached after the rotation."""
        steps = torch.arange(place.keys.max_length, device=place.positions.device)
        cos, sin = _angles(steps, self.base, self.head_dim)
        return [RotaryPlacement(cos[place.positions], sin[place.positions])] * num_layers


@dataclass(frozen=True, eq=False)
class _DynamicPlacement(Placement):
    place: Place
    trained: int
    head_dim: int
    base_for: Callable[[Tensor], Tensor]

    def attend(self, call: Call, kernel: Kernel) -> Tensor:
        """Turn queries and keys by the base of what each query sees; keys are cached before the rotation."""
        keys, positions = self.place.keys, self.place.positions
        if keys.max_length <= self.trained or not call.causal:
            base = self.base_for(keys.lengths)
            return kernel(self._turned(call, base[self.place.queries.sequence_of], base[keys.sequence_of]))
        # Each query has its own base, so queries that see equally many keys run together. Queries within the trained
        # length share the plain base and are one such group.
        out = torch.empty_like(call.q)
        seen = (positions + 1).clamp_min(self.trained)
        for length in seen.unique().tolist():
            rows = (seen == length).nonzero().squeeze(1)
            out[rows] = kernel(self._group(call, rows, length))
        return out

    def _group(self, call: Call, rows: Tensor, length: int) -> Call:
        sequences, counts = self.place.queries.sequence_of[rows].unique_consecutive(return_counts=True)
        last = self.place.positions[rows[counts.cumsum(0) - 1]]
        base = self.base_for(torch.full_like(last, length))[:1]
        turned = self._turned(call, base, base)
        return replace(
            turned,
            q=turned.q[rows],
            queries=Ragged.of(counts.tolist(), call.q.device),
            keys=call.keys.select(sequences, last + 1),
        )

    def _turned(self, call: Call, q_base: Tensor, k_base: Tensor) -> Call:
        q = _rotate(call.q, *_angles(self.place.positions, q_base, self.head_dim))
        k = _rotate(call.k, *_angles(self.place.keys.position_of, k_base, self.head_dim))
        return replace(call, q=q, k=k)


class DynamicRotaryPosition(NoPosition):
    """Rotary whose base follows the number c of keys a query sees, once that passes the trained length m.

    base(c) = base · (scale · c / m - (scale - 1))^(H/(H-2)) for c > m. A causal query at position p sees p + 1 keys
    whatever comes later, so a token's state never changes afterwards: the model stays causal, and a cached step gives
    the numbers of the whole pass. (Rules that take c from the longest sequence of the batch have neither property.)
    """

    fixed_shapes = False

    def __init__(self, head_dim: int, *, trained: int, base: float = 10_000.0, scale: float = 1.0) -> None:
        super().__init__()
        self.head_dim, self.trained, self.base, self.scale = head_dim, trained, base, scale

    def base_for(self, seen: Tensor) -> Tensor:
        """Return the base for each number of visible keys."""
        stretch = (self.scale * seen.double() / self.trained - (self.scale - 1)).clamp_min(1.0)
        return self.base * torch.where(seen > self.trained, stretch, 1.0) ** (self.head_dim / (self.head_dim - 2))

    def place(self, place: Place, num_layers: int) -> list[Placement]:
        """Return one placement for all layers."""
        return [_DynamicPlacement(place, self.trained, self.head_dim, self.base_for)] * num_layers


def _angles(positions: Tensor, base: Tensor | float, head_dim: int) -> tuple[Tensor, Tensor]:
    """Cosine and sine of each position's angles. Shape: [T, 1, H / 2] each."""
    exponent = torch.arange(0, head_dim, 2, device=positions.device, dtype=torch.float64) / head_dim
    base = base.double().unsqueeze(-1) if isinstance(base, Tensor) else base
    angle = (positions.unsqueeze(-1) * base**-exponent).unsqueeze(1)
    return angle.cos().float(), angle.sin().float()


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn the pairs (i, i + H/2) of each head. Shape: [T, N, H]."""
    a, b = x.float().chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1).to(x.dtype)
