import math

import pytest
import torch

from qkv.common.batch import Tokens
from qkv.insight.position_geometry import _scores, scores_by_distance
from qkv.models import catalogue
from qkv.models.position import POSITIONS
from qkv.nn import kernels
from qkv.nn.kernels import Call
from qkv.nn.tap import recording
from tests.contracts.entries import make, shrink


class Calls:
    def __init__(self):
        self.seen = []

    def begin(self, tap, layer):
        pass

    def add(self, tap, seen):
        if isinstance(seen, Call):  # not the states of a stack
            self.seen.append(seen)


@pytest.mark.parametrize("preset", ["bert-base", "gpt2"])
@pytest.mark.parametrize("position", POSITIONS)
def test_the_softmax_of_the_scores_is_the_weights(position, preset):
    model = make(shrink(catalogue.preset(preset), position=position)).eval()
    calls = Calls()
    with recording(calls), torch.no_grad():
        model(Tokens.of([[2, 5, 6, 7, 3], [2, 4, 3]]))
    assert calls.seen
    for call in calls.seen:
        for (scores, distance, visible), weights in zip(_scores(call), kernels.weights(call), strict=True):
            expected = scores.masked_fill(~visible, -math.inf).softmax(-1)
            torch.testing.assert_close(expected, weights, atol=1e-5, rtol=1e-4)
            assert int(distance[-1, -1]) == 0


def test_alibi_is_a_slope_and_rotary_depends_on_the_distance_alone():
    same = Tokens.of([[5] * 12])
    for name in ("alibi", "rotary"):
        model = make(shrink(catalogue.preset("bert-base"), position=name)).eval()
        found = scores_by_distance(model, [same], 15)["self"][0]  # the states of the first layer have no positions
        middle = found[:, 15]
        if name == "alibi":
            slopes = torch.tensor(model.stack.position.slopes())
            torch.testing.assert_close(middle - found[:, 15 + 7], 7 * slopes, atol=1e-4, rtol=1e-4)
            torch.testing.assert_close(found[:, 15 - 7], found[:, 15 + 7], atol=1e-4, rtol=1e-4)
        else:
            one = scores_by_distance(model, [Tokens.of([[5, 5]])], 15)["self"][0]
            torch.testing.assert_close(found[:, 16], one[:, 16], atol=1e-4, rtol=1e-4)
        assert found[:, :4].isnan().all()
        assert found[:, 4:27].isfinite().all()


def test_a_causal_model_sees_no_later_key():
    model = make(shrink(catalogue.preset("gpt2"))).eval()
    found = scores_by_distance(model, [Tokens.of([[2, 5, 6]])], 4)["self"]
    assert found[..., 5:].isnan().all()
    assert found[..., 2:5].isfinite().all()
