import re

import pytest
from rich.console import Console

from qkv.insight.explanation import Explanation, Explanations, WordEffect
from qkv.insight.explanation_text import class_text, explanation_text

EVIL = "<script>alert(1)</script> \x1b[31m red \u202e back & [bold]markup[/bold] \x07"


def explained(text, effects, number=0, answer="good", verb="classify", **facts):
    words, start = [], 0
    for word, (gradient, left_out) in zip(text.split(" "), effects, strict=True):
        words.append(WordEffect(word, start, start + len(word), 0, gradient, left_out))
        start += len(word) + 1
    given = {"score": 2.0, "baseline": -1.0, "scale": "log-odds", "probability": 0.88, "steps": 24} | facts
    return Explanation(number=number, texts=(text,), verb=verb, answer=answer, words=tuple(words), **given)


def evil():
    return Explanations((explained(EVIL, [(1.0, -1.0)] * len(EVIL.split(" ")), answer="<b>\x1b[0m", place=(0, 8)),), 1)


def test_the_checks():
    one = explained("a b c", [(1.0, 5.0), (2.5, 6.0), (-0.25, -7.0)])
    assert one.gap == pytest.approx(0.25)
    assert one.agreement == pytest.approx(1.0)
    assert explained("a b", [(1.0, 1.0), (2.0, 2.0)]).agreement is None
    told = one.to_dict()
    assert told["gap"] == one.gap
    assert told["words"][1] == {"text": "b", "start": 2, "end": 3, "side": 0, "gradient": 2.5, "left_out": 6.0}


def test_words_of_a_class_are_means_that_rare_words_cannot_win_by_chance():
    found = Explanations(
        (
            explained("fine film .", [(2.0, 2.0), (-1.0, -1.0), (9.0, 9.0)]),
            explained("Fine plot .", [(3.0, 2.0), (4.0, 4.0), (9.0, 9.0)], number=1),
            explained("fine bore .", [(2.5, 2.0), (1.0, 1.0), (9.0, 9.0)], number=2),
            explained("dull .", [(3.0, 1.0), (0.0, 0.0)], number=3, answer="bad"),
        ),
        4,
    )
    assert found.has_classes
    assert [word.word for word in found.by_answer["good"]] == ["fine", "plot", "bore"]  # no signs, nothing against it
    best = found.by_answer["good"][0]
    assert (best.count, best.gradient, best.left_out) == (3, 2.5, 2.0)
    assert [word.word for word in found.by_answer["bad"]] == ["dull"]
    numbers = Explanations(tuple(explained("a", [(1.0, 1.0)], n, str(n), scale="number") for n in range(3)), 3)
    assert list(numbers.by_answer) == ["number"]


def test_joined_explanations_count_on():
    one = Explanations((explained("a", [(1.0, 1.0)]),), 2)
    both = one + one
    assert [each.number for each in both] == [0, 2]
    assert (len(both), both.count, both[1].number) == (2, 4, 2)
    assert not Explanations((), 0).has_classes


def test_a_page_shows_texts_and_never_runs_them():
    page = evil().to_html()
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", page)
    assert "\\x1b[31m" in page
    assert "\\u202e" in page
    assert "<b>" not in page
    assert "default-src 'none'" in page
    assert not re.search(r"https?://|src=|href=|url\(", page)
    assert evil()._repr_html_() in page


def test_a_page_of_many_texts_is_bounded_and_says_so(tmp_path):
    many = Explanations(tuple(explained("fine", [(1.0, 1.0)], n) for n in range(230)), 230)
    page = many.to_html()
    assert page.count("<article>") == 200
    assert "30 more explanations are not shown" in page
    assert "words for good" in page
    assert many.save(tmp_path / "page.html").read_text() == page
    assert "no answer to explain" in Explanations((), 1).to_html()


@pytest.mark.parametrize("colour", [True, False])
def test_the_terminal_shows_texts_and_never_obeys_them(colour):
    console = Console(width=200, force_terminal=True, color_system="truecolor", highlight=False)
    with console.capture() as caught:
        console.print(explanation_text(evil()[0], 50, colour))
    shown = caught.get()
    plain = re.sub("\x1b\\[[0-9;]*m", "", shown)  # rich's own colours
    assert "\x1b" not in plain
    assert "\x07" not in plain
    assert "\u202e" not in plain
    assert "\\x1b[31m" in plain
    assert "[bold]markup[/bold]" in plain
    assert ("48;2;" in shown) == colour


def test_the_table_of_classes():
    found = Explanations((explained("fine\x1b film", [(2.0, 2.0), (1.0, 1.0)]),), 2)
    lines = "\n".join(str(part) for part in class_text(found.by_answer, 1).renderables).splitlines()
    assert lines[0] == "words for good"
    assert lines[2].split() == ["fine\\x1b", "1", "+2.000", "+2.000"]
    assert len(lines) == 3
