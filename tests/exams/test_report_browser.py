"""The page in a real browser: light and dark, on a desk and on a phone, with nothing loaded and nothing run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from qkv.evaluation.report import number
from qkv.exams.report.making import report_of, write_page
from qkv.exams.report.page import page
from qkv.exams.study import study
from tests.browser import watched
from tests.exams.pages import ARABIC, a_report, a_study
from tests.predict.readers import NER, make_reader


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("page") / "report.html"
    place.write_text(page(a_report()), encoding="utf-8")
    return place


def opened(browser: Any, file: Path, *, width: int = 1100, scheme: str = "light") -> tuple[Any, list[str]]:
    """Open a page; gives it and everything that went wrong, or that it tried to load."""
    tab, seen = watched(browser, width, scheme)
    tab.goto(file.as_uri())
    return tab, [line for line in seen if line != file.as_uri()]


def test_nothing_is_loaded_and_nothing_runs(browser: Any, file: Path) -> None:
    tab, seen = opened(browser, file)
    assert seen == []
    assert tab.evaluate("window.hacked") is None
    assert tab.locator("script, main img").count() == 0
    assert tab.title().endswith("· qkv report")
    assert (
        tab.locator("h1").inner_text()
        == "runs/<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
    )
    tab.close()


@pytest.mark.parametrize("width", [360, 768, 1100])
def test_it_fits_every_screen(browser: Any, file: Path, width: int) -> None:
    tab, _ = opened(browser, file, width=width)
    sizes = tab.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert sizes[0] <= sizes[1]
    # What is wider than its card scrolls inside it; no element sticks out of the page.
    wide = tab.evaluate(
        "[...document.querySelectorAll('section, .tile, svg, figure')].filter("
        "e => e.getBoundingClientRect().right > innerWidth + 1).length"
    )
    assert wide == 0
    tab.close()


def test_light_and_dark(browser: Any, file: Path) -> None:
    colours = []
    for scheme in ("light", "dark"):
        tab, _ = opened(browser, file, scheme=scheme)
        colours.append(
            tab.evaluate("[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]")
        )
        tab.close()
    (light, dark_ink), (dark, light_ink) = colours
    assert sum(_numbers(light)) > sum(_numbers(dark_ink))
    assert sum(_numbers(dark)) < sum(_numbers(light_ink))


def test_every_picture_is_drawn(browser: Any, file: Path) -> None:
    tab, _ = opened(browser, file)
    boxes = tab.evaluate("[...document.querySelectorAll('svg')].map(e => [e.getBBox().width, e.getBBox().height])")
    assert len(boxes) >= 5
    assert all(width > 100 and height > 100 for width, height in boxes)
    matrix = tab.locator("table.matrix")
    assert matrix.locator("tbody tr").count() == 4
    shades = matrix.locator("td.hit").evaluate_all("cells => cells.map(e => getComputedStyle(e).backgroundColor)")
    assert shades
    assert "rgba(0, 0, 0, 0)" not in shades
    tab.close()


def test_arabic_runs_from_right_to_left_alone(browser: Any, file: Path) -> None:
    tab, _ = opened(browser, file)
    found = tab.locator("ol.worst bdi").filter(has_text=ARABIC).first
    assert found.evaluate("e => getComputedStyle(e).direction") == "rtl"
    assert tab.locator("ol.worst li").first.evaluate("e => getComputedStyle(e).direction") == "ltr"
    tab.close()


def test_links_lead_to_their_sections_and_long_texts_open(browser: Any, file: Path) -> None:
    tab, _ = opened(browser, file)
    for link in tab.locator("nav a").all():
        link.click()
        assert tab.locator(f"section{tab.evaluate('location.hash')}").count() == 1
    fold = tab.locator("ol.worst details").first
    before = fold.bounding_box()["height"]
    fold.locator("summary").click()
    assert fold.bounding_box()["height"] > before
    tab.close()


def test_forty_classes_scroll_inside_their_card(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "many.html"
    file.write_text(page(a_report(study=a_study([f"class number {n}" for n in range(60)]))), encoding="utf-8")
    tab, seen = opened(browser, file, width=400)
    assert seen == []
    assert tab.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    tab.close()


def test_a_report_on_a_real_model(browser: Any, tmp_path: Path) -> None:
    model = make_reader("tag", labels=NER)
    sentences = [["The", "cat", "sat", f"{n}"] for n in range(30)]
    rows = ("\n".join(f"{word} {'B-PER' if word == 'cat' else 'O'}" for word in words) for words in sentences)
    (tmp_path / "t.conll").write_text("\n\n".join(rows) + "\n")
    found = study(model, [str(tmp_path / "t.conll")], about="Files: t.conll.")
    write_page(tmp_path / "r.html", report_of(model, "tagger", found))
    tab, seen = opened(browser, tmp_path / "r.html")
    assert seen == []
    assert tab.locator("ol.worst li").count() == len(found.mistakes)
    assert tab.locator(".tile b").first.inner_text() == number(found.scores[0].value)
    assert "every tag O" in tab.locator("#scores thead").inner_text()
    assert tab.locator("#classes table.matrix tbody tr").count() == len(found.confusion.labels)
    tab.close()


def _numbers(colour: str) -> list[int]:
    return [int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
