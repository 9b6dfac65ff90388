"""Attention over short sequences, in Triton: one program computes all of one sequence and head.

Flash attention (Dao et al. 2022) splits long rows into tiles of 128 and computes a whole tile even for a sentence of 15
tokens. Here nothing is split: the scores of a sequence stay in registers, so the softmax needs no second pass. The
backward pass recomputes everything from q, k and v, without sums across programs. Most sentences are less than half as
long as the longest one and use a tile of a quarter of the size.

    s = q kᵀ · scale      p = softmax(s)      o = (p · m) v
    dp = m · (do vᵀ)      ds = p · (dp - Σ p · dp) · scale
    dv = (p · m)ᵀ do      dq = ds k           dk = dsᵀ q

m is the dropout mask, 0 or 1 / (1 - dropout). Both passes draw it from the same seed; it is never stored.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from qkv.common.cuda.triton import HERE, buildable

LONGEST = 64  # maximum tokens of a sequence
HEAD_DIMS = (16, 32, 64, 128)

if HERE:
    import triton
    import triton.language as tl

    SIDE = tl.constexpr(LONGEST)  # the index of a weight is computed as if every sequence had this length

    @triton.jit
    def _tile(x, start, length, row_stride, head, ROWS: tl.constexpr, H: tl.constexpr):
        """Pointers to the rows of a sequence in one head, and a mask of those that exist. Shape: [ROWS, H]."""
        row, column = tl.arange(0, ROWS)[:, None], tl.arange(0, H)[None, :]
        return x + (start + row).to(tl.int64) * row_stride + head * H + column, row < length

    @triton.jit
    def _where(q_offsets, k_offsets, q_lengths, k_lengths):
        """The first rows and the lengths of this program's sequence."""
        i = tl.program_id(0)
        return tl.load(q_offsets + i), tl.load(k_offsets + i), tl.load(q_lengths + i), tl.load(k_lengths + i)

    @triton.jit
    def _weights(q, k, q_length, k_length, scale, causal: tl.constexpr, Q: tl.constexpr, K: tl.constexpr):
        """softmax(q kᵀ · scale) in fp32, with 0 for masked keys. Shape: [Q, K]."""
        row, column = tl.arange(0, Q)[:, None], tl.arange(0, K)[None, :]
        seen = column < k_length
        if causal:  # queries are aligned with the end of their keys
            seen = seen & (column <= row + k_length - q_length)
        scores = tl.where(seen, tl.dot(q, tl.trans(k), input_precision="ieee") * scale, float("-inf"))
        top = tl.max(scores, 1)[:, None]
        power = tl.exp(scores - tl.where(top == float("-inf"), 0.0, top))
        return power / tl.maximum(tl.sum(power, 1)[:, None], 1e-30)

    @triton.jit
    def _left(p, seed, head, N: tl.constexpr, Q: tl.constexpr, K: tl.constexpr, dropout: tl.constexpr):
        """Apply dropout to the weights or their gradients. Shape: [Q, K]."""
        row, column = tl.arange(0, Q)[:, None], tl.arange(0, K)[None, :]
        place = ((tl.program_id(0) * N + head) * SIDE + row) * SIDE + column
        return tl.where(tl.rand(tl.load(seed), place) < dropout, 0.0, p * (1.0 / (1.0 - dropout)))

    @triton.jit
    def _one_forward(
        q, k, v, out, q_start, k_start, q_length, k_length, q_row, k_row, v_row, head, scale,
        seed, N: tl.constexpr, H: tl.constexpr, Q: tl.constexpr, K: tl.constexpr, causal: tl.constexpr,
        dropout: tl.constexpr,
    ):  # fmt: skip
        q_at, q_there = _tile(q, q_start, q_length, q_row, head, Q, H)
        k_at, k_there = _tile(k, k_start, k_length, k_row, head, K, H)
        v_at, _ = _tile(v, k_start, k_length, v_row, head, K, H)
        o_at, _ = _tile(out, q_start, q_length, N * H, head, Q, H)
        queries, keys = tl.load(q_at, q_there, 0.0), tl.load(k_at, k_there, 0.0)
        values = tl.load(v_at, k_there, 0.0)
        p = _weights(queries, keys, q_length, k_length, scale, causal, Q, K)
        if dropout > 0:
            p = _left(p, seed, head, N, Q, K, dropout)
        tl.store(o_at, tl.dot(p.to(values.dtype), values, input_precision="ieee").to(values.dtype), q_there)

    @triton.jit
    def _one_backward(
        q, k, v, d_out, d_q, d_k, d_v, q_start, k_start, q_length, k_length, q_row, k_row, v_row, o_row, head, scale,
        seed, N: tl.constexpr, H: tl.constexpr, Q: tl.constexpr, K: tl.constexpr, causal: tl.constexpr,
        dropout: tl.constexpr,
    ):  # fmt: skip
        q_at, q_there = _tile(q, q_start, q_length, q_row, head, Q, H)
        k_at, k_there = _tile(k, k_start, k_length, k_row, head, K, H)
        v_at, _ = _tile(v, k_start, k_length, v_row, head, K, H)
        o_at, _ = _tile(d_out, q_start, q_length, o_row, head, Q, H)
        queries, keys = tl.load(q_at, q_there, 0.0), tl.load(k_at, k_there, 0.0)
        values, d_rows = tl.load(v_at, k_there, 0.0), tl.load(o_at, q_there, 0.0)
        p = _weights(queries, keys, q_length, k_length, scale, causal, Q, K)
        p = tl.where(q_there, p, 0.0)  # rows beyond the sequence give keys no gradient
        said = p
        dp = tl.dot(d_rows, tl.trans(values), input_precision="ieee")
        if dropout > 0:
            said = _left(p, seed, head, N, Q, K, dropout)
            dp = _left(dp, seed, head, N, Q, K, dropout)
        dv = tl.dot(tl.trans(said.to(d_rows.dtype)), d_rows, input_precision="ieee")
        ds = (p * (dp - tl.sum(p * dp, 1)[:, None]) * scale).to(queries.dtype)
        to_q, _ = _tile(d_q, q_start, q_length, N * H, head, Q, H)
        to_k, _ = _tile(d_k, k_start, k_length, N * H, head, K, H)
        to_v, _ = _tile(d_v, k_start, k_length, N * H, head, K, H)
        tl.store(to_q, tl.dot(ds, keys, input_precision="ieee").to(queries.dtype), q_there)
        tl.store(to_k, tl.dot(tl.trans(ds), queries, input_precision="ieee").to(queries.dtype), k_there)
        tl.store(to_v, dv.to(queries.dtype), k_there)

    @triton.jit
    def _forward(
        q, k, v, out, q_offsets, k_offsets, q_lengths, k_lengths, q_row, k_row, v_row, scale, seed, N: tl.constexpr,
        H: tl.constexpr, Q: tl.constexpr, K: tl.constexpr, HALF: tl.constexpr, causal: tl.constexpr,
        dropout: tl.constexpr,
    ):  # fmt: skip
        head = tl.program_id(1)
        q_start, k_start, q_length, k_length = _where(q_offsets, k_offsets, q_lengths, k_lengths)
        if tl.maximum(q_length, k_length) <= HALF:
            _one_forward(
                q, k, v, out, q_start, k_start, q_length, k_length, q_row, k_row, v_row, head, scale,
                seed, N, H, HALF, HALF, causal, dropout)  # fmt: skip
        else:
            _one_forward(
                q, k, v, out, q_start, k_start, q_length, k_length, q_row, k_row, v_row, head, scale,
                seed, N, H, Q, K, causal, dropout)  # fmt: skip

    @triton.jit
    def _backward(
        q, k, v, d_out, d_q, d_k, d_v, q_offsets, k_offsets, q_lengths, k_lengths, q_row, k_row, v_row, o_row, scale,
        seed, N: tl.constexpr, H: tl.constexpr, Q: tl.constexpr, K: tl.constexpr, HALF: tl.constexpr,
        causal: tl.constexpr, dropout: tl.constexpr,
    ):  # fmt: skip
        head = tl.program_id(1)
        q_start, k_start, q_length, k_length = _where(q_offsets, k_offsets, q_lengths, k_lengths)
        if tl.maximum(q_length, k_length) <= HALF:
            _one_backward(
                q, k, v, d_out, d_q, d_k, d_v, q_start, k_start, q_length, k_length, q_row, k_row, v_row, o_row,
                head, scale, seed, N, H, HALF, HALF, causal, dropout)  # fmt: skip
        else:
            _one_backward(
                q, k, v, d_out, d_q, d_k, d_v, q_start, k_start, q_length, k_length, q_row, k_row, v_row, o_row,
                head, scale, seed, N, H, Q, K, causal, dropout)  # fmt: skip


def fits(q: Tensor, q_longest: int, k_longest: int) -> bool:
    """Return whether the kernel supports sequences of these lengths."""
    return 0 < max(q_longest, k_longest) <= LONGEST and q.shape[-1] in HEAD_DIMS and buildable(q.device)


@torch.library.custom_op("qkv::short_attention", mutates_args=())
def attend(
    q: Tensor, k: Tensor, v: Tensor,
    q_offsets: Tensor, k_offsets: Tensor, q_lengths: Tensor, k_lengths: Tensor,
    seed: Tensor | None, q_longest: int, k_longest: int, scale: float, causal: bool, dropout: float,
) -> Tensor:  # fmt: skip
    """Compute attention in each sequence. Dropout needs a seed. Shape: [T, N, H], [S, N, H], [S, N, H] -> [T, N, H]."""
    q, k, v = (_rows(x) for x in (q, k, v))
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    grid, sizes = _sizes(q, len(q_lengths), q_longest, k_longest)
    layout = (q_offsets, k_offsets, q_lengths, k_lengths, q.stride(0), k.stride(0), v.stride(0))
    _forward[grid](q, k, v, out, *layout, scale, seed, causal=causal, dropout=dropout, **sizes)
    return out


@attend.register_fake
def _(q: Tensor, *_: Any) -> Tensor:
    return torch.empty(q.shape, dtype=q.dtype, device=q.device)


@torch.library.custom_op("qkv::short_attention_backward", mutates_args=())
def _gradients(
    d_out: Tensor, q: Tensor, k: Tensor, v: Tensor,
    q_offsets: Tensor, k_offsets: Tensor, q_lengths: Tensor, k_lengths: Tensor,
    seed: Tensor | None, q_longest: int, k_longest: int, scale: float, causal: bool, dropout: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    d_out, q, k, v = (_rows(x) for x in (d_out, q, k, v))
    found = tuple(torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))
    grid, sizes = _sizes(q, len(q_lengths), q_longest, k_longest)
    layout = (q_offsets, k_offsets, q_lengths, k_lengths, q.stride(0), k.stride(0), v.stride(0), d_out.stride(0))
    _backward[grid](q, k, v, d_out, *found, *layout, scale, seed, causal=causal, dropout=dropout, **sizes)
    return found[0], found[1], found[2]


@_gradients.register_fake
def _(d_out: Tensor, q: Tensor, k: Tensor, v: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    del d_out
    return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    del output
    ctx.save_for_backward(*inputs[:8])
    ctx.rest = inputs[8:]


def _back(ctx: Any, d_out: Tensor) -> tuple[Any, ...]:
    return *_gradients(d_out, *ctx.saved_tensors, *ctx.rest), *[None] * 10


attend.register_autograd(_back, setup_context=_keep)


def _rows(x: Tensor) -> Tensor:
    """Make the heads of each row contiguous; the rows themselves may have any stride."""
    return x if x.stride(2) == 1 and x.stride(1) == x.shape[2] else x.contiguous()


def _sizes(q: Tensor, sequences: int, q_longest: int, k_longest: int) -> tuple[tuple[int, int], dict[str, int]]:
    def tile(n: int) -> int:
        return max(16, 1 << (n - 1).bit_length())

    heads, width = q.shape[1:]
    largest = max(tile(q_longest), tile(k_longest))
    sizes = {"N": heads, "H": width, "Q": tile(q_longest), "K": tile(k_longest), "HALF": max(16, largest // 2)}
    return (sequences, heads), sizes | {"num_warps": 4 if largest > 32 else 2}
