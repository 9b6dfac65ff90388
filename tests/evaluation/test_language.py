"""Perplexity against its definition, token by token."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.common.errors import UsageError
from qkv.evaluation.language import UNITS, Perplexity

TEXTS = st.lists(
    st.tuples(st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=9), st.integers(1, 9), st.integers(1, 50)), min_size=1
)


@given(TEXTS)
def test_agrees_with_the_definition(texts):
    metric = Perplexity(replicas=10)
    for chances, words, size in texts:
        metric.add(-sum(map(math.log, chances)), len(chances), words, size)
    whole = [chance for chances, _, _ in texts for chance in chances]
    inverse = -np.log(whole).sum()
    counts = {"token": len(whole), "word": sum(t[1] for t in texts), "byte": sum(t[2] for t in texts)}
    for unit in UNITS:
        one = metric.result(unit)
        # The inverse of the geometric mean of the chances.
        assert one.value == pytest.approx(math.exp(inverse / counts[unit]))
        assert one.parts[f"per-{unit}"] == one.value
        assert one.parts[f"{unit}s"] == counts[unit]
        assert one.signature.startswith(f"unit:{unit}|")
    assert one.parts["bits-per-byte"] == pytest.approx(-np.log2(whole).sum() / counts["byte"])


def test_agrees_with_torch():
    torch = pytest.importorskip("torch")
    logits, wanted = torch.randn(50, 7), torch.randint(7, (50,))
    metric = Perplexity()
    for start in range(0, 50, 10):
        rows = slice(start, start + 10)
        nll = torch.nn.functional.cross_entropy(logits[rows], wanted[rows], reduction="sum")
        metric.add(float(nll), 10)
    whole = torch.nn.functional.cross_entropy(logits, wanted).exp()
    assert metric.result().value == pytest.approx(float(whole), rel=1e-5)


def test_a_uniform_model_of_256_bytes_needs_8_bits():
    metric = Perplexity()
    metric.add(100 * math.log(256), 100, 20, 100)
    assert metric.result("byte").value == pytest.approx(256)
    assert metric.result().parts["bits-per-byte"] == pytest.approx(8)


def test_words_and_bytes_may_be_left_out():
    metric = Perplexity()
    metric.add(3.0, 2)
    assert set(metric.result().parts) == {"per-token", "tokens"}
    with pytest.raises(UsageError, match="per word needs the number of words"):
        metric.result("word")


def test_names():
    metric = Perplexity()
    metric.add(3.0, 2, 2, 2)
    assert [metric.result(unit).name for unit in UNITS] == ["perplexity", "word-perplexity", "byte-perplexity"]
    with pytest.raises(UsageError, match="did you mean 'token'"):
        metric.result("tokens")


def test_a_hopeless_model_is_infinite_not_a_warning():
    metric = Perplexity()
    metric.add(1e6, 1)
    assert metric.result().value == math.inf


def test_wrong_use():
    with pytest.raises(UsageError, match="not be negative: -1, 0, 0"):
        Perplexity().add(1.0, -1)
