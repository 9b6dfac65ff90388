"""Attention kernels: one question (`Call`), four ways to answer it, the same numbers.

    eager    softmax(q kᵀ · scale + bias) v, written out; answers everything, and is the oracle for the others
    sdpa     torch's scaled_dot_product_attention on rectangles; the default off CUDA and in fp32
    varlen   fused attention over the ragged row itself (flash, or short_attention.py); CUDA, bf16 or fp16, no bias
    flex     FlexAttention over the ragged row; CUDA, for additive biases

What may attend is layout + causal + window + bias. There is no padding mask: rectangles exist only inside a kernel.
Queries stand at the end of their keys (as in a cached step): query i of L over S keys has position S - L + i.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.common.errors import UsageError, unknown
from qkv.common.ragged import Ragged
from qkv.nn import short_attention
from qkv.nn.dropout import drop
from qkv.nn.rectangles import Rectangle, gather, planned, rectangles

FLEX_REACH = 8192  # the longest sequence the flex kernel takes
VARLEN_READS_SLACK = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 12)  # can be told how full key slots are


@dataclass(frozen=True, eq=False)
class Bias:
    """An additive bias that depends on the distance from query to key, and on the head.

    Column r of the table belongs to distance r - (R - 1) / 2; distances beyond the ends take the end columns.

    Attributes:
        table: one bias per head and distance, or per query row too. Shape: [N, R] or [T, N, R].
        values: added to the value at each distance (Shaw et al. 2018, eq. 3), or None. Shape: [R, H].
    """

    table: Tensor
    values: Tensor | None = None

    @property
    def reach(self) -> int:
        """The largest distance the table tells apart."""
        return (self.table.shape[-1] - 1) // 2


@dataclass(frozen=True, eq=False)
class Call:
    """Everything attention needs to know. N query heads share K key/value heads in equal groups.

    Attributes:
        q: Shape: [T, N, H].
        k: Shape: [S, K, H].
        v: Shape: [S, K, H].
        queries: the layout of `q`.
        keys: the layout of `k` and `v`.
        scale: what q·k is multiplied by.
        causal: a query sees no key after its own position.
        window: a query sees no key further than this, or None.
        bias: added to the scores, or None.
        dropout: share of the attention weights dropped; flex cannot, and drops none.
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
    """Attend by the formula (Vaswani et al. 2017, eq. 1). Shape: [T, N, H]."""

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
    """Attend with torch's scaled_dot_product_attention. Shape: [T, N, H]."""
    _refuse("sdpa", call, values=True)
    if call.dropout and call.q.device.type == "cpu":
        return eager(call)  # with dropout torch has no fused kernel here, and draws a number for each weight

    def attend(part: _Part) -> Tensor:
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
    """Attend with the fused variable-length kernel, on the row as it lies. Shape: [T, N, H]."""
    _refuse("varlen", call, bias=True, not_fused=True, slack=not VARLEN_READS_SLACK)
    queries, keys, heads = call.queries, call.keys, call.q.shape[1]
    rows = (call.q, _repeat_heads(call.k, heads), _repeat_heads(call.v, heads))
    borders, longest = (queries.offsets, keys.offsets), (queries.max_length, keys.max_length)
    if call.window is None and short_attention.fits(call.q, *longest):
        # Drawn on the device, so that each replay of a recorded step drops others.
        seed = torch.randint(2**31 - 1, (1,), device=call.q.device) if call.dropout else None
        layout = (*borders, queries.lengths, keys.lengths)
        return short_attention.attend(*rows, *layout, seed, *longest, call.scale, call.causal, call.dropout)
    back = -1 if call.window is None else call.window
    ahead = 0 if call.causal else back
    if call.dropout:  # the kernel behind varlen_attn, which asks for no dropout
        triangle = call.causal and call.window is None
        return torch.ops.aten._flash_attention_forward(
            *rows, *borders, *longest, call.dropout, triangle, False,
            scale=call.scale, window_size_left=back, window_size_right=ahead,
        )[0]  # fmt: skip
    from torch.nn.attention.varlen import varlen_attn  # brings the compiler along: only where it is needed

    used: dict[str, Any] = {} if keys.packed else {"seqused_k": keys.lengths}
    return varlen_attn(  # type: ignore[return-value]
        *rows, *borders, *longest, scale=call.scale, window_size=(back, ahead), **used
    )


def flex(call: Call) -> Tensor:
    """Attend with FlexAttention: the bias is read by distance inside the fused kernel. Shape: [T, N, H]."""
    _refuse("flex", call, values=True, per_query=True, not_fused=True, other_keys=True, window=True)
    from torch.nn.attention.flex_attention import create_block_mask

    layout, causal = call.queries, call.causal
    sequence = layout.sequence_of
    # What torch 2.11 compiles forwards and backwards: a table in the precision of q (in fp32 it does not fit beside
    # the tiles), no captured number but a global one, no captured row of numbers in the score. So queries and keys
    # share a layout (the distance is the difference of their rows) and the table reaches as far as any.
    table = None if call.bias is None else _widened(call.bias).to(call.q.dtype)

    def visible(_b: Tensor, _h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        seen = sequence[i] == sequence[j]
        return seen & (j <= i) if causal else seen

    def biased(score: Tensor, _b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return score if table is None else score + table[h, (j - i).clamp(-FLEX_REACH, FLEX_REACH) + FLEX_REACH]

    rows = layout.num_rows
    blocks = planned(
        layout,
        layout,
        ("blocks", causal),
        lambda: create_block_mask(visible, None, None, rows, rows, device=call.q.device),
    )
    q, k, v = (x.transpose(0, 1).unsqueeze(0) for x in (call.q, call.k, call.v))
    grouped = call.q.shape[1] != call.k.shape[1]
    out = _compiled_flex()(q, k, v, score_mod=biased, block_mask=blocks, scale=call.scale, enable_gqa=grouped)
    return out.squeeze(0).transpose(0, 1)


def slots(call: Call) -> Tensor:
    """Attend from one token each over slots of a cache; only the device need know how far they are filled.

    Shape: [T, N, H].
    """
    heads, number = call.q.shape[1], call.keys.num_sequences
    k, v = (_repeat_heads(x.unflatten(0, (number, -1)).transpose(1, 2), heads) for x in (call.k, call.v))
    mask = call.keys.held if call.keys.mask is None else call.keys.mask
    q = call.q.unsqueeze(2)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None], scale=call.scale).squeeze(2)


def _one_each(call: Call) -> bool:
    return call.queries.pitch == 1 and call.bias is None and call.window is None and not call.dropout


KERNELS: dict[str, Kernel] = {"eager": eager, "sdpa": sdpa, "varlen": varlen, "flex": flex}


def automatic(call: Call) -> Tensor:
    """Attend with the fastest kernel that can answer this call."""
    name = choice(call.q.device.type, call.q.dtype, call.bias)
    keys = call.keys
    if keys.pitch is not None and not keys.packed and keys.max_length == keys.pitch and _one_each(call):
        return slots(call)
    reachable = keys is call.queries and call.window is None and keys.max_length <= FLEX_REACH
    if (name == "varlen" and not keys.packed and not VARLEN_READS_SLACK) or (name == "flex" and not reachable):
        name = "sdpa"
    return KERNELS[name](call)


def choice(device: str, dtype: torch.dtype, bias: Bias | None) -> str:
    """Name the kernel `automatic` takes."""
    if bias is not None and bias.values is not None:
        return "eager"
    if fusable(device, dtype):
        return "varlen" if bias is None else "flex"
    return "sdpa"


def fusable(device: str, dtype: torch.dtype) -> bool:
    """Whether the fused kernels run here."""
    return device == "cuda" and dtype in (torch.bfloat16, torch.float16)


def recordable(model: nn.Module, device: torch.device, dtype: torch.dtype) -> bool:
    """Whether a step of a model can be recorded as a CUDA graph here: its shapes are fixed and it waits for nothing.

    That is attention in the fused kernels, no position that asks the host, and no recurrence.
    """
    modules = list(model.modules())
    chosen = [m.kernel is automatic for m in modules if hasattr(m, "kernel")]
    fixed = all(getattr(m, "fixed_shapes", True) for m in modules)
    return fusable(device.type, dtype) and bool(chosen) and all(chosen) and fixed


def use(model: nn.Module, name: str) -> None:
    """Make every attention of `model` use one kernel ('auto' gives the choice back)."""
    if name != "auto" and name not in KERNELS:
        raise unknown("attention kernel", name, ["auto", *KERNELS])
    for module in model.modules():
        if hasattr(module, "kernel"):
            setattr(module, "kernel", automatic if name == "auto" else KERNELS[name])  # noqa: B010


def weights(call: Call) -> list[Tensor]:
    """Return the attention weights of each sequence, whatever kernel ran. Shape of each: [N, L, S]."""
    heads = call.q.shape[1]
    found = {b: call.q.new_zeros(heads, 0, size) for b, size in enumerate(call.keys.host_lengths)}
    for rectangle in rectangles(call.queries, call.keys):
        w_bNLS = _Part(call, rectangle).weights()
        for row, b in enumerate(rectangle.sequences):
            found[b] = w_bNLS[row, :, : rectangle.q_lengths[row], : rectangle.k_lengths[row]]
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
        """Every query sequence is its key sequence, and no shorter key hides behind the causal triangle."""
        square = self.rectangle.shift is None and self.q.shape[2] == self.k.shape[2]
        return self.call.causal and self.call.window is None and square

    def distance(self) -> Tensor:
        """Key position minus query position. Shape: [b or 1, L, S]."""
        rectangle = self.rectangle
        i = torch.arange(self.q.shape[2], device=self.q.device).view(1, -1, 1)
        j = torch.arange(self.k.shape[2], device=self.q.device).view(1, 1, -1)
        return j - i if rectangle.shift is None else j - i - rectangle.shift.view(-1, 1, 1)

    def bias_column(self, bias: Bias) -> Tensor:
        """Which column of the bias each query and key take. Shape: [b or 1, L, S]."""
        return self.distance().clamp(-bias.reach, bias.reach) + bias.reach

    def bias(self) -> Tensor | None:
        """The bias of each head, query and key. Shape: [b or 1, N, L, S]."""
        bias = self.call.bias
        if bias is None:
            return None
        column = self.bias_column(bias)
        if bias.table.dim() == 2:
            return bias.table[:, column].transpose(0, 1)
        table = self.rectangle.queries(bias.table).transpose(1, 2)
        return table.gather(-1, column.unsqueeze(1).expand(*table.shape[:-1], column.shape[-1]))

    def visible(self) -> Tensor | None:
        """What may attend, or None for everything. Shape: [b or 1, 1, L, S], bool."""
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
            ):  # a spare query may be out of reach of every key: let it see all, or it gives NaN
                allowed = allowed | ~allowed.any(-1, keepdim=True)
        return None if allowed is None else allowed.unsqueeze(1)

    def mask(self) -> Tensor | None:
        """Bias and visibility as the one mask torch's kernel takes. Shape: broadcasts to [b, N, L, S]."""
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
    """Attend rectangle by rectangle, and put the rows back where they were."""
    plan = rectangles(call.queries, call.keys)
    rows = [rectangle.rows(attend(_Part(call, rectangle)).transpose(1, 2)) for rectangle in plan]
    if not rows:
        return torch.empty_like(call.q)
    if len(rows) == 1:  # one rectangle keeps the order of the row
        return rows[0]
    return gather(torch.cat(rows), plan[0].inverse, plan[0].order)


def _repeat_heads(x: Tensor, heads: int) -> Tensor:
    """Give each query head its key or value head; heads lie in dimension 1."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], 1)


def _refuse(
    name: str,
    call: Call,
    *,
    bias: bool = False,
    values: bool = False,
    per_query: bool = False,
    not_fused: bool = False,
    slack: bool = False,
    other_keys: bool = False,
    window: bool = False,
) -> None:
    """Stop a call that a kernel asked for by name cannot answer; the flags say what it lacks."""
    given = call.bias
    reasons = {
        "an additive bias": bias and given is not None,
        "a bias on values": values and given is not None and given.values is not None,
        "a bias per query": per_query and given is not None and given.table.dim() == 3,
        "a bias with a window": window and call.window is not None,
        "keys of another layout": other_keys and call.keys is not call.queries,
        "keys with slack before torch 2.12": slack and not call.keys.packed,
        f"{call.q.dtype} on {call.q.device.type}": not_fused and not fusable(call.q.device.type, call.q.dtype),
    }
    for reason, holds in reasons.items():
        if holds:
            raise UsageError(f"the {name} kernel cannot do {reason}; use kernel 'auto' or 'eager'")


def _widened(bias: Bias) -> Tensor:
    """Repeat the end columns until the table reaches `FLEX_REACH`. Shape: [N, R] -> [N, 2 · FLEX_REACH + 1]."""
    more = FLEX_REACH - bias.reach
    return F.pad(bias.table.unsqueeze(0), (more, more), mode="replicate").squeeze(0)


@cache
def _compiled_flex() -> Any:
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention, dynamic=True)
