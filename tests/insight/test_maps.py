import base64
import zlib

import pytest
import torch

from qkv.common.batch import Tokens
from qkv.insight.capture import capture
from qkv.insight.look import Part
from qkv.insight.maps import SIDE, bias_of, chosen, layer_maps, packed, projections
from qkv.models import catalogue
from qkv.models.position import POSITIONS
from tests.contracts.entries import make, shrink


def a_part(length=7, **changes):
    model = make(shrink(catalogue.preset("gpt2"), max_length=256, **changes)).eval()
    with torch.no_grad(), capture(model) as found:
        model(Tokens.of([[3 + i % 20 for i in range(length)]]))
    names = [str(i) for i in range(length)]
    return Part(names, names, list(found.calls.values()))


def test_eight_bits_hold_each_weight_closely():
    part = a_part()
    for layer, maps in enumerate(layer_maps(part, {0, 1})):
        back = (maps.weights.float() / 255) ** 2
        whole = part.weights(layer)
        assert (back - whole).abs().max() < 0.004
        assert ((whole > 1 / 60_000) & (maps.weights == 0)).sum() == 0  # what is not nothing stays something
        assert torch.equal(maps.thumbs, maps.weights)  # small maps are their own thumbnails


def test_a_thumbnail_shows_the_largest_weight_of_each_square():
    part = a_part(length=100)
    (maps, _) = layer_maps(part, set())
    assert maps.weights is None
    assert maps.thumbs.shape == (4, 34, 34)
    assert max(maps.thumbs.shape[1:]) <= SIDE
    square = part.weights(0, 2)[6:9, 3:6].max()
    assert maps.thumbs[2, 2, 1] == (square.sqrt() * 255).round()


@pytest.mark.parametrize(
    ("number", "room", "first", "found"),
    [(4, 9, 3, {0, 1, 2, 3}), (12, 1, 11, {11}), (12, 3, 11, {0, 6, 11}), (12, 0, 11, set()), (6, 2, 4, {0, 4})],
)
def test_layers_are_chosen_evenly(number, room, first, found):
    assert chosen(number, room, first) == found


@pytest.mark.parametrize("position", sorted(set(POSITIONS) - {"rotary-dynamic"}))
def test_scores_by_hand_are_the_weights(position):
    part = a_part(position=position, num_kv_heads=2)
    for layer in range(2):
        call, bias = part.call(layer), bias_of(part.call(layer))
        row = projections(call).float()
        q, k = row[: call.q.numel()].view(call.q.shape), row[call.q.numel() :].view(call.k.shape)
        scores = torch.einsum("lnh,snh->nls", q, k.repeat_interleave(2, 1)) * call.scale
        scores = scores if bias is None else scores + bias.float()
        scores = scores.masked_fill(torch.ones(7, 7).triu(1).bool(), -torch.inf)
        torch.testing.assert_close(scores.softmax(-1), part.weights(layer), atol=5e-3, rtol=5e-3)


def test_packed_bytes_come_back():
    values = torch.arange(600).view(2, 300).half()
    assert zlib.decompress(base64.b64decode(packed(values))) == values.numpy().tobytes()
