"""Attention modules against torch.nn.MultiheadAttention, one sequence at a time."""

import pytest
import torch
from torch import nn

from qkv.common.errors import UsageError
from qkv.common.outputs import Hidden
from qkv.common.ragged import Ragged
from qkv.nn import kernels
from qkv.nn.attention import CrossAttention, PassContext, SelfAttention
from qkv.nn.cache import KeyValueCache
from qkv.nn.positions import AlibiPosition, NoPosition, Placement, RotaryPosition

DIM, LENGTHS = 8, [5, 1, 7]


def torch_s(attention, q, k, v, asker, memory, hidden=None):
    """nn.MultiheadAttention with these projections ((weight, bias) pairs); shared key heads are written out."""
    heads, width = attention.num_heads, attention.head_dim
    theirs = nn.MultiheadAttention(DIM, heads, batch_first=True)
    group = heads // attention.num_kv_heads

    def per_query_head(x):
        return x.unflatten(0, (-1, width)).repeat_interleave(group, 0).flatten(0, 1)

    rows = [q, *((per_query_head(weight), per_query_head(bias)) for weight, bias in (k, v))]
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([weight for weight, _ in rows]))
        theirs.in_proj_bias.copy_(torch.cat([bias for _, bias in rows]))
        theirs.out_proj.load_state_dict(attention.out.state_dict())
    return theirs(asker.unsqueeze(0), memory.unsqueeze(0), memory.unsqueeze(0), attn_mask=hidden)[0][0]


def randomised(module):
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    return module.eval()


def hidden_from(length, causal, window):
    """What torch calls attn_mask: True may not be seen."""
    rows = [
        [(causal and j > i) or (window is not None and abs(i - j) > window) for j in range(length)]
        for i in range(length)
    ]
    return torch.tensor(rows)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [None, 0, 2])
@pytest.mark.parametrize("kv_heads", [None, 2, 1])
def test_self_attention_is_torch_s_over_each_sequence(causal, window, kv_heads):
    attention = randomised(SelfAttention(DIM, 4, num_kv_heads=kv_heads, causal=causal, window=window))
    layout = Ragged.of(LENGTHS)
    x = torch.randn(layout.num_rows, DIM)
    found = attention(x, PassContext.of(layout), Placement(), 0)
    sizes = [4 * 2] + [(kv_heads or 4) * 2] * 2
    rows = list(zip(attention.qkv.weight.split(sizes), attention.qkv.bias.split(sizes), strict=True))
    for part, y in zip(layout.split(x), layout.split(found), strict=True):
        wanted = torch_s(attention, *rows, part, part, hidden_from(len(part), causal, window))
        torch.testing.assert_close(y, wanted, rtol=1e-4, atol=1e-5)


def test_cross_attention_is_torch_s_over_each_source():
    attention = randomised(CrossAttention(DIM, 4))
    queries, keys = Ragged.of([9, 1, 2]), Ragged.of([8, 9, 1])
    x, memory = torch.randn(queries.num_rows, DIM), torch.randn(keys.num_rows, DIM)
    found = attention(x, PassContext.of(queries, memory=Hidden(memory, keys)), 0)
    k, v = zip(attention.kv.weight.chunk(2), attention.kv.bias.chunk(2), strict=True)
    q = (attention.q.weight, attention.q.bias)
    for part, source, y in zip(queries.split(x), keys.split(memory), queries.split(found), strict=True):
        torch.testing.assert_close(y, torch_s(attention, q, k, v, part, source), rtol=1e-4, atol=1e-5)


def test_cross_attention_without_a_memory_is_an_error():
    layout = Ragged.of([2])
    with pytest.raises(UsageError, match="memory"):
        CrossAttention(DIM, 2)(torch.randn(2, DIM), PassContext.of(layout), 0)


def test_several_askers_share_one_source():
    attention = randomised(CrossAttention(DIM, 2))
    keys, targets, askers = Ragged.of([3, 4]), Ragged.of([1] * 6), Ragged.of([3, 3])
    memory, x = torch.randn(7, DIM), torch.randn(6, DIM)
    found = attention(x, PassContext.of(targets, memory=Hidden(memory, keys), askers=askers), 0)
    copied = torch.cat([memory[:3]] * 3 + [memory[3:]] * 3)
    wanted = attention(x, PassContext.of(targets, memory=Hidden(copied, Ragged.of([3] * 3 + [4] * 3))), 0)
    torch.testing.assert_close(found, wanted)


def test_cached_memory_is_projected_once():
    attention = randomised(CrossAttention(DIM, 2))
    layout, runs = Ragged.of([1, 1]), []
    attention.kv.register_forward_hook(lambda *_: runs.append(1))
    cache, memory = KeyValueCache(2), Hidden(torch.randn(5, DIM), Ragged.of([2, 3]))
    x = torch.randn(2, DIM)
    once = [attention(x, PassContext.of(layout, cache=cache, memory=memory), 0) for _ in range(2)]
    assert len(runs) == 1
    torch.testing.assert_close(once[1], attention(x, PassContext.of(layout, memory=memory), 0))


@pytest.mark.parametrize("position", [NoPosition(), RotaryPosition(4), AlibiPosition(2)])
@pytest.mark.parametrize("window", [None, 2])
def test_steps_with_a_cache_are_the_whole_pass(position, window):
    attention = randomised(SelfAttention(DIM, 2, causal=True, window=window))
    layout = Ragged.of([6, 4])
    x = torch.randn(10, DIM)
    whole = PassContext.of(layout)
    wanted = layout.split(attention(x, whole, position.place(whole.place, 1)[0], 0))
    cache, found = KeyValueCache(2, capacity=2), [[], []]
    for sizes in ([3, 1], [1, 2], [2, 1]):
        starts = [sum(len(part) for part in parts) for parts in found]
        new = Ragged.of(sizes)
        rows = [part[s : s + n] for part, s, n in zip(layout.split(x), starts, sizes, strict=True)]
        context = PassContext.of(new, cache=cache)
        y = attention(torch.cat(rows), context, position.place(context.place, 1)[0], 0)
        for parts, part in zip(found, new.split(y), strict=True):
            parts.append(part)
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(torch.cat(ours), theirs, rtol=1e-4, atol=1e-5)


def test_the_tap_sees_the_final_call():
    attention = randomised(SelfAttention(DIM, 2, causal=True))
    seen = []
    attention.tap.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0]))
    layout = Ragged.of([3, 4])
    x, context = torch.randn(7, DIM), PassContext.of(layout)
    plain = attention(x, context, NoPosition().place(context.place, 1)[0], 0)
    biased = attention(x, context, AlibiPosition(2).place(context.place, 1)[0], 0)
    turned = attention(x, context, RotaryPosition(4).place(context.place, 1)[0], 0)
    assert len(seen) == 3
    assert seen[0].bias is None
    assert seen[1].bias is not None
    assert not torch.equal(seen[2].q, seen[0].q)
    for call, out in zip(seen, (plain, biased, turned), strict=True):
        heads = [
            torch.einsum("nls,snh->lnh", w, v) for w, v in zip(kernels.weights(call), layout.split(call.v), strict=True)
        ]
        torch.testing.assert_close(attention.out(torch.cat(heads).flatten(1)), out)


def test_dropout_acts_in_training_only():
    attention = randomised(SelfAttention(DIM, 2, dropout=0.5))
    layout = Ragged.of([6])
    x = torch.randn(6, DIM)

    def run():
        return attention(x, PassContext.of(layout), Placement(), 0)

    torch.testing.assert_close(run(), run())
    attention.train()
    assert not torch.allclose(run(), run())


def test_scale_is_one_over_the_root_of_head_dim_unless_given():
    assert SelfAttention(32, 2).scale == 0.25
    assert SelfAttention(32, 2, scale=1.0).scale == 1.0
    wide = SelfAttention(8, 2, head_dim=16)
    assert wide.scale == 0.25
    assert (wide.qkv.out_features, wide.out.in_features) == (96, 32)


@pytest.mark.parametrize("kind", [SelfAttention, CrossAttention])
def test_dim_that_cannot_be_cut_is_named_with_the_heads(kind):
    with pytest.raises(UsageError, match=r"10.*3"):
        kind(10, 3)


def test_kv_heads_that_do_not_divide_are_named():
    with pytest.raises(UsageError, match=r"4.*3"):
        SelfAttention(8, 4, num_kv_heads=3)


def test_no_heads_at_all_is_an_error_in_words():
    with pytest.raises(UsageError, match="num_heads"):
        SelfAttention(8, 0)
