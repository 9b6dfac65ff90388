import math

import pytest
import torch
from torch import nn

from qkv.common.errors import UsageError
from qkv.nn.feedforward import ACTIVATIONS, GATED, FeedForward, activation


def relu(x):
    return max(x, 0.0)


def gelu(x):
    return x * 0.5 * (1 + math.erf(x / math.sqrt(2)))


def gelu_tanh(x):
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def silu(x):
    return x / (1 + math.exp(-x))


FORMULAS = {"relu": relu, "gelu": gelu, "gelu_tanh": gelu_tanh, "silu": silu, "tanh": math.tanh}
GATES = {"swiglu": silu, "geglu": gelu_tanh, "geglu_exact": gelu}  # T5 1.1's own gate is the approximation


def test_every_activation_has_a_formula_here():
    assert set(ACTIVATIONS) == set(FORMULAS)
    assert set(GATED) == set(GATES)


def made(name, **options):
    part = FeedForward(3, 5, activation=name, **options).double().eval()
    for parameter in part.parameters():
        nn.init.normal_(parameter)
    return part


def by_hand(rows, linear):
    """x W^T + b, in Python numbers."""
    weight = linear.weight.tolist()
    bias = [0.0] * len(weight) if linear.bias is None else linear.bias.tolist()
    return [[sum(a * w for a, w in zip(row, line, strict=True)) + b for line, b in zip(weight, bias, strict=True)]
            for row in rows]  # fmt: skip


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", FORMULAS)
def test_plain_forms(name, bias):
    part, x = made(name, bias=bias), torch.randn(4, 3, dtype=torch.float64)
    inner = [[FORMULAS[name](value) for value in row] for row in by_hand(x.tolist(), part.up)]
    torch.testing.assert_close(part(x), torch.tensor(by_hand(inner, part.down), dtype=torch.float64))


@pytest.mark.parametrize("name", GATES)
def test_gated_forms(name):
    part, x = made(name), torch.randn(4, 3, dtype=torch.float64)
    assert part.up.out_features == 10
    inner = [
        [GATES[name](row[i]) * row[5 + i] for i in range(5)] for row in by_hand(x.tolist(), part.up)
    ]  # fmt: skip
    torch.testing.assert_close(part(x), torch.tensor(by_hand(inner, part.down), dtype=torch.float64))


def test_dropout_acts_between_the_two_layers():
    part, x = made("relu", dropout=1.0), torch.randn(2, 3, dtype=torch.float64)
    assert not torch.allclose(part(x), part.down.bias.expand(2, -1))
    part.train()
    torch.testing.assert_close(part(x), part.down.bias.expand(2, -1))


def test_an_unknown_activation_names_the_nearest():
    with pytest.raises(UsageError, match=r"'gleu'.*did you mean 'gelu'"):
        activation("gleu")
    with pytest.raises(UsageError, match=r"'swigul'.*did you mean 'swiglu'"):
        FeedForward(3, 5, activation="swigul")
