"""Losses over wide rows of logits in Triton, which never store the log-probabilities.

Log-probabilities of a whole vocabulary in fp32 are the largest tensor of a language model's step. Here they are never
in memory: a program reads a row of logits x in blocks, and keeps only a few numbers of it.

    log z = log Σ exp x       -log p(wanted) = log z - x[wanted]       the mean of -log p = log z - the mean of x

    backwards, with a gradient for each of the three     dx = g₁ exp(x - log z) + g₂ [wanted] + g₃ / V

The two passes of R-Drop have logits x and y; their distance is D = ½ (KL(p‖q) + KL(q‖p)):

    D = ½ (a - b)       with a = Σ p (x - y),  b = Σ q (x - y)
    dx = ½ (p (x - y - a) + p - q)       dy = ½ (q (b - (x - y)) + q - p)
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from qkv.common.cuda.triton import HERE, buildable

NARROW = 1024  # classes: below it, torch's own losses are as fast
BLOCK = 4096  # scores that a program reads at once

if HERE:
    import triton
    import triton.language as tl

    @triton.jit
    def _scores(x, row, at, step, V: tl.constexpr):
        """Some scores of a row, in fp32; nothing beyond V. Rows are `step` numbers apart."""
        return tl.load(x + row.to(tl.int64) * step + at, mask=at < V, other=float("-inf")).to(tl.float32)

    @triton.jit
    def _more(top, total, x):
        """Add scores to a running maximum and to Σ exp relative to it (Milakov & Gimelshein 2018)."""
        best = tl.maximum(top, tl.max(x, 0))
        level = tl.where(best == float("-inf"), 0.0, best)
        return best, total * tl.exp(top - level) + tl.sum(tl.exp(x - level), 0)

    @triton.jit
    def _entropy(x, wanted, log_z, picked, mean, right, step, V: tl.constexpr, BLOCK: tl.constexpr):
        row, block = tl.program_id(0), tl.arange(0, BLOCK)
        top, total, added, place = float("-inf"), 0.0, 0.0, 0
        for start in range(0, V, BLOCK):
            at = start + block
            some = _scores(x, row, at, step, V)
            here = tl.max(some, 0)
            first = tl.min(tl.where(some == here, at, V), 0)  # the first of the largest, like torch's argmax
            place = tl.where(here > top, first, place)
            top, total = _more(top, total, some)
            added += tl.sum(tl.where(at < V, some, 0.0), 0)
        want = tl.load(wanted + row)
        z = tl.log(total) + tl.where(top == float("-inf"), 0.0, top)
        tl.store(log_z + row, z)
        tl.store(picked + row, tl.load(x + row.to(tl.int64) * step + tl.maximum(want, 0)).to(tl.float32))
        tl.store(mean + row, added / V)
        tl.store(right + row, place == want)

    @triton.jit
    def _entropy_back(x, wanted, log_z, g_z, g_picked, g_mean, dx, step, V: tl.constexpr, BLOCK: tl.constexpr):
        row, at = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        want, p = tl.load(wanted + row), tl.exp(_scores(x, row, at, step, V) - tl.load(log_z + row))
        given = tl.load(g_z + row) * p + tl.load(g_mean + row) / V
        given += tl.where(at == want, tl.load(g_picked + row), 0.0)
        tl.store(dx + row.to(tl.int64) * V + at, tl.where(want < 0, 0.0, given), mask=at < V)

    @triton.jit
    def _distance(x, found, distance, rows, step, V: tl.constexpr, BLOCK: tl.constexpr):
        row, block = tl.program_id(0), tl.arange(0, BLOCK)
        top_x, total_x, top_y, total_y = float("-inf"), 0.0, float("-inf"), 0.0
        for start in range(0, V, BLOCK):
            top_x, total_x = _more(top_x, total_x, _scores(x, row, start + block, step, V))
            top_y, total_y = _more(top_y, total_y, _scores(x, row + rows, start + block, step, V))
        z_x, z_y, a, b = tl.log(total_x) + top_x, tl.log(total_y) + top_y, 0.0, 0.0
        for start in range(0, V, BLOCK):
            at = start + block
            one, other = _scores(x, row, at, step, V), _scores(x, row + rows, at, step, V)
            apart = tl.where(at < V, one - other, 0.0)
            a += tl.sum(tl.exp(one - z_x) * apart, 0)
            b += tl.sum(tl.exp(other - z_y) * apart, 0)
        tl.store(found + row, z_x)
        tl.store(found + rows + row, z_y)
        tl.store(found + 2 * rows + row, a)
        tl.store(found + 3 * rows + row, b)
        tl.store(distance + row, (a - b) / 2)

    @triton.jit
    def _distance_back(x, found, g, dx, rows, step, V: tl.constexpr, BLOCK: tl.constexpr):
        row, at = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        z_x, z_y = tl.load(found + row), tl.load(found + rows + row)
        a, b, half = tl.load(found + 2 * rows + row), tl.load(found + 3 * rows + row), tl.load(g + row) / 2
        one, other = _scores(x, row, at, step, V), _scores(x, row + rows, at, step, V)
        p, q, apart = tl.exp(one - z_x), tl.exp(other - z_y), one - other
        d_one = tl.where(half == 0.0, 0.0, half * (p * (apart - a) + p - q))
        d_other = tl.where(half == 0.0, 0.0, half * (q * (b - apart) + q - p))
        tl.store(dx + row.to(tl.int64) * V + at, d_one, mask=at < V)
        tl.store(dx + (row + rows).to(tl.int64) * V + at, d_other, mask=at < V)


def fits(logits: Tensor) -> bool:
    """Whether the kernels can run on these rows."""
    return logits.dim() == 2 and logits.shape[-1] >= NARROW and len(logits) > 0 and buildable(logits.device)


@torch.library.custom_op("qkv::entropy", mutates_args=())
def entropy(logits: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return log z, the logit of the target, the mean logit, and whether the target's is the largest.

    A row whose target is below 0 has no gradient. Shape: [T, V], [T] -> [T] each, fp32 and bool.
    """
    logits, wanted, rows = _by_rows(logits), wanted.contiguous(), len(logits)  # targets may be a strided view
    log_z, picked, mean = (torch.empty(rows, device=logits.device) for _ in range(3))
    right = torch.empty(rows, dtype=torch.bool, device=logits.device)
    step, shape = logits.stride(0), {"V": logits.shape[1], "BLOCK": BLOCK}
    _entropy[(rows,)](logits, wanted, log_z, picked, mean, right, step, **shape, num_warps=8)
    return log_z, picked, mean, right


@entropy.register_fake
def _(logits: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    del wanted
    kinds = (torch.float32, torch.float32, torch.float32, torch.bool)
    log_z, picked, mean, right = (torch.empty(len(logits), dtype=kind, device=logits.device) for kind in kinds)
    return log_z, picked, mean, right


@torch.library.custom_op("qkv::entropy_backward", mutates_args=())
def _entropy_gradient(
    logits: Tensor, wanted: Tensor, log_z: Tensor, g_z: Tensor, g_picked: Tensor, g_mean: Tensor
) -> Tensor:
    logits, wanted, (rows, width) = _by_rows(logits), wanted.contiguous(), logits.shape
    gradients, dx = [g.contiguous() for g in (g_z, g_picked, g_mean)], _like(logits)
    _entropy_back[(rows, -(-width // BLOCK))](
        logits, wanted, log_z, *gradients, dx, logits.stride(0), V=width, BLOCK=BLOCK, num_warps=8
    )
    return dx


@torch.library.custom_op("qkv::distance", mutates_args=())
def distance(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return the distance of each row of the first half from its row of the second, and what the gradient needs.

    Shape: [2T, V] -> [T], [4, T].
    """
    logits, rows = _by_rows(logits), len(logits) // 2
    found, apart = torch.empty(4, rows, device=logits.device), torch.empty(rows, device=logits.device)
    step, shape = logits.stride(0), {"V": logits.shape[1], "BLOCK": BLOCK}
    _distance[(rows,)](logits, found, apart, rows, step, **shape, num_warps=8)
    return apart, found


@distance.register_fake
def _(logits: Tensor) -> tuple[Tensor, Tensor]:
    rows = len(logits) // 2
    return torch.empty(rows, device=logits.device), torch.empty(4, rows, device=logits.device)


@torch.library.custom_op("qkv::distance_backward", mutates_args=())
def _distance_gradient(logits: Tensor, found: Tensor, g: Tensor) -> Tensor:
    logits, rows, width = _by_rows(logits), len(logits) // 2, logits.shape[1]
    dx = _like(logits)
    _distance_back[(rows, -(-width // BLOCK))](
        logits, found, g.contiguous(), dx, rows, logits.stride(0), V=width, BLOCK=BLOCK, num_warps=8
    )
    return dx


def _by_rows(logits: Tensor) -> Tensor:
    """Return logits whose rows are contiguous each; the rows of a padded product are further apart than V."""
    return logits if logits.stride(1) == 1 else logits.contiguous()


def _like(logits: Tensor, *_: Any) -> Tensor:
    return torch.empty(logits.shape, dtype=logits.dtype, device=logits.device)


_entropy_gradient.register_fake(_like)
_distance_gradient.register_fake(_like)


def _keep_entropy(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*inputs, output[0])


def _back_entropy(ctx: Any, g_z: Tensor, g_picked: Tensor, g_mean: Tensor, _: Any) -> tuple[Tensor, None]:
    return _entropy_gradient(*ctx.saved_tensors, g_z, g_picked, g_mean), None


def _keep_distance(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*inputs, output[1])


def _back_distance(ctx: Any, g: Tensor, _: Any) -> Tensor:
    return _distance_gradient(*ctx.saved_tensors, g)


entropy.register_autograd(_back_entropy, setup_context=_keep_entropy)
distance.register_autograd(_back_distance, setup_context=_keep_distance)
