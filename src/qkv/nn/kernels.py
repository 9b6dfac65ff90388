"""Attention kernels: four implementations of the same `Call`, with the same results.

    eager    softmax(q kᵀ · scale + bias) v, written out; supports everything, and is the reference for the others
    sdpa     torch's scaled_dot_product_attention on rectangles; the default off CUDA and in fp32
    varlen   fused attention over the packed batch (flash, or short_attention.py); CUDA, bf16 or fp16, no bias
    biased   the same with a bias by distance (biased_attention.py); CUDA, bf16 or fp16

Layout, causal, window and bias define the mask. There is no padding mask: rectangles exist only inside a kernel.
Queries are aligned with the end of their keys, as in cached steps: query i of L over S keys has position S - L + i.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.common.errors import UsageError, unknown
from qkv.common.ragged import Ragged
from qkv.nn import biased_attention, local_attention, short_attention
from qkv.nn.dropout import drop
from qkv.nn.rectangles import Rectangle, gather, rectangles

VARLEN_READS_SLACK = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 12)  # supports key slots with unused rows


@dataclass(frozen=True, eq=False)
class Bias:
    """An additive bias that depends on the distance from query to key, and on the head.

    Column r of the table is for distance r - (R - 1) / 2. Distances beyond the table use its first or last column.

    Attributes:
        table: one bias per head and distance, or per query, head and distance. Shape: [N, R] or [T, N, R].
        values: added to the value at each distance (Shaw et al. 2018, eq. 3), or None. Shape: [R, H].
    """

    table: Tensor
    values: Tensor | None = None

    @property
    def reach(self) -> int:
        """The largest distance that has its own column."""
        return (self.table.shape[-1] - 1) // 2


@dataclass(frozen=True, eq=False)
class Call:
    """The arguments of attention. N query heads share K key/value heads in equal groups.

    Attributes:
        q: Shape: [T, N, H].
        k: Shape: [S, K, H].
        v: Shape: [S, K, H].
        queries: the layout of `q`.
        keys: the layout of `k` and `v`.
        scale: the factor for q·k.
        causal: whether a query attends only to keys up to its own position.
        window: the maximum distance between a query and a key, or None.
        bias: added to the scores, or None.
        dropout: the share of attention weights to drop.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    queries: Ragged
    keys: Ragged
    scale: float
    causal: bool = False
    window: int | None = None
    bias: Bias | None = None
    dropout: float = 0.0


Kernel = Callable[[Call], Tensor]


def eager(call: Call) -> Tensor:
    """Compute attention by the formula (Vaswani et al. 2017, eq. 1). Shape: [T, N, H]."""

    def attend(part: _Part) -> Tensor:
        weights = drop(part.weights(), call.dropout)
        out = weights @ part.v
        if call.bias is not None and call.bias.values is not None:
            index = part.bias_column(call.bias).unsqueeze(1).expand_as(weights)
            bins = weights.new_zeros(*weights.shape[:-1], call.bias.table.shape[-1])
            out = out + bins.scatter_add(-1, index, weights) @ call.bias.values.to(out.dtype)
        return out

    return _over_rectangles(call, attend)


def sdpa(call: Call) -> Tensor:
    """Compute attention with torch's scaled_dot_product_attention. Shape: [T, N, H]."""
    _refuse("sdpa", call, values=True)
    if call.dropout and call.q.device.type == "cpu":
        return eager(call)  # with dropout, torch has no fused kernel on the CPU and draws one number per weight

    def attend(part: _Part) -> Tensor:
        if part.is_band:
            return part.band()
        plain_causal = part.needs_only_causal and call.bias is None
        return F.scaled_dot_product_attention(
            part.q,
            part.k,
            part.v,
            attn_mask=None if plain_causal else part.mask(),
            is_causal=plain_causal,
            dropout_p=call.dropout,
            scale=call.scale,
        )

    return _over_rectangles(call, attend)


def varlen(call: Call) -> Tensor:
    """Compute attention with the fused variable-length kernel, without rectangles. Shape: [T, N, H]."""
    _refuse("varlen", call, bias=True, not_fused=True, slack=not VARLEN_READS_SLACK)
    queries, keys, heads = call.queries, call.keys, call.q.shape[1]
    rows = (call.q, _repeat_heads(call.k, heads), _repeat_heads(call.v, heads))
    borders, longest = (queries.offsets, keys.offsets), (queries.max_length, keys.max_length)
    if call.window is None and short_attention.fits(call.q, *longest):
        layout = (*borders, queries.lengths, keys.lengths)
        return short_attention.attend(*rows, *layout, _seed(call), *longest, call.scale, call.causal, call.dropout)
    back = -1 if call.window is None else call.window
    ahead = 0 if call.causal else back
    if call.dropout:  # the kernel behind varlen_attn, which itself has no dropout
        triangle = call.causal and call.window is None
        return torch.ops.aten._flash_attention_forward(
            *rows, *borders, *longest, call.dropout, triangle, False,
            scale=call.scale, window_size_left=back, window_size_right=ahead,
        )[0]  # fmt: skip
    from torch.nn.attention.varlen import varlen_attn  # imports the compiler, so import it only when needed

    used: dict[str, Any] = {} if keys.packed else {"seqused_k": keys.lengths}
    return varlen_attn(  # type: ignore[return-value]
        *rows, *borders, *longest, scale=call.scale, window_size=(back, ahead), **used
    )


def biased(call: Call) -> Tensor:
    """Compute attention with the fused kernel that adds a bias by distance. Shape: [T, N, H]."""
    _refuse("biased", call, values=True, per_query=True, not_fused=True, not_built=True, no_bias=True)
    assert call.bias is not None
    queries, keys, heads = call.queries, call.keys, call.q.shape[1]
    rows = (call.q, _repeat_heads(call.k, heads), _repeat_heads(call.v, heads))
    layout = (queries.offsets, keys.offsets, queries.lengths, keys.lengths)
    kind = (call.scale, call.causal, -1 if call.window is None else call.window, call.dropout)
    longest = (queries.max_length, keys.max_length)
    return biased_attention.attend(*rows, call.bias.table.float(), *layout, _seed(call), *longest, *kind)[0]


def _seed(call: Call) -> Tensor | None:
    """Draw the seed of dropout on the device, so that each replay of a CUDA graph drops different weights."""
    return torch.randint(2**31 - 1, (1,), device=call.q.device) if call.dropout else None


def slots(call: Call) -> Tensor:
    """Attend from one query per sequence to the slots of a KV cache. The host need not know their lengths.

    Shape: [T, N, H].
    """
    heads, number = call.q.shape[1], call.keys.num_sequences
    k, v = (_repeat_heads(x.unflatten(0, (number, -1)).transpose(1, 2), heads) for x in (call.k, call.v))
    mask = call.keys.held if call.keys.mask is None else call.keys.mask
    if call.window is not None:
        far = torch.arange(mask.shape[1], device=mask.device) < call.keys.lengths.unsqueeze(1) - 1 - call.window
        mask = mask.masked_fill(far, False if mask.dtype == torch.bool else -math.inf)
    q = call.q.unsqueeze(2)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None], scale=call.scale).squeeze(2)


def _one_each(call: Call) -> bool:
    return call.queries.pitch == 1 and call.bias is None and not call.dropout


KERNELS: dict[str, Kernel] = {"eager": eager, "sdpa": sdpa, "varlen": varlen, "biased": biased}


def automatic(call: Call) -> Tensor:
    """Compute attention with the fastest kernel that supports this call."""
    name = choice(call.q.device.type, call.q.dtype, call.bias)
    keys = call.keys
    if keys.pitch is not None and not keys.packed and keys.max_length == keys.pitch and _one_each(call):
        return slots(call)
    unread = name == "varlen" and not keys.packed and not VARLEN_READS_SLACK
    if unread or (name == "biased" and not biased_attention.fits(call.q.device, call.q.shape[-1])):
        name = "sdpa"
    return KERNELS[name](call)


def choice(device: str, dtype: torch.dtype, bias: Bias | None) -> str:
    """Return the name of the kernel that `automatic` uses."""
    if bias is not None and bias.values is not None:
        return "eager"
    if not fusable(device, dtype) or (bias is not None and bias.table.dim() == 3):
        return "sdpa"
    return "varlen" if bias is None else "biased"


def fusable(device: str, dtype: torch.dtype) -> bool:
    """Return whether the fused kernels support this device and dtype."""
    return device == "cuda" and dtype in (torch.bfloat16, torch.float16)


def recordable(model: nn.Module, device: torch.device, dtype: torch.dtype, *, over_slots: bool = False) -> bool:
    """Return whether a step can be captured as a CUDA graph: its shapes are static and it never synchronises.

    That requires fused attention kernels, positions that need nothing from the host, and no recurrence. Where all
    attention is over the slots of a cache and without a bias, any dtype will do: `slots` computes it.
    """
    modules = list(model.modules()) if device.type == "cuda" else []
    chosen: list[Any] = [m for m in modules if hasattr(m, "kernel")]
    fixed = all(getattr(m, "fixed_shapes", True) for m in modules)
    if not chosen:
        return bool(modules) and getattr(model, "fixed_shapes", False)  # a model without attention says so itself
    if not (fixed and all(m.kernel is automatic for m in chosen)):
        return False
    plain = not any(getattr(m, "adds_bias", False) for m in modules)
    if not fusable(device.type, dtype):
        return over_slots and plain
    return plain or biased_attention.fits(device, max(m.head_dim for m in chosen))


def use(model: nn.Module, name: str) -> None:
    """Make all attention in `model` use one kernel, or the automatic choice with 'auto'."""
    if name != "auto" and name not in KERNELS:
        raise unknown("attention kernel", name, ["auto", *KERNELS])
    for module in model.modules():
        if hasattr(module, "kernel"):
            setattr(module, "kernel", automatic if name == "auto" else KERNELS[name])  # noqa: B010


def weights(call: Call) -> list[Tensor]:
    """Compute the attention weights of each sequence, independent of the kernel. Shape of each: [N, L, S]."""
    heads = call.q.shape[1]
    found = {b: call.q.new_zeros(heads, 0, size) for b, size in enumerate(call.keys.host_lengths)}
    for rectangle in rectangles(call.queries, call.keys):
        w_bNLS = _Part(call, rectangle).weights()
        for row, b in enumerate(rectangle.sequences):
            found[b] = w_bNLS[row, :, : rectangle.q_lengths[row], : rectangle.k_lengths[row]]
    return list(found.values())


def biases(call: Call) -> list[Tensor]:
    """Compute what the bias adds to the scores of each sequence. Shape of each: [N, L, S]."""
    found = {b: call.q.new_zeros(call.q.shape[1], 0, size) for b, size in enumerate(call.keys.host_lengths)}
    for rectangle in rectangles(call.queries, call.keys):
        bias_bNLS = _Part(call, rectangle).bias()
        for row, b in enumerate(rectangle.sequences):
            if bias_bNLS is not None:
                one = bias_bNLS[row if len(bias_bNLS) > 1 else 0]
                found[b] = one[:, : rectangle.q_lengths[row], : rectangle.k_lengths[row]]
    return list(found.values())


class _Part:
    """One rectangle of a call: b sequences of at most L queries and S keys."""

    def __init__(self, call: Call, rectangle: Rectangle) -> None:
        self.call, self.rectangle = call, rectangle
        heads = call.q.shape[1]
        self.q = rectangle.queries(call.q).transpose(1, 2)
        self.k = _repeat_heads(rectangle.keys(call.k).transpose(1, 2), heads)
        self.v = _repeat_heads(rectangle.keys(call.v).transpose(1, 2), heads)

    @property
    def needs_only_causal(self) -> bool:
        """Whether a causal mask is enough: with equal lengths and no window, it hides padding keys too."""
        square = self.rectangle.shift is None and self.q.shape[2] == self.k.shape[2]
        return self.call.causal and self.call.window is None and square

    @property
    def is_band(self) -> bool:
        """Whether most pairs are too far apart for the window, so that it pays to compute the others only."""
        call, length = self.call, self.q.shape[2]
        square = self.rectangle.shift is None and length == self.k.shape[2]
        return call.window is not None and call.bias is None and square and local_attention.pays(length, call.window)

    def band(self) -> Tensor:
        """Compute attention within the window, without the pairs outside. Shape: [b, N, L, H]."""
        call, sizes = self.call, self.rectangle.k_sizes if self.rectangle.ragged_keys else None
        kind: dict[str, Any] = {"causal": call.causal, "scale": call.scale, "dropout": call.dropout}
        return local_attention.attend(self.q, self.k, self.v, sizes, window=call.window or 0, **kind)

    def distance(self) -> Tensor:
        """Key position minus query position. Shape: [b or 1, L, S]."""
        rectangle = self.rectangle
        i = torch.arange(self.q.shape[2], device=self.q.device).view(1, -1, 1)
        j = torch.arange(self.k.shape[2], device=self.q.device).view(1, 1, -1)
        return j - i if rectangle.shift is None else j - i - rectangle.shift.view(-1, 1, 1)

    def bias_column(self, bias: Bias) -> Tensor:
        """The bias column for each query and key. Shape: [b or 1, L, S]."""
        return self.distance().clamp(-bias.reach, bias.reach) + bias.reach

    def bias(self) -> Tensor | None:
        """The bias for each head, query and key. Shape: [b or 1, N, L, S]."""
        bias = self.call.bias
        if bias is None:
            return None
        column = self.bias_column(bias)
        if bias.table.dim() == 2:
            return bias.table[:, column].transpose(0, 1)
        table = self.rectangle.queries(bias.table).transpose(1, 2)
        return table.gather(-1, column.unsqueeze(1).expand(*table.shape[:-1], column.shape[-1]))

    def visible(self) -> Tensor | None:
        """Which keys each query may attend to, or None for all. Shape: [b or 1, 1, L, S], bool."""
        rectangle, call, allowed = self.rectangle, self.call, None
        if rectangle.ragged_keys:
            inside = torch.arange(self.k.shape[2], device=self.q.device) < rectangle.k_sizes.unsqueeze(-1)
            allowed = inside.unsqueeze(1)
        if (call.causal and self.q.shape[2] > 1) or call.window is not None:
            distance = self.distance()
            near = distance <= (0 if call.causal else call.window or 0)
            if call.window is not None:
                near = near & (distance >= -call.window)
            allowed = near if allowed is None else allowed & near
            if (
                call.window is not None
            ):  # a padding query may have no key in its window: let it see all, or it gives NaN
                allowed = allowed | ~allowed.any(-1, keepdim=True)
        return None if allowed is None else allowed.unsqueeze(1)

    def mask(self) -> Tensor | None:
        """Bias and visibility as one mask for torch's kernel. Shape: broadcasts to [b, N, L, S]."""
        visible, bias = self.visible(), self.bias()
        if bias is None:
            return visible
        bias = bias.to(self.q.dtype)
        return bias if visible is None else bias.masked_fill(~visible, -math.inf)

    def weights(self) -> Tensor:
        """softmax(q kᵀ · scale + bias), in at least fp32. Shape: [b, N, L, S]."""
        scores = (self.q @ self.k.transpose(-1, -2)) * self.call.scale
        bias, visible = self.bias(), self.visible()
        if bias is not None:
            scores = scores + bias
        if visible is not None:
            scores = scores.masked_fill(~visible, -math.inf)
        return scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32)).to(self.v.dtype)


def _over_rectangles(call: Call, attend: Callable[[_Part], Tensor]) -> Tensor:
    """Compute attention for each rectangle and restore the order of the rows."""
    plan = rectangles(call.queries, call.keys)
    rows = [rectangle.rows(attend(_Part(call, rectangle)).transpose(1, 2)) for rectangle in plan]
    if not rows:
        return torch.empty_like(call.q)
    if len(rows) == 1:  # one rectangle keeps the order
        return rows[0]
    return gather(torch.cat(rows), plan[0].inverse, plan[0].order)


def _repeat_heads(x: Tensor, heads: int) -> Tensor:
    """Repeat key or value heads to match the query heads; heads are in dimension 1."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], 1)


def _refuse(
    name: str,
    call: Call,
    *,
    bias: bool = False,
    no_bias: bool = False,
    values: bool = False,
    per_query: bool = False,
    not_fused: bool = False,
    not_built: bool = False,
    slack: bool = False,
) -> None:
    """Raise an error if a kernel that was chosen by name does not support a call; the flags say what it lacks."""
    given, device, width = call.bias, call.q.device, call.q.shape[-1]
    reasons = {
        "an additive bias": bias and given is not None,
        "attention without a bias": no_bias and given is None,
        "a bias on values": values and given is not None and given.values is not None,
        "a bias per query": per_query and given is not None and given.table.dim() == 3,
        "keys with unused rows before torch 2.12": slack and not call.keys.packed,
        f"{call.q.dtype} on {device.type}": not_fused and not fusable(device.type, call.q.dtype),
        f"heads of {width} here (it needs Triton and at most {biased_attention.WIDEST})": not_built
        and not biased_attention.fits(device, width),
    }
    for reason, holds in reasons.items():
        if holds:
            raise UsageError(f"the {name} kernel does not support {reason}; use kernel 'auto' or 'eager'")
