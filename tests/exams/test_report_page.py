"""The page and the card: everything is there, nothing from outside is markup, and odd numbers do no harm."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from qkv.evaluation.score import Score
from qkv.exams.report.card import MARK, card, is_ours
from qkv.exams.report.charts import Series, lines, ticks
from qkv.exams.report.naming import beats, verdict
from qkv.exams.report.page import page
from qkv.exams.report.terminal import matrix_lines, mistake_lines
from tests.exams.pages import CONTROLS, a_report, a_run, a_study

VOID = {"meta", "br", "img", "link", "input"}


class Tags(HTMLParser):
    """Collects the elements and attributes, and checks that every element is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def parsed(text: str) -> Tags:
    found = Tags()
    found.feed(text)
    found.close()
    assert found.open == []
    return found


def test_nothing_from_outside_becomes_markup() -> None:
    text = page(a_report())
    found = parsed(text)
    assert not found.names & {"script", "img", "iframe", "link", "object", "embed", "form"}
    assert not [name for name in found.attributes if name.startswith("on")]
    assert "src" not in found.attributes
    assert not re.search(r"https?://|//[a-z]+\.|url\(|@import", text)
    assert re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", text) is None
    assert "\\x1b[31mred\\u202eevil" in text
    assert "default-src &#x27;none&#x27;" in text or "default-src 'none'" in text
    assert text.encode("utf-8").decode("utf-8") == text


@pytest.mark.parametrize(
    "name", ["scores", "curves", "classes", "calibration", "lengths", "mistakes", "use", "model", "cost", "recipe"]
)
def test_every_section_is_there_and_linked(name: str) -> None:
    text = page(a_report())
    assert f'<section id="{name}">' in text
    assert f'href="#{name}"' in text


def test_long_texts_open_on_a_click() -> None:
    text = page(a_report())
    assert "<em>(3,000 characters)</em>" in text
    assert "长" * 3000 in text


def test_a_report_may_lack_anything() -> None:
    for changes in ({"study": None}, {"run": None}, {"study": None, "run": None, "usage": (), "model": {}}):
        parsed(page(a_report(**changes)))
        card(a_report(**changes))
    empty = replace(a_run(), metrics=[], energy={})
    parsed(page(a_report(run=empty, study=None)))
    bare = a_study(["a", "b"], mistakes=(), lengths=(), calibration=None, confusion=None, classes=(), trivial={})
    text = page(a_report(study=bare, run=None))
    parsed(text)
    assert 'id="mistakes"' not in text
    assert 'href="#mistakes"' not in text


def test_a_language_model_has_a_perplexity() -> None:
    metrics = [
        {"step": n, "loss": 2.0, "lm": 2.0, "valid_loss": 2.0 - n / 10, "valid_lm": 2.0 - n / 10} for n in (1, 2)
    ]
    text = page(a_report(study=None, run=replace(a_run(), metrics=metrics)))
    assert "<b>1.8000</b>" in text
    assert "<b>6.0496</b>" in text  # exp(1.8)


def test_many_classes_and_many_points_stay_small() -> None:
    many = a_study([f"class {n}" for n in range(150)])
    assert many.confusion is not None
    assert len(many.confusion.labels) == 50
    text = page(a_report(study=many))
    assert "110 less frequent classes" in text
    metrics = [{"step": n, "loss": 1.0 + n % 2} for n in range(100_000)]
    drawn = lines([Series("training", [(line["step"], line["loss"]) for line in metrics])])
    assert len(drawn) < 20_000
    assert "99999.0" not in drawn


@pytest.mark.parametrize(
    "values",
    [[(1.0, 2.0), (2.0, 2.0)], [(0.0, 0.0), (1.0, 0.0)], [(0.0, -5.0), (1.0, 1e9)], [(3.0, 1e-12), (3.0, 2e-12)]],
)
def test_a_line_of_any_values_has_ticks(values: list[tuple[float, float]]) -> None:
    drawn = lines([Series("x", values)])
    assert "polyline" in drawn
    assert "nan" not in drawn
    assert "inf" not in drawn.replace("info", "")


def test_a_line_needs_two_finite_points() -> None:
    assert lines([Series("x", [(1.0, 2.0)])]) == ""
    assert lines([Series("x", [(1.0, float("nan")), (2.0, float("inf"))])]) == ""


def test_ticks_are_round() -> None:
    assert ticks(0, 1) == pytest.approx([0, 0.25, 0.5, 0.75, 1])
    assert ticks(0.62, 0.91) == pytest.approx([0.7, 0.8, 0.9])
    assert ticks(0, 5000, count=6) == pytest.approx([0, 1000, 2000, 3000, 4000, 5000])


def score(name: str, value: float) -> Score:
    return Score(name=name, value=value, low=value, high=value, count=1, signature="")


def test_a_model_is_compared_with_the_trivial_answer() -> None:
    assert beats(score("accuracy", 0.9), score("accuracy", 0.8))
    assert not beats(score("accuracy", 0.8), score("accuracy", 0.8))
    assert beats(score("mse", 0.8), score("mse", 0.9))
    assert beats(score("pearson", 0.8), score("pearson", float("nan"))) is None
    good = a_study(["a", "b"])
    assert verdict(good) == ""
    worse = replace(good, scores=(score("accuracy", 0.1), score("f1", 0.1)))
    assert "no better than a trivial answer (always 'a'): accuracy 0.1000 against 0.5000" in verdict(worse)
    assert "no better than a trivial answer" in page(a_report(study=worse))
    assert "no better than a trivial answer" in card(a_report(study=worse))
    numbers = {"always the mean": (score("pearson", float("nan")), score("mse", 1.0))}
    lost = replace(good, scores=(score("pearson", 0.1), score("mse", 2.0)), trivial=numbers)
    assert "MSE 2.0000 against 1.0000" in verdict(lost)


def test_the_card_says_what_it_is(tmp_path: Any) -> None:
    text = card(a_report())
    assert text.startswith(MARK + "\n# ")
    assert "<script>" not in text.replace("qkv classify '<script>", "")  # a block of code shows it as it is
    assert "| accuracy | 0.6650 (95 % interval" in text
    assert "always 'good': 0.2500" in text
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 3 for line in text.splitlines() if line.startswith("|"))
    file = tmp_path / "README.md"
    assert is_ours(file)
    file.write_text(text)
    assert is_ours(file)
    file.write_text("# My own\n" + text)
    assert not is_ours(file)


def test_the_terminal_gets_no_control_characters() -> None:
    found = a_study(["good", CONTROLS])
    assert found.confusion is not None
    for text in (matrix_lines(found.confusion), mistake_lines(found.mistakes)):
        assert re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", text) is None
    assert mistake_lines([]) == "no mistakes"
