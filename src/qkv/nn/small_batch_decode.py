"""Decoder layers for small batches with one new token per row, in five Triton kernels per layer.

    x ─┬─► norm, qkv ─► q, and k and v into the cache ─► attend ─► out ─►(+)─┬─► norm, up, activation ─► down ─►(+)─►
       └──────────────────────────────────────────────────────────────────────┴────────────────────────────────┘

With few rows, a step is limited by kernel launches and by reading weights, not by arithmetic. So each product reads its
weights once and in parallel: a program takes some columns with all their weights and sums in fp32. A norm is so cheap
that every program recomputes it. Results do not depend on the order of programs.

Only CUDA builds of torch include Triton, so import this file only on CUDA.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

from qkv.nn.attention import SelfAttention
from qkv.nn.block import Block
from qkv.nn.feedforward import ACTIVATIONS, FeedForward
from qkv.nn.linear import Linear
from qkv.nn.positions import NoPosition
from qkv.nn.stack import Stack
from qkv.nn.static_cache import StaticCache
from qkv.nn.tap import recorders

ROWS = 4  # with more rows, matrix products are faster
WIDEST = 8192  # the longest column of weights that fits into one program
NAMES = {ACTIVATIONS[name]: name for name in ("relu", "gelu", "gelu_tanh")}
# Columns of weights (for attention: keys) per program, and the minimum number of warps.
CUTS = {"qkv": (4, 1), "attend": (128, 8), "out": (1, 1), "up": (2, 1), "down": (2, 4)}
# Programmatic dependent launch, from Hopper on: a kernel starts early, reads its weights, then waits for its inputs.
EARLY = True


@triton.jit
def _await(EARLY: tl.constexpr):
    """Let the next kernel start, and wait until all previous kernels have finished.

    The barrier keeps the compiler from delaying the loads above until their use, so that they all run in parallel.
    """
    if EARLY:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    else:
        tl.debug_barrier()


@triton.jit
def _normed(x, gain, shift, k, eps, K: tl.constexpr):
    """(x - mean) / std · gain + shift, with zeros beyond K. Shape: [R, 1, W]."""
    mean = tl.sum(x, 2, keep_dims=True) / K
    x = tl.where(k < K, x - mean, 0.0)
    variance = tl.sum(x * x, 2, keep_dims=True) / K
    return x * tl.rsqrt(variance + eps) * gain + shift


@triton.jit
def _times(x, gain, shift, w, bias, old, n, rows, eps, K: tl.constexpr, N: tl.constexpr, R: tl.constexpr,
           W: tl.constexpr, EARLY: tl.constexpr):  # fmt: skip
    """Columns n of norm(x) wᵀ + bias + old; None is skipped. Shape: [rows, K], [N, K], [rows, N] -> [R, C]."""
    r, k = tl.arange(0, R)[:, None], tl.arange(0, W)[None, None, :]
    weights = tl.load(w + n[None, :, None] * K + k, mask=(n[None, :, None] < N) & (k < K), other=0.0)
    if gain is not None:
        g = tl.load(gain + k, mask=k < K, other=0.0)
        s = tl.load(shift + k, mask=k < K, other=0.0)
    if bias is not None:
        b = tl.load(bias + n[None, :], mask=n[None, :] < N, other=0.0)
    _await(EARLY)  # the loads above are the same in every step; those below are not
    row = tl.load(x + r[:, :, None] * K + k, mask=(r[:, :, None] < rows) & (k < K), other=0.0).to(tl.float32)
    if old is not None:
        o = tl.load(old + r * N + n[None, :], mask=(r < rows) & (n[None, :] < N), other=0.0)
    if gain is not None:
        row = _normed(row, g.to(tl.float32), s.to(tl.float32), k, eps, K)
    y = tl.sum(row * weights.to(tl.float32), 2)
    if bias is not None:
        y += b.to(tl.float32)
    if old is not None:
        y += o.to(tl.float32)
    return y


@triton.jit
def _ask(x, gain, shift, w, bias, filled, q, k, v, rows, capacity, eps, K: tl.constexpr, NQ: tl.constexpr,
         NK: tl.constexpr, R: tl.constexpr, W: tl.constexpr, C: tl.constexpr, EARLY: tl.constexpr):  # fmt: skip
    """Write the queries of new tokens to q, and their keys and values to the ends of their slots in the KV cache."""
    N: tl.constexpr = NQ + 2 * NK
    n = tl.program_id(0) * C + tl.arange(0, C)
    y = _times(x, gain, shift, w, bias, None, n, rows, eps, K, N, R, W, EARLY)
    r, n = tl.arange(0, R)[:, None], n[None, :]
    end = tl.load(filled + r, mask=r < rows, other=0)
    room = (r < rows) & (end < capacity)
    at = (r * capacity + end) * NK + n - NQ
    tl.store(q + r * NQ + n, y, mask=(r < rows) & (n < NQ))
    tl.store(k + at, y, mask=room & (n >= NQ) & (n < NQ + NK))
    tl.store(v + at - NK, y, mask=room & (n >= NQ + NK) & (n < N))


@triton.jit
def _attend(q, k, v, filled, out, capacity, scale, HEADS: tl.constexpr, SHARE: tl.constexpr, H: tl.constexpr,
            W: tl.constexpr, C: tl.constexpr, EARLY: tl.constexpr):  # fmt: skip
    """Attention of one query over the keys of its slot and head.

    Lane c processes keys c, c + C, c + 2C ... with an online softmax (Milakov & Gimelshein 2018): it keeps the largest
    score so far, and the sum of its weights and of its weighted values relative to that score. Lanes are merged last.
    """
    _await(EARLY)
    row, head = tl.program_id(0), tl.program_id(1)
    length = tl.minimum(tl.load(filled + row) + 1, capacity)
    c, h = tl.arange(0, C)[:, None], tl.arange(0, W)[None, :]
    mine = (row * HEADS + head) * H + h
    first = (row * capacity * (HEADS // SHARE) + head // SHARE) * H + h
    best, total = tl.full([C, 1], -1e30, tl.float32), tl.zeros([C, 1], tl.float32)
    mix = tl.zeros([C, W], tl.float32)
    start = 0
    while start < length:
        here = start + c < length
        at = first + (start + c) * (HEADS // SHARE * H)
        keys = tl.load(k + at, mask=here & (h < H), other=0.0)
        values = tl.load(v + at, mask=here & (h < H), other=0.0)
        tl.debug_barrier()  # again, so that all loads run in parallel
        query = tl.load(q + mine, mask=h < H, other=0.0)
        score = tl.sum(keys.to(tl.float32) * query.to(tl.float32), 1, keep_dims=True) * scale
        score = tl.where(here, score, -1e30)
        top = tl.maximum(best, score)
        weight, fade = tl.exp(score - top), tl.exp(best - top)
        total, mix, best = total * fade + weight, mix * fade + weight * values.to(tl.float32), top
        start += C
    share = tl.exp(best - tl.max(best, 0, keep_dims=True))  # zero for a lane without keys
    tl.store(out + mine, tl.sum(mix * share, 0, keep_dims=True) / tl.sum(total * share, 0, keep_dims=True), mask=h < H)


@triton.jit
def _product(x, gain, shift, w, bias, old, out, rows, eps, N: tl.constexpr, ACT: tl.constexpr, K: tl.constexpr,
             R: tl.constexpr, W: tl.constexpr, C: tl.constexpr, EARLY: tl.constexpr):  # fmt: skip
    """Write act(norm(x) wᵀ + bias + old) to `out`."""
    n = tl.program_id(0) * C + tl.arange(0, C)
    y = _times(x, gain, shift, w, bias, old, n, rows, eps, K, N, R, W, EARLY)
    if ACT == "relu":
        y = tl.maximum(y, 0.0)
    elif ACT == "gelu":
        y = 0.5 * y * (1.0 + tl.erf(y * 0.7071067811865476))
    elif ACT == "gelu_tanh":  # (1 + tanh u) / 2 = sigmoid 2u, with u = √(2/π) (y + 0.044715 y³)
        y = y * tl.sigmoid(1.5957691216057308 * (y + 0.044715 * y * y * y))
    r, n = tl.arange(0, R)[:, None], n[None, :]
    tl.store(out + r * N + n, y, mask=(r < rows) & (n < N))


def fits(stack: Stack, rows: int) -> bool:
    """Return whether `layers` supports this stack: GPT layers, in eval mode, without hooks or recorders."""
    watched = recorders() or any(module._forward_hooks or module._forward_pre_hooks for module in stack.modules())
    plain = type(stack.position) is NoPosition and not stack.training and not watched
    return rows <= ROWS and plain and all(map(_known, stack.blocks))


def _known(block: Any) -> bool:
    sublayers, attention, ff = (block.attention, block.feedforward), block.attention.part, block.feedforward.part
    linears = (attention.qkv, attention.out, ff.up, ff.down)
    return (
        (type(block), type(attention), type(ff)) == (Block, SelfAttention, FeedForward)
        and block.cross is None
        and all(s.pre_norm and type(s.norm) is nn.LayerNorm and s.norm.bias is not None for s in sublayers)
        and all(type(w) is Linear and w.in_features <= WIDEST and w.weight.is_contiguous() for w in linears)
        and attention.window is None
        and not ff.gated
        and ff.act in NAMES
    )


@torch.compiler.disable  # torch.compile does not trace into these kernels
def layers(stack: Stack, x: Tensor, cache: StaticCache) -> Tensor:
    """Run the layers on x in place and append the keys and values of the new tokens to the cache.

    `cache.filled` does not change; the caller increments it. Shape: [R, D] -> [R, D].
    """
    for layer in range(stack.depth):
        block: Any = stack.blocks[layer * len(stack.blocks) // stack.depth]
        _attention(block.attention, x, cache, layer)
        ff = block.feedforward
        wide = x.new_empty(len(x), ff.part.up.out_features)
        _multiply("up", x, ff.part.up, wide, norm=ff.norm, act=NAMES[ff.part.act])
        _multiply("down", wide, ff.part.down, x, old=x)
    return x


def _attention(sublayer: Any, x: Tensor, cache: StaticCache, layer: int) -> None:
    part, norm, rows = sublayer.part, sublayer.norm, len(x)
    k, v = cache.room(layer, x, part.num_kv_heads, part.head_dim)
    q, mixed = x.new_empty(2, rows, part.sizes[0])
    many, how = _cut("qkv", rows, part.qkv)
    _ask[many](
        x, norm.weight, norm.bias, part.qkv.weight, part.qkv.bias, cache.filled, q, k, v, rows, cache.capacity,
        norm.eps, NQ=part.sizes[0], NK=part.sizes[1], **how)  # fmt: skip
    keys, warps = CUTS["attend"]
    _attend[(rows, part.num_heads)](
        q, k, v, cache.filled, mixed, cache.capacity, part.scale, HEADS=part.num_heads,
        SHARE=part.num_heads // part.num_kv_heads, H=part.head_dim, W=triton.next_power_of_2(part.head_dim), C=keys,
        num_warps=warps, **_early(x.device))  # fmt: skip
    _multiply("out", mixed, part.out, x, old=x)


def _multiply(
    name: str, x: Tensor, linear: Any, out: Tensor, *, norm: Any = None, act: str = "", old: Tensor | None = None
) -> None:
    many, how = _cut(name, len(x), linear)
    gain, shift, eps = (None, None, 0.0) if norm is None else (norm.weight, norm.bias, norm.eps)
    weight, bias, columns = linear.weight, linear.bias, linear.out_features
    _product[many](x, gain, shift, weight, bias, old, out, len(x), eps, N=columns, ACT=act, **how)


def _cut(name: str, rows: int, linear: Any) -> tuple[tuple[int], dict[str, Any]]:
    """Return the number of programs and their options, with enough warps for the rows to fit into registers."""
    columns, warps = CUTS[name]
    R, W = triton.next_power_of_2(rows), triton.next_power_of_2(linear.in_features)
    warps = max(warps, R * W // 2048)
    sizes = {"K": linear.in_features, "R": R, "W": W, "C": columns, "num_warps": warps}
    return (triton.cdiv(linear.out_features, columns),), sizes | _early(linear.weight.device)


def _early(device: torch.device) -> dict[str, Any]:
    early = EARLY and device.type == "cuda" and torch.cuda.get_device_capability(device) >= (9, 0)
    return {"EARLY": True, "launch_pdl": True} if early else {"EARLY": False}
