import math

import pytest
import torch
from torch import nn
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb
from transformers.models.t5.modeling_t5 import T5Attention

from qkv.common.ragged import Ragged
from qkv.nn import kernels
from qkv.nn.kernels import Call
from qkv.nn.positions import (
    AlibiPosition,
    BucketedPosition,
    DynamicRotaryPosition,
    LearnedPosition,
    NoPosition,
    Place,
    RotaryPosition,
    ShawPosition,
    SinusoidalPosition,
)

H = 8


def place_of(lengths):
    layout = Ragged.of(lengths)
    return Place(layout, layout, layout.position_of)


def call_of(place, *, heads=2, width=H, **options):
    shape = (place.queries.num_rows, heads, width)
    q, k, v = (torch.randn(shape) for _ in range(3))
    return Call(q=q, k=k, v=v, queries=place.queries, keys=place.keys, scale=width**-0.5, **options)


def test_learned_reads_its_table():
    position = LearnedPosition(5, 3)
    nn.init.normal_(position.table.weight)
    found = position(torch.tensor([4, 0, 4]), 5)
    assert torch.equal(found, position.table.weight[[4, 0, 4]])
    assert position.limit == 5


@pytest.mark.parametrize("dim", [6, 8, 7])
def test_sinusoidal_is_the_paper_s_formula_with_the_halves_apart(dim):
    positions = torch.tensor([0, 3, 1, 49])
    found = SinusoidalPosition(dim)(positions, 50)
    half = math.ceil(dim / 2)
    for row, p in zip(found, positions.tolist(), strict=True):
        for channel in range(dim):
            i = channel if channel < half else channel - half
            angle = p / 10000 ** (2 * i / dim)
            wanted = math.sin(angle) if channel < half else math.cos(angle)
            assert row[channel].item() == pytest.approx(wanted, abs=1e-6)


def test_nothing_happens_without_a_position():
    place = place_of([2, 3])
    placements = NoPosition().place(place, 3)
    call = call_of(place)
    assert len(placements) == 3
    assert placements[0].turn(call.q, call.k) == (call.q, call.k)
    assert placements[0].attend(call, lambda asked: asked) is call


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("buckets", "reach"), [(32, 128), (16, 64), (8, 20)])
def test_buckets_are_t5_s(causal, buckets, reach):
    distance = torch.arange(-300, 301)
    found = BucketedPosition(2, num_buckets=buckets, max_distance=reach, causal=causal).bucket(distance)
    wanted = T5Attention._relative_position_bucket(distance, not causal, buckets, reach)
    assert torch.equal(found, wanted)


@pytest.mark.parametrize("causal", [False, True])
def test_the_bucketed_bias_reads_the_bucket_of_every_distance(causal):
    position = BucketedPosition(2, causal=causal)
    nn.init.normal_(position.table.weight)
    place = place_of([3, 300])
    first, second = position.place(place, 2)
    asked = first.attend(call_of(place), lambda call: call)
    assert second.attend(asked, lambda call: call).bias.table is asked.bias.table  # shared by all layers
    distance = torch.arange(-299, 300)
    column = distance.clamp(-asked.bias.reach, asked.bias.reach) + asked.bias.reach
    bucket = T5Attention._relative_position_bucket(distance, not causal)
    torch.testing.assert_close(asked.bias.table[:, column].t(), position.table.weight[bucket])


def test_alibi_slopes_of_eight_heads():
    assert AlibiPosition(8).slopes() == pytest.approx([1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256])


def test_alibi_slopes_of_twelve_heads():
    between = [2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5]
    assert AlibiPosition(12).slopes() == pytest.approx([2.0**-i for i in range(1, 9)] + between)


@pytest.mark.parametrize("heads", [1, 2, 3, 5, 16, 25])
def test_alibi_has_a_slope_for_each_head(heads):
    slopes = AlibiPosition(heads).slopes()
    assert len(slopes) == len(set(slopes)) == heads
    assert all(0 < slope <= 1 for slope in slopes)


def test_alibi_falls_with_the_distance_to_either_side():
    place = place_of([4, 2])
    asked = AlibiPosition(2).place(place, 1)[0].attend(call_of(place), lambda call: call)
    reach = asked.bias.reach
    assert reach >= 3
    for head, slope in enumerate([1 / 16, 1 / 256]):
        for distance in range(-3, 4):
            assert asked.bias.table[head, distance + reach].item() == pytest.approx(-slope * abs(distance))


def test_shaw_is_the_paper_s_equations_3_and_4():
    position = ShawPosition(2, H, max_distance=2)
    nn.init.normal_(position.keys)
    nn.init.normal_(position.values)
    place = place_of([5, 1, 3])
    call = call_of(place)
    for layer, placement in enumerate(position.place(place, 2)):
        found = place.queries.split(placement.attend(call, kernels.automatic))
        parts = [place.queries.split(x) for x in (call.q, call.k, call.v)]
        for z, q, k, v in zip(found, *parts, strict=True):
            for n in range(2):
                for i in range(len(q)):
                    clip = [max(-2, min(2, j - i)) + 2 for j in range(len(q))]
                    e = [(q[i, n] @ (k[j, n] + position.keys[layer, c])) / math.sqrt(H) for j, c in enumerate(clip)]
                    a = torch.stack(e).softmax(0)
                    wanted = sum(a[j] * (v[j, n] + position.values[layer, c]) for j, c in enumerate(clip))
                    torch.testing.assert_close(z[i, n], wanted, rtol=1e-4, atol=1e-5)


def test_rotary_products_depend_on_the_distance_alone():
    place = place_of([12])
    q, k = torch.randn(1, 1, H).expand(12, -1, -1), torch.randn(1, 1, H).expand(12, -1, -1)
    q, k = RotaryPosition(H).place(place, 1)[0].turn(q, k)
    scores = q[:, 0] @ k[:, 0].t()
    for distance in range(-11, 12):
        line = scores.diagonal(distance)
        torch.testing.assert_close(line, line[:1].expand_as(line), rtol=1e-4, atol=1e-5)
    assert (scores.diagonal(1)[0] - scores.diagonal(-1)[0]).abs() > 1e-3  # and on its sign


def llama(trained=16, heads=2, **rope):
    return LlamaConfig(
        hidden_size=heads * H,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        max_position_embeddings=trained,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0, **rope},
    )


def turned_by_llama(config, q, k, positions):
    cos, sin = LlamaRotaryEmbedding(config)(q, positions.unsqueeze(0))
    q, k = apply_rotary_pos_emb(q.transpose(0, 1).unsqueeze(0), k.transpose(0, 1).unsqueeze(0), cos, sin)
    return q[0].transpose(0, 1), k[0].transpose(0, 1)


@pytest.mark.parametrize("base", [10_000.0, 500_000.0])
def test_rotary_is_llama_s(base):
    place = place_of([5, 1, 9])
    call = call_of(place)
    found = RotaryPosition(H, base=base).place(place, 1)[0].turn(call.q, call.k)
    wanted = turned_by_llama(llama(rope_theta=base), call.q, call.k, place.positions)
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("width", "scale"), [(8, 4.0), (64, 2.0), (64, 8.0)])
def test_ntk_interpolates_the_slowest_pair_and_leaves_the_fastest(width, scale):
    plain, wide = RotaryPosition(width).base, RotaryPosition(width, scale=scale).base
    assert wide == pytest.approx(10_000 * scale ** (width / (width - 2)))
    slowest = -(width - 2) / width
    assert wide**slowest == pytest.approx(plain**slowest / scale)


@pytest.mark.parametrize("length", [3, 16, 17, 40])
@pytest.mark.parametrize("factor", [1.0, 2.0, 4.0])
def test_the_dynamic_base_gives_llama_s_frequencies_at_each_length(length, factor):
    config = llama(rope_type="dynamic", factor=factor)
    theirs, _ = ROPE_INIT_FUNCTIONS["dynamic"](config, torch.device("cpu"), seq_len=length)
    base = DynamicRotaryPosition(H, trained=16, scale=factor).base_for(torch.tensor([length])).item()
    ours = torch.tensor([base ** (-2 * i / H) for i in range(H // 2)])
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-8)


def attended_by_llama(call, factor, length, row):
    """The output of one query that sees `length` keys of the only sequence."""
    config = llama(rope_type="dynamic", factor=factor)
    q, k = turned_by_llama(config, call.q[:length], call.k[:length], torch.arange(length))
    scores = torch.einsum("nh,snh->ns", q[row], k) * call.scale
    return torch.einsum("ns,snh->nh", scores.softmax(-1), call.v[:length])


def test_dynamic_rotary_gives_each_causal_query_the_base_of_what_it_sees():
    place = place_of([21])
    call = call_of(place, causal=True)
    found = DynamicRotaryPosition(H, trained=16, scale=2.0).place(place, 1)[0].attend(call, kernels.automatic)
    for row in range(21):
        wanted = attended_by_llama(call, 2.0, row + 1, row)
        torch.testing.assert_close(found[row], wanted, rtol=1e-4, atol=1e-5)


def test_dynamic_rotary_gives_a_query_that_sees_all_the_base_of_its_own_sequence():
    place = place_of([21, 5])
    call = call_of(place)
    found = DynamicRotaryPosition(H, trained=16, scale=2.0).place(place, 1)[0].attend(call, kernels.automatic)
    for row in (0, 20):
        wanted = attended_by_llama(call, 2.0, 21, row)
        torch.testing.assert_close(found[row], wanted, rtol=1e-4, atol=1e-5)
    rest = call_of(place_of([5]))
    alone = Call(**{**rest.__dict__, "q": call.q[21:], "k": call.k[21:], "v": call.v[21:]})
    torch.testing.assert_close(found[21:][2], attended_by_llama(alone, 2.0, 5, 2), rtol=1e-4, atol=1e-5)


def test_dynamic_rotary_of_a_longer_pass_begins_with_the_shorter_one():
    position = DynamicRotaryPosition(H, trained=4, scale=2.0)
    whole = place_of([11, 6, 2])
    call = call_of(whole, causal=True)
    found = whole.queries.split(position.place(whole, 1)[0].attend(call, kernels.automatic))
    short = place_of([7])
    alone = Call(**{**call.__dict__, **{x: getattr(call, x)[:7] for x in "qkv"}, "queries": short.queries})
    alone = Call(**{**alone.__dict__, "keys": short.keys})
    torch.testing.assert_close(
        position.place(short, 1)[0].attend(alone, kernels.automatic), found[0][:7], rtol=1e-4, atol=1e-5
    )
