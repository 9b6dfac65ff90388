"""Attention with a bias by distance, in Triton: flash attention (Dao et al. 2022) over packed batches.

    s = q kᵀ · scale + table[head, distance]      p = softmax(s)      o = (p · m) v
    dp = m · (do vᵀ)      ds = p · (dp - do · o)      d_table = ds summed over each distance
    dv = (p · m)ᵀ do      dq = ds k · scale           dk = dsᵀ q · scale

m is the dropout mask, 0 or 1 / (1 - dropout). Each kernel draws it again from the same seed; it is never stored.
Programs never add to the same memory, so results are deterministic. All tiles of BLOCK x BLOCK scores on one diagonal
have the same distances: `_table_backward` sums whole tiles, and only these sums are then reduced by distance.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from qkv.common.cuda.triton import HERE, buildable

WIDEST = 128  # maximum head dimension
BLOCK = 64  # queries and keys per tile
PARTS = 16  # programs that share the sequences of one diagonal

if HERE:
    import triton
    import triton.language as tl

    @triton.jit
    def _where(q_offsets, k_offsets, q_lengths, k_lengths, b):
        """The first rows and the lengths of a sequence."""
        return tl.load(q_offsets + b), tl.load(k_offsets + b), tl.load(q_lengths + b), tl.load(k_lengths + b)

    @triton.jit
    def _read(x, start, rows, length, row_stride, head, H: tl.constexpr, W: tl.constexpr):
        """Load rows of one head, with zeros beyond the sequence. Shape: [rows, W]."""
        column = tl.arange(0, W)[None, :]
        there = (rows >= 0)[:, None] & (rows < length)[:, None] & (column < H)
        return tl.load(x + (start + rows).to(tl.int64)[:, None] * row_stride + head * H + column, there, 0.0)

    @triton.jit
    def _write(x, value, start, rows, length, row_stride, head, H: tl.constexpr, W: tl.constexpr):
        column = tl.arange(0, W)[None, :]
        there = (rows >= 0)[:, None] & (rows < length)[:, None] & (column < H)
        place = x + (start + rows).to(tl.int64)[:, None] * row_stride + head * H + column
        tl.store(place, value.to(x.dtype.element_ty), there)

    @triton.jit
    def _scores(
        queries, keys, table, i, j, q_length, k_length, scale, reach, causal: tl.constexpr, window: tl.constexpr,
    ):  # fmt: skip
        """Q kᵀ · scale + bias, with -inf for masked keys; queries are aligned with the end of their keys."""
        distance = j[None, :] - i[:, None] - (k_length - q_length)
        seen = (i >= 0)[:, None] & (i < q_length)[:, None] & (j < k_length)[None, :]
        if causal:
            seen = seen & (distance <= 0)
        if window >= 0:
            seen = seen & (distance >= -window) & (distance <= window)
        column = tl.minimum(tl.maximum(distance + reach, 0), 2 * reach)
        bias = tl.load(table + column, seen, 0.0)
        return tl.where(seen, tl.dot(queries, tl.trans(keys), input_precision="ieee") * scale + bias, float("-inf"))

    @triton.jit
    def _left(p, seed, stream, i, j, side, dropout: tl.constexpr):
        """Apply dropout to the weights or their gradients."""
        place = i[:, None] * side + j[None, :]
        return tl.where(tl.rand(tl.load(seed) + stream, place, 7) < dropout, 0.0, p * (1.0 / (1.0 - dropout)))

    @triton.jit
    def _forward(
        q, k, v, table, out, lse, q_offsets, k_offsets, q_lengths, k_lengths, seed, q_row, k_row, v_row, scale, reach,
        side, tiles, N: tl.constexpr, H: tl.constexpr, W: tl.constexpr, Q: tl.constexpr, K: tl.constexpr,
        causal: tl.constexpr, window: tl.constexpr, dropout: tl.constexpr,
    ):  # fmt: skip
        head, b, first = tl.program_id(1), tl.program_id(0) // tiles, (tl.program_id(0) % tiles) * Q
        q_start, k_start, q_length, k_length = _where(q_offsets, k_offsets, q_lengths, k_lengths, b)
        if first < q_length:
            i = first + tl.arange(0, Q)
            queries = _read(q, q_start, i, q_length, q_row, head, H, W)
            top, total = tl.full([Q], float("-inf"), tl.float32), tl.zeros([Q], tl.float32)
            found = tl.zeros([Q, W], tl.float32)
            end = k_length
            if causal:
                end = tl.minimum(end, first + Q + k_length - q_length)
            for at in range(0, end, K):
                j = at + tl.arange(0, K)
                keys = _read(k, k_start, j, k_length, k_row, head, H, W)
                values = _read(v, k_start, j, k_length, v_row, head, H, W)
                s = _scores(
                    queries, keys, table + head * (2 * reach + 1), i, j, q_length, k_length, scale, reach, causal,
                    window)  # fmt: skip
                higher = tl.maximum(top, tl.max(s, 1))
                base = tl.where(higher == float("-inf"), 0.0, higher)
                shrink, p = tl.exp(top - base), tl.exp(s - base[:, None])
                total = total * shrink + tl.sum(p, 1)
                if dropout > 0:
                    p = _left(p, seed, b * N + head, i, j, side, dropout)
                found = found * shrink[:, None] + tl.dot(p.to(values.dtype), values, input_precision="ieee")
                top = higher
            some = tl.where(total > 0.0, total, 1.0)
            _write(out, found / some[:, None], q_start, i, q_length, N * H, head, H, W)
            weight = tl.where(total > 0.0, top + tl.log(some), float("inf"))  # if no key is visible, all weights are 0
            tl.store(lse + (q_start + i).to(tl.int64) * N + head, weight, i < q_length)

    @triton.jit
    def _gradient(
        queries, keys, values, d_rows, table, lse, delta, seed, stream, i, j, q_length, k_length, scale, reach, side,
        causal: tl.constexpr, window: tl.constexpr, dropout: tl.constexpr,
    ):  # fmt: skip
        """The weights after dropout, and the gradient of the scores. Shape: [Q, K] each."""
        s = _scores(queries, keys, table, i, j, q_length, k_length, scale, reach, causal, window)
        p = tl.exp(s - lse[:, None])
        dp = tl.dot(d_rows, tl.trans(values), input_precision="ieee")
        kept = p
        if dropout > 0:
            kept = _left(p, seed, stream, i, j, side, dropout)
            dp = _left(dp, seed, stream, i, j, side, dropout)
        return kept, p * (dp - delta[:, None])

    @triton.jit
    def _sums(lse, delta, q_start, i, q_length, head, N: tl.constexpr):
        """The logsumexp of the scores, and do · o. Shape: [Q] each."""
        place, there = (q_start + i).to(tl.int64) * N + head, (i >= 0) & (i < q_length)
        return tl.load(lse + place, there, float("inf")), tl.load(delta + place, there, 0.0)

    @triton.jit
    def _query_backward(
        q, k, v, table, d_out, lse, delta, d_q, q_offsets, k_offsets, q_lengths, k_lengths, seed, q_row, k_row, v_row,
        scale, reach, side, tiles, N: tl.constexpr, H: tl.constexpr, W: tl.constexpr, Q: tl.constexpr,
        K: tl.constexpr, causal: tl.constexpr, window: tl.constexpr, dropout: tl.constexpr,
    ):  # fmt: skip
        head, b, first = tl.program_id(1), tl.program_id(0) // tiles, (tl.program_id(0) % tiles) * Q
        q_start, k_start, q_length, k_length = _where(q_offsets, k_offsets, q_lengths, k_lengths, b)
        if first < q_length:
            i = first + tl.arange(0, Q)
            queries = _read(q, q_start, i, q_length, q_row, head, H, W)
            d_rows = _read(d_out, q_start, i, q_length, N * H, head, H, W)
            log_sum, less = _sums(lse, delta, q_start, i, q_length, head, N)
            found = tl.zeros([Q, W], tl.float32)
            end = k_length
            if causal:
                end = tl.minimum(end, first + Q + k_length - q_length)
            for at in range(0, end, K):
                j = at + tl.arange(0, K)
                keys = _read(k, k_start, j, k_length, k_row, head, H, W)
                values = _read(v, k_start, j, k_length, v_row, head, H, W)
                _, ds = _gradient(
                    queries, keys, values, d_rows, table + head * (2 * reach + 1), log_sum, less, seed, b * N + head, i,
                    j, q_length, k_length, scale, reach, side, causal, window, dropout)  # fmt: skip
                found += tl.dot(ds.to(keys.dtype), keys, input_precision="ieee")
            _write(d_q, found * scale, q_start, i, q_length, N * H, head, H, W)

    @triton.jit
    def _key_backward(
        q, k, v, table, d_out, lse, delta, d_k, d_v, q_offsets, k_offsets, q_lengths, k_lengths, seed, q_row, k_row,
        v_row, scale, reach, side, tiles, N: tl.constexpr, H: tl.constexpr, W: tl.constexpr, Q: tl.constexpr,
        K: tl.constexpr, causal: tl.constexpr, window: tl.constexpr, dropout: tl.constexpr,
    ):  # fmt: skip
        head, b, first = tl.program_id(1), tl.program_id(0) // tiles, (tl.program_id(0) % tiles) * K
        q_start, k_start, q_length, k_length = _where(q_offsets, k_offsets, q_lengths, k_lengths, b)
        if first < k_length:
            j = first + tl.arange(0, K)
            keys = _read(k, k_start, j, k_length, k_row, head, H, W)
            values = _read(v, k_start, j, k_length, v_row, head, H, W)
            found_k, found_v = tl.zeros([K, W], tl.float32), tl.zeros([K, W], tl.float32)
            begin = 0
            if causal:  # earlier queries see none of these keys
                begin = tl.maximum(first - (k_length - q_length), 0) // Q * Q
            for at in range(begin, q_length, Q):
                i = at + tl.arange(0, Q)
                queries = _read(q, q_start, i, q_length, q_row, head, H, W)
                d_rows = _read(d_out, q_start, i, q_length, N * H, head, H, W)
                log_sum, less = _sums(lse, delta, q_start, i, q_length, head, N)
                kept, ds = _gradient(
                    queries, keys, values, d_rows, table + head * (2 * reach + 1), log_sum, less, seed, b * N + head, i,
                    j, q_length, k_length, scale, reach, side, causal, window, dropout)  # fmt: skip
                found_v += tl.dot(tl.trans(kept.to(d_rows.dtype)), d_rows, input_precision="ieee")
                found_k += tl.dot(tl.trans(ds.to(queries.dtype)), queries, input_precision="ieee")
            _write(d_k, found_k * scale, k_start, j, k_length, N * H, head, H, W)
            _write(d_v, found_v, k_start, j, k_length, N * H, head, H, W)

    @triton.jit
    def _table_backward(
        q, k, v, table, d_out, lse, delta, squares, q_offsets, k_offsets, q_lengths, k_lengths, seed, q_row, k_row,
        v_row, scale, reach, side, sequences, lowest, parts, N: tl.constexpr, H: tl.constexpr, W: tl.constexpr,
        B: tl.constexpr, causal: tl.constexpr, window: tl.constexpr, dropout: tl.constexpr,
    ):  # fmt: skip
        """Sum the tiles of ds on a diagonal, where keys are `diagonal` blocks after the positions of their queries."""
        part, head, diagonal = tl.program_id(0), tl.program_id(1), lowest + tl.program_id(2)
        place = tl.arange(0, B)
        found = tl.zeros([B, B], tl.float32)
        for b in range(part, sequences, parts):
            q_start, k_start, q_length, k_length = _where(q_offsets, k_offsets, q_lengths, k_lengths, b)
            shift = k_length - q_length
            # The first key block for which the block of positions `diagonal` blocks earlier contains a query.
            begin = tl.maximum(shift + diagonal * B, 0) // B * B
            end = tl.minimum(k_length, k_length + diagonal * B)
            for at in range(begin, end, B):
                j = at + place
                i = j - diagonal * B - shift
                queries = _read(q, q_start, i, q_length, q_row, head, H, W)
                d_rows = _read(d_out, q_start, i, q_length, N * H, head, H, W)
                log_sum, less = _sums(lse, delta, q_start, i, q_length, head, N)
                keys = _read(k, k_start, j, k_length, k_row, head, H, W)
                values = _read(v, k_start, j, k_length, v_row, head, H, W)
                _, ds = _gradient(
                    queries, keys, values, d_rows, table + head * (2 * reach + 1), log_sum, less, seed, b * N + head, i,
                    j, q_length, k_length, scale, reach, side, causal, window, dropout)  # fmt: skip
                found += ds
        square = (tl.program_id(2) * N + head) * parts + part
        tl.store(squares + square.to(tl.int64) * B * B + place[:, None] * B + place[None, :], found)


def fits(device: torch.device, width: int) -> bool:
    """Return whether the kernel supports heads of this width on this device."""
    return width <= WIDEST and buildable(device)


@torch.library.custom_op("qkv::biased_attention", mutates_args=())
def attend(
    q: Tensor, k: Tensor, v: Tensor, table: Tensor,
    q_offsets: Tensor, k_offsets: Tensor, q_lengths: Tensor, k_lengths: Tensor,
    seed: Tensor | None, q_longest: int, k_longest: int, scale: float, causal: bool, window: int, dropout: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Compute attention in each sequence. Dropout needs a seed; a window of -1 means no window.

    Returns:
        The output of attention, and the logsumexp of the scores.

    Shape: [T, N, H], [S, N, H], [S, N, H], [N, R] in fp32 -> [T, N, H], [T, N].
    """
    q, k, v = (_rows(x) for x in (q, k, v))
    out, lse = torch.zeros(q.shape, dtype=q.dtype, device=q.device), q.new_zeros(q.shape[:2], dtype=torch.float32)
    sizes = _sizes(q, q_longest, k_longest)
    tiles = -(-q_longest // sizes["Q"])
    layout = (q_offsets, k_offsets, q_lengths, k_lengths, seed, q.stride(0), k.stride(0), v.stride(0))
    kinds = {"causal": causal, "window": window, "dropout": dropout}
    numbers = (scale, table.shape[1] // 2, k_longest, tiles)
    if tiles:
        grid = (len(q_lengths) * tiles, q.shape[1])
        _forward[grid](q, k, v, table.contiguous(), out, lse, *layout, *numbers, **sizes, **kinds)
    return out, lse


@attend.register_fake
def _(q: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return torch.empty(q.shape, dtype=q.dtype, device=q.device), q.new_empty(q.shape[:2], dtype=torch.float32)


@torch.library.custom_op("qkv::biased_attention_backward", mutates_args=())
def _gradients(
    d_out: Tensor, out: Tensor, lse: Tensor, q: Tensor, k: Tensor, v: Tensor, table: Tensor,
    q_offsets: Tensor, k_offsets: Tensor, q_lengths: Tensor, k_lengths: Tensor,
    seed: Tensor | None, q_longest: int, k_longest: int, scale: float, causal: bool, window: int, dropout: float,
    learned: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    q, k, v, d_out, table = *(_rows(x) for x in (q, k, v)), d_out.contiguous(), table.contiguous()
    d_q, d_k, d_v = (torch.zeros(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))
    delta = (d_out.float() * out.float()).sum(-1)
    if not q_longest or not k_longest:
        return d_q, d_k, d_v, torch.zeros_like(table)
    sizes = _sizes(q, q_longest, k_longest)
    heads, sequences, reach = q.shape[1], len(q_lengths), table.shape[1] // 2
    layout = (q_offsets, k_offsets, q_lengths, k_lengths, seed, q.stride(0), k.stride(0), v.stride(0))
    given, numbers = (q, k, v, table, d_out, lse, delta), (scale, reach, k_longest)
    kinds = {"causal": causal, "window": window, "dropout": dropout}
    tiles = -(-q_longest // sizes["Q"])
    _query_backward[(sequences * tiles, heads)](*given, d_q, *layout, *numbers, tiles, **sizes, **kinds)
    tiles = -(-k_longest // sizes["K"])
    _key_backward[(sequences * tiles, heads)](*given, d_k, d_v, *layout, *numbers, tiles, **sizes, **kinds)
    if not learned:
        return d_q, d_k, d_v, torch.zeros_like(table)
    block = max(sizes.pop("Q"), sizes.pop("K"))
    # The position of a query is between q_longest before the first key and the last key.
    lowest, highest = 1 - -(-k_longest // block), 0 if causal else -(-k_longest // block) - 1 + -(-q_longest // block)
    parts = min(PARTS, sequences)
    squares = q.new_empty(highest - lowest + 1, heads, parts, block, block, dtype=torch.float32)
    grid = (parts, heads, len(squares))
    _table_backward[grid](*given, squares, *layout, *numbers, sequences, lowest, parts, **sizes, **kinds, B=block)
    return d_q, d_k, d_v, _by_distance(squares.sum(2), lowest, reach)


@_gradients.register_fake
def _(
    d_out: Tensor, out: Tensor, lse: Tensor, q: Tensor, k: Tensor, v: Tensor, table: Tensor, *_: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    del d_out, out, lse
    return *(torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v)), table.new_empty(table.shape)  # type: ignore[return-value]


def _by_distance(squares: Tensor, lowest: int, reach: int) -> Tensor:
    """Sum tiles by distance; the table's end columns include all larger distances. Shape: [D, N, B, B] -> [N, R].

    Row i and column j of tile d are at distance (lowest + d) · B + j - i.
    """
    number, heads, block, _ = squares.shape
    # Reverse the rows and read rows of 2 B as rows of 2 B - 1: each row shifts by one more, so columns are distances.
    skewed = F.pad(squares.flip(2), (0, block)).flatten(2)[..., :-block].unflatten(-1, (block, 2 * block - 1))
    # The second half of a tile has the same distances as the first half of the next one.
    early, late = F.pad(skewed.sum(2), (0, 1)).split(block, -1)
    rows = F.pad(early, (0, 0, 0, 0, 0, 1)) + F.pad(late, (0, 0, 0, 0, 1, 0))
    sums, first = rows.transpose(0, 1).reshape(heads, (number + 1) * block), (lowest - 1) * block + 1
    if not reach:
        return sums.sum(1, keepdim=True)
    low, high = (min(max(x - first, 0), sums.shape[1]) for x in (1 - reach, reach))
    table = F.pad(sums[:, low:high], (first + low + reach, reach + 1 - first - high))
    table[:, 0] += sums[:, :low].sum(1)
    table[:, -1] += sums[:, high:].sum(1)
    return table


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*output, *inputs[:9])
    ctx.rest = inputs[9:]
    ctx.mark_non_differentiable(output[1])


def _back(ctx: Any, d_out: Tensor, _: Tensor) -> tuple[Any, ...]:
    learned = ctx.needs_input_grad[3]
    *found, d_table = _gradients(d_out, *ctx.saved_tensors, *ctx.rest, learned)
    return *found, d_table if learned else None, *[None] * 11


attend.register_autograd(_back, setup_context=_keep)


def _rows(x: Tensor) -> Tensor:
    """Make the heads of each row contiguous; the rows themselves may have any stride."""
    return x if x.stride(2) == 1 and x.stride(1) == x.shape[2] else x.contiguous()


def _sizes(q: Tensor, q_longest: int, k_longest: int) -> dict[str, int]:
    def tile(n: int, most: int) -> int:
        return min(most, max(16, 1 << max(n - 1, 0).bit_length()))

    heads, width = q.shape[1:]
    sizes = {"Q": tile(q_longest, BLOCK), "K": tile(k_longest, BLOCK)}
    return {"N": heads, "H": width, "W": tile(width, WIDEST), **sizes, "num_warps": 4}
