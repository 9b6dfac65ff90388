"""Charts: the places of points, and text that stays text."""

from __future__ import annotations

import math
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from qkv.insight.chart import Line, Panel, charts, dots

NASTY = '<script>alert("x")</script>\x1b[31m\x00'


def circles(svg: str) -> list[tuple[float, float]]:
    root = ElementTree.fromstring(svg)
    found = [node for node in root.iter() if node.tag.endswith("circle") and any(True for _ in node)]  # with a tooltip
    return [(float(node.get("cx", "nan")), float(node.get("cy", "nan"))) for node in found]


def test_a_logarithmic_axis_has_equal_steps_for_equal_factors() -> None:
    line = Line("a", [(n, float(n * n)) for n in (64, 128, 256, 512)])
    places = circles(charts([Panel("t", [line], "n", "s", log_x=True, log_y=True)], title="t"))
    steps = [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(places)]
    assert steps == [pytest.approx(steps[0], abs=0.2)] * 3
    assert steps[0][1] < 0 < steps[0][0]  # up and to the right


def test_points_that_cannot_be_drawn_are_left_out() -> None:
    line = Line("a", [(1.0, 1.0), (2.0, math.nan), (4.0, 0.0), (8.0, 2.0)])
    assert len(circles(charts([Panel("t", [line], "n", "s", log_x=True, log_y=True)], title="t"))) == 2
    assert "nothing was measured" in charts([Panel("t", [Line("a", [])], "n", "s")], title="t")
    assert len(circles(dots([("a", [1.0, math.nan]), ("b", [])], title="t", across="x"))) == 1


def test_the_bar_stands_at_the_mean() -> None:
    svg = dots([("a", [1.0, 3.0]), ("b", [2.0])], title="t", across="x")
    root = ElementTree.fromstring(svg)
    bars = [float(node.get("x1", "nan")) for node in root.iter() if node.get("stroke-width") == "2.5"]
    places = [x for x, _ in circles(svg)]
    assert bars[0] == pytest.approx((places[0] + places[1]) / 2, abs=0.1)
    assert bars[0] == pytest.approx(bars[1], abs=0.1)


def test_names_are_text_and_never_markup() -> None:
    for svg in (
        dots([(NASTY, [1.0])], title=NASTY, across=NASTY, notes=[NASTY]),
        charts([Panel(NASTY, [Line(NASTY, [(1.0, 2.0), (2.0, 1.0)])], NASTY, NASTY)], title=NASTY, notes=[NASTY]),
    ):
        root = ElementTree.fromstring(svg)  # well-formed, so no control character either
        assert not any(node.tag.endswith("script") for node in root.iter())
        assert 'alert("x")' in "".join(root.itertext())
