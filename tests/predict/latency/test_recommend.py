"""The recommendation, from times that are made up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.predict.latency.recommend import DECISIVE, rate, recommended
from qkv.predict.latency.result import Side, Timing

EXACT = {"torch": True, "native": True, "native-int8": False, "onnxruntime": True}


def chosen(times, default="native", agreement=0.99, unit="text"):
    """Recommend from milliseconds: engine -> batch -> one for each length."""
    sides = [Side(name, name, f"with {name}", EXACT[name], agreement) for name in times]
    timings = [
        Timing(name, batch, length, 10, ms, 2 * ms, 1000 * batch / ms, 1000 * batch * length / ms)
        for name, batches in times.items()
        for batch, several in batches.items()
        for length, ms in zip((16, 64), several, strict=False)
    ]
    return recommended(sides, timings, default=default, agreement="cosine", unit=unit)


def test_one_engine_is_the_fastest_everywhere() -> None:
    found = chosen({"torch": {1: [4, 8], 32: [40, 80]}, "native": {1: [2, 3], 32: [25, 50]}})
    assert (found.alone, found.batched, found.faster) == ("native", "native", None)
    assert found.text == (
        "Use native, with native: of the engines that keep the numbers, it is the fastest for one text (p50 2 ms at 16 "
        "tokens) and the fastest in batches of 32 (1,280 texts per second at 16 tokens)."
    )


def test_batches_may_have_another_engine() -> None:
    found = chosen({"native": {1: [2, 3], 32: [60, 90]}, "onnxruntime": {1: [4, 5], 32: [30, 40]}})
    assert (found.alone, found.batched) == ("native", "onnxruntime")
    assert "native (with native) is the fastest for one text" in found.text
    assert "onnxruntime (with onnxruntime) is the fastest in batches of 32" in found.text


def test_the_engine_in_use_stays_unless_another_is_clearly_faster() -> None:
    near, far = 10 / (DECISIVE - 0.01), 10 / (DECISIVE + 0.01)
    found = chosen({"native": {1: [10]}, "onnxruntime": {1: [near]}})
    assert found.alone == "native"
    assert "within 5% of the fastest for one text (p50 10 ms" in found.text
    assert chosen({"native": {1: [10]}, "onnxruntime": {1: [far]}}).alone == "onnxruntime"


def test_numbers_that_change_are_named_with_how_far() -> None:
    found = chosen({"native": {1: [2], 32: [60]}, "native-int8": {1: [1], 32: [60]}}, agreement=0.9876)
    assert (found.alone, found.batched, found.faster) == ("native", "native", "native-int8")
    assert "native-int8, with native-int8, is 2 times as fast for one text, but changes the numbers" in found.text
    assert "(cosine with float32: 0.9876)" in found.text
    assert "qkv evaluate" in found.text
    assert "batches of 32" not in found.text.partition("native-int8")[2]


def test_engines_that_change_the_numbers_by_themselves() -> None:
    found = chosen({"native-int8": {1: [1]}}, agreement=None)
    assert (found.alone, found.batched, found.faster) == (None, None, "native-int8")
    assert "native-int8 changes the numbers (not compared with float32)" in found.text
    assert "keep" not in found.text


def test_one_batch_size_is_named_once() -> None:
    found = chosen({"torch": {8: [4]}, "native": {8: [2]}}, unit="image")
    assert found.text.count("batches of 8") == 1
    assert "4,000 images per second" in found.text


@given(
    times=st.dictionaries(
        st.sampled_from(sorted(EXACT)),
        st.fixed_dictionaries({n: st.lists(st.floats(0.01, 1000), min_size=2, max_size=2) for n in (1, 8, 32)}),
        min_size=1,
    ),
    default=st.sampled_from(sorted(EXACT)),
)
def test_no_engine_that_keeps_the_numbers_is_clearly_faster_than_the_one_chosen(times, default) -> None:
    found = chosen(times, default)
    exact = [name for name in times if EXACT[name]]
    for name, batch in ((found.alone, 1), (found.batched, 32)):
        assert (name is None) == (not exact)
        for other in exact:
            ratio = 1.0
            for mine, theirs in zip(times[name][batch], times[other][batch], strict=True):
                ratio *= mine / theirs
            assert ratio**0.5 < DECISIVE * 1.0001 or name == other
    if found.faster is not None:
        assert not EXACT[found.faster]
        assert "changes the numbers" in found.text


@pytest.mark.parametrize(("value", "text"), [(0.01234, "0.0123"), (9.876, "9.88"), (123.4, "123"), (98765.4, "98,765")])
def test_rates_have_three_digits_or_all_before_the_point(value, text) -> None:
    assert rate(value) == text
