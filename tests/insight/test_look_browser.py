"""The page of a look in a real browser: every control is driven, by pointer and by keyboard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from qkv.insight.look import Look
from tests.insight.look_page import changes, drawn, opened, percent, picture, said
from tests.insight.test_html import HOSTILE
from tests.predict.conftest import make_translator
from tests.predict.readers import make_reader
from tests.predict.test_look import make_vit

SOURCE, TARGET = "The small cat sleeps.", "Le petit chat dort."


@pytest.fixture(scope="module")
def translated() -> Look:
    return make_translator("transformer-tiny").look(SOURCE, TARGET)


@pytest.fixture(scope="module")
def file(translated: Look, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return translated.save(tmp_path_factory.mktemp("look") / "look.html")


def test_choosers_change_what_is_drawn(browser: Any, file: Path, translated: Look) -> None:
    tab, seen = opened(browser, file)
    assert seen == []
    assert tab.locator("#part option").all_inner_texts() == ["decoder over the source", "encoder", "decoder"]
    assert tab.input_value("#layer") == "0"
    for chooser, value in (("#layer", "1"), ("#head", "1"), ("#head", "all"), ("#row", "2"), ("#part", "1")):
        assert changes(tab, lambda c=chooser, v=value: tab.select_option(c, v), "heads", "matrix") == [True, True], (
            chooser
        )
    assert tab.locator("#row option").all_inner_texts()[1] == f"0: {translated.part('encoder').rows[0]}"
    assert tab.locator("#model .grid button").count() == 4
    for chooser, value in (("#zoom", "4"), ("#shade", "absolute")):
        assert changes(tab, lambda c=chooser, v=value: tab.select_option(c, v), "matrix") == [True], chooser
    tab.close()


def test_what_is_said_is_the_models_own_weight(browser: Any, file: Path, translated: Look) -> None:
    tab, _ = opened(browser, file)
    part = translated.part("cross")
    tab.select_option("#head", "1")
    tab.select_option("#layer", "1")
    tab.select_option("#row", "2")
    drawn(tab)
    weights = part.weights(1, 1)[2]
    best = int(weights.argmax())
    assert said(tab, "heads").startswith(f"{part.rows[2]} attends to {part.columns[best]} {percent(weights[best])}")
    cells = tab.locator("#steps tbody tr")
    assert cells.count() == len(part.columns)
    call = part.call(1)
    assert call is not None
    raw = torch.einsum("h,sh->s", call.q[2, 1], call.k[:, 1])
    for j, row in enumerate(cells.all()):
        name, product, scaled, _, share, _ = row.locator("th, td").all_inner_texts()
        assert name == part.columns[j]
        assert float(product) == pytest.approx(float(raw[j]), rel=5e-3, abs=5e-3)
        assert float(scaled) == pytest.approx(float(raw[j]) * call.scale, rel=5e-3, abs=5e-3)
        assert float(share.removesuffix(" %")) == pytest.approx(100 * float(weights[j]), abs=0.6)
    tab.locator("#steps summary").click()
    tab.locator("#steps tbody button").nth(1).click()
    drawn(tab)
    assert tab.locator("#steps .product").inner_text().startswith(f"{part.rows[2]} · {part.columns[1]} = ")
    tab.close()


def test_the_pointer_shows_one_token_and_one_cell(browser: Any, file: Path, translated: Look) -> None:
    tab, _ = opened(browser, file)
    part = translated.part("cross")
    heads, matrix = tab.locator("#heads .view"), tab.locator("#matrix .view")
    assert said(tab, "heads") == ""
    heads.hover(position={"x": 60, "y": 8 + 22 * 1 + 10})
    assert said(tab, "heads").startswith(f"{part.rows[1]} attends to ")
    heads.hover(position={"x": heads.bounding_box()["width"] - 60, "y": 8 + 22 * 3 + 10})
    assert said(tab, "heads").startswith(f"{part.columns[3]} is attended to by ")
    heads.click(position={"x": 60, "y": 8 + 22 * 2 + 10})
    assert tab.input_value("#row") == "2"
    place = tab.evaluate("document.querySelector('#matrix .whole').style.height.slice(0, -2)")
    matrix.hover(position={"x": 150, "y": float(place) - 4 - 20})  # in the last row
    assert said(tab, "matrix").startswith(f"{part.rows[-1]} → ")
    matrix.click(position={"x": 150, "y": float(place) - 4 - 20})
    assert tab.input_value("#row") == str(len(part.rows) - 1)
    tab.close()


def test_chips_and_thumbnails(browser: Any, file: Path) -> None:
    tab, _ = opened(browser, file)
    chips = tab.locator("#heads .chips button")
    assert chips.count() == 2
    assert changes(tab, chips.nth(0).click, "heads", "matrix") == [True, True]
    assert (tab.input_value("#head"), chips.nth(0).get_attribute("aria-pressed")) == ("1", "false")
    chips.nth(1).click()
    drawn(tab)
    assert tab.input_value("#head") == "1"  # the last head stays
    tab.locator("#model button[aria-label='layer 1, head 0']").click()
    drawn(tab)
    assert (tab.input_value("#layer"), tab.input_value("#head")) == ("1", "0")
    assert tab.locator("#model button[aria-pressed=true]").count() == 1
    assert 0 <= tab.locator("#matrix").bounding_box()["y"] < 450  # scrolled to the enlarged one
    tab.close()


def test_everything_works_by_keyboard(browser: Any, file: Path, translated: Look) -> None:
    tab, _ = opened(browser, file)
    nameless = tab.evaluate(
        "[...document.querySelectorAll('select, button, [tabindex]')].filter(e => "
        "!e.closest('label') && !e.getAttribute('aria-label') && !e.textContent.trim()).length"
    )
    assert nameless == 0
    rows = translated.part("cross").rows
    tab.focus("#heads .view")
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("ArrowDown")
    drawn(tab)
    assert tab.input_value("#row") == "1"
    assert said(tab, "heads").startswith(f"{rows[1]} attends to ")
    tab.keyboard.press("Escape")
    drawn(tab)
    assert tab.input_value("#row") == "-1"
    tab.focus("#matrix .view")
    for key in ("ArrowDown", "ArrowRight", "ArrowDown"):
        tab.keyboard.press(key)
        drawn(tab)
    assert said(tab, "matrix").startswith(f"{rows[1]} → {translated.part('cross').columns[1]}: ")
    tab.focus("#model button[aria-label='layer 1, head 1']")
    tab.keyboard.press("Enter")
    drawn(tab)
    assert tab.input_value("#layer") == "1"
    tab.close()


def test_answers_by_place_and_layer(browser: Any, file: Path, translated: Look) -> None:
    tab, _ = opened(browser, file)
    lens = translated.lens
    assert lens is not None
    tab.select_option("#place", "3")
    last = lens.choices[3][-1]
    bars = tab.locator("#answers .bars span").all_inner_texts()
    assert bars[1] == percent(last[0][1])
    assert any(name == f"{lens.places[3]} ✓" for name in bars)
    table = tab.locator("#answers tbody tr")
    assert table.locator("th").all_inner_texts() == ["input", "layer 0", "layer 1"]
    wanted = lens.wanted[3]
    assert wanted is not None
    assert table.nth(1).locator("td").last.inner_text() == percent(wanted[1][1])
    tab.close()


@pytest.mark.parametrize("width", [400, 1200])
def test_it_fits_light_and_dark(browser: Any, file: Path, width: int) -> None:
    colours = []
    for scheme in ("light", "dark"):
        tab, seen = opened(browser, file, width=width, scheme=scheme)
        assert seen == []
        assert tab.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        colours.append((tab.evaluate("getComputedStyle(document.body).backgroundColor"), picture(tab, "matrix")))
        if scheme == "light":  # a change while the page is open is followed
            tab.emulate_media(color_scheme="dark")
            assert picture(tab, "matrix") != colours[0][1]
        tab.close()
    assert colours[0][0] != colours[1][0]
    assert colours[0][1] != colours[1][1]


def test_typed_text_runs_nothing(browser: Any, tmp_path: Path) -> None:
    found = make_reader("mlm", kind="byte-bpe", max_length=400).look(HOSTILE)
    tab, seen = opened(browser, found.save(tmp_path / "h.html"))
    assert seen == []
    assert tab.evaluate("window.hacked") is None
    assert tab.locator("img, header script").count() == 0
    assert "<script>window.hacked=1</script>" in tab.locator("header .text").inner_text()
    assert "\\x1b[31m \\u202ecat" in tab.locator("header .text").inner_text()
    tab.close()


def test_an_image_with_attention_over_it(browser: Any, tmp_path: Path) -> None:
    pil = pytest.importorskip("PIL.Image")
    pil.effect_noise((24, 24), 90).convert("RGB").save(tmp_path / "a.png")
    found = make_vit().look(str(tmp_path / "a.png"))
    tab, seen = opened(browser, found.save(tmp_path / "v.html"))
    assert seen == []
    canvas = tab.locator("#picture canvas")
    canvas.wait_for(state="visible")
    assert "[class] attends most to patch" in said(tab, "picture")
    assert changes(tab, lambda: tab.select_option("#overlay", "rollout"), "picture") == [True]
    rolled = found.rollout()[0, 1:]
    best = said(tab, "picture").removeprefix("Rollout: [class] attends most to ").split("; ")[0]
    assert rolled[found.part().columns.index(best) - 1] > 0.995 * rolled.max()  # stored in 8 bits
    box = canvas.bounding_box()
    canvas.click(position={"x": box["width"] * 0.5, "y": box["height"] * 0.9})
    drawn(tab)
    assert tab.input_value("#row") == "8"
    canvas.press("ArrowUp")
    drawn(tab)
    assert tab.input_value("#row") == "5"
    assert changes(tab, lambda: tab.select_option("#overlay", "layer"), "picture") == [True]
    assert changes(tab, lambda: tab.select_option("#layer", "0"), "picture") == [True]
    assert changes(tab, lambda: tab.select_option("#overlay", "none"), "picture") == [True]
    tab.close()


def test_a_notebook_shows_the_page_in_a_frame(browser: Any, tmp_path: Path, translated: Look) -> None:
    file = tmp_path / "notebook.html"
    file.write_text(f"<!doctype html><meta charset=utf-8>{translated._repr_html_()}", encoding="utf-8")
    tab = browser.new_page()
    tab.goto(file.as_uri())
    frame = tab.frame_locator("iframe")
    frame.locator("body[data-ready]").wait_for()
    assert frame.locator("#model .grid button").count() == 4
    tab.close()
