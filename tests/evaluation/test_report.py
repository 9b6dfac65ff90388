"""Scores as text, JSON and Markdown."""

import dataclasses
import json
import math

import pytest

from qkv.evaluation.report import as_json, markdown_head, markdown_row, number, table
from qkv.evaluation.score import Score

ACCURACY = Score(name="accuracy", value=0.875, low=0.8, high=0.93, count=120, signature="ci:wilson")
BLEU = Score(name="BLEU", value=31.4159, low=30.1, high=32.7, count=7, signature="a:b|c:d", parts={"precision-1": 60.5})
LOST = Score(name="pearson", value=math.nan, low=math.nan, high=math.nan, count=3, signature="s", parts={"x": math.inf})


def test_a_score_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ACCURACY.value = 1.0


def test_table():
    assert table([ACCURACY, BLEU]).splitlines() == [
        "metric         value   95% interval      examples  signature",
        "accuracy       0.8750  [0.8000, 0.9300]  120       ci:wilson",
        "BLEU           31.42   [30.10, 32.70]    7         a:b|c:d",
        "  precision-1  60.50",
    ]
    assert "precision" not in table([BLEU], parts=False)
    assert "undefined" in table([LOST])


def test_json_comes_back():
    report = json.loads(json.dumps(as_json([ACCURACY, BLEU, BLEU, LOST]), allow_nan=False))
    assert list(report) == ["accuracy", "BLEU", "BLEU#2", "pearson"]
    assert report["BLEU"] == {
        "value": 31.4159,
        "low": 30.1,
        "high": 32.7,
        "count": 7,
        "signature": "a:b|c:d",
        "parts": {"precision-1": 60.5},
    }
    assert report["pearson"]["value"] is None
    assert report["pearson"]["parts"] == {"x": None}


def test_markdown():
    assert markdown_head("model", [ACCURACY, BLEU]) == "| model | accuracy | BLEU |\n| --- | --- | --- |"
    row = markdown_row("a|b", [ACCURACY, BLEU])
    assert row == "| a\\|b | 0.8750 (0.8000 to 0.9300) | 31.42 (30.10 to 32.70) |"


@pytest.mark.parametrize(("value", "text"), [(0.12345, "0.1235"), (-1.0, "-1.0000"), (math.nan, "undefined")])
def test_number(value, text):
    assert number(value) == text
