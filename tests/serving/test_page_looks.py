"""How the page looks and feels: narrow and wide, light and dark, with a keyboard, with a screen reader, and when the
server does not answer. Screenshots of every panel are kept in artefacts/page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.serving.page import PANELS, SHOTS, Page, opened, write_models
from tests.serving.server import Server, served

WEB = Path(__file__).parents[2] / "src" / "qkv" / "serving" / "web"
CONTRAST = Path(__file__).with_name("contrast.js").read_text("utf-8")
NAMELESS = """[...document.querySelectorAll(
        'a, button, input, select, textarea, [tabindex], canvas, iframe, [role=group]')]
    .filter(e => e.checkVisibility() && !e.matches('main') && !(e.labels?.length || e.getAttribute('aria-label')
        || e.title || e.getAttribute('aria-labelledby') || e.textContent.trim())).map(e => e.outerHTML)"""
WIDE = "document.documentElement.scrollWidth > document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folders = write_models(tmp_path_factory.mktemp("page"))
    with served(tmp_path_factory.mktemp("server"), *folders.values()) as found:
        yield found


@pytest.fixture
def page(browser: Any, server: Any) -> Iterator[Page]:
    with opened(browser, server.url) as found:
        yield found


@pytest.mark.parametrize("panel", PANELS)
def test_a_panel_fits_and_can_be_read(page: Page, panel: str) -> None:
    """At both widths and in both modes: nothing is cut off, every text has contrast, every control has a name."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.open(panel).example()
    tab = page.tab
    for width in (1200, 400):
        tab.set_viewport_size({"width": width, "height": 900})
        for scheme in ("light", "dark"):
            tab.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            if panel in ("look", "image"):
                tab.frame_locator("iframe").locator("body[data-ready]").wait_for()
            assert not tab.evaluate(WIDE), (panel, width)
            assert tab.evaluate(CONTRAST) == []
            assert tab.evaluate(NAMELESS) == []
            tab.screenshot(path=SHOTS / f"{panel}-{width}-{scheme}.png", full_page=True)


def test_everything_works_by_keyboard(page: Page) -> None:
    press = page.tab.keyboard.press
    page.open("translate")
    press("Tab")
    assert focused(page) == "Skip to the panel"
    page.tab.focus("#tab-translate")
    press("ArrowRight")
    page.tab.wait_for_selector(".panel.similar")
    assert focused(page) == "Similarity"
    press("End")
    page.tab.wait_for_selector(".panel.look")
    assert focused(page) == "Look inside"
    press("Home")
    page.tab.wait_for_selector(".panel.translate")
    press("Tab")  # past the tabs, into the panel
    assert page.tab.evaluate("document.activeElement.tagName") == "TEXTAREA"
    page.tab.keyboard.type("the cat sat")
    press("Control+Enter")
    page.answered()
    word = page.tab.locator(".aligned.source .word")
    word.first.focus()
    press("ArrowRight")
    assert focused(page) == "cat"
    assert page.text("#said").startswith("“cat”")
    assert word.nth(1).get_attribute("class") == "word here"
    assert page.tab.locator(".aligned [tabindex='0']").count() == 2  # one stop of Tab for each text
    page.open("fill").ask(Text_with_gaps="the [MASK]")
    page.tab.locator(".bar-name").nth(2).focus()
    press("Enter")
    assert page.tab.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"


def focused(page: Page) -> str:
    return str(page.tab.evaluate("document.activeElement.textContent.trim()"))


def test_what_a_screen_reader_is_told(page: Page) -> None:
    page.open("translate").example()
    tree = page.tab.locator("body").aria_snapshot()
    for line in (
        'tablist "What to do with the model"',
        'tab "Translate" [selected]',
        'tabpanel "Translate"',
        "contentinfo",
    ):
        assert line in tree, (line, tree)
    for line in (
        'textbox "Text"',
        'combobox "Translations"',
        'region "Answer"',
        'group "Examples"',
        'status: "Translation:',
    ):
        assert line in tree, (line, tree)
    assert page.tab.locator("html").get_attribute("lang") == "en"
    page.open("similar").example()
    assert 'rowheader "1"' in page.tab.locator("table").aria_snapshot()


def test_dark_mode_follows_the_system_while_the_page_is_open(page: Page) -> None:
    page.open("translate")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.tab.evaluate(ground)
    page.tab.emulate_media(color_scheme="dark", reduced_motion="reduce")
    assert page.tab.evaluate(ground) != light


def test_live_figures(page: Page, server: Any) -> None:
    page.open("fill").example()
    page.example(1)
    page.tab.wait_for_selector("footer svg")
    page.tab.wait_for_function("parseFloat(document.querySelector('footer b').textContent) > 0")
    now = server.client.get("/v1/stats").json()
    shown = float(page.text("footer b"))
    assert shown == pytest.approx(now["requests_per_second"], rel=0.5, abs=0.3)
    assert [text for text in page.all("footer span") if text.endswith("ms median latency")]


@pytest.mark.parametrize(
    ("status", "headers", "body", "said"),
    [
        (429, {"Retry-After": "7"}, "{}", "The server is busy. Try again in 7 seconds."),
        (429, {}, "{}", "The server is busy. Try again in a second."),
        (422, {}, '{"error": {"message": "the text is too long"}}', "The text is too long."),
        (502, {}, "<html>", "The server answered with status 502 and no reason."),
    ],
)
def test_refusals_are_said_in_words(page: Page, status: int, headers: dict[str, str], body: str, said: str) -> None:
    page.open("translate")
    page.tab.route("**/v1/translate", lambda route: route.fulfill(status=status, headers=headers, body=body))
    page.ask(Text="a cat")
    assert page.text(".result [role=alert]") == said
    page.wrong.clear()  # the browser notes every refusal


def test_the_servers_own_messages_are_shown(page: Page) -> None:
    page.open("classify").ask(Text="cat " * 2000)
    assert "characters" in page.text(".result [role=alert]") or "tokens" in page.text(".result [role=alert]")
    page.open("generate").ask(Prompt="a", New_tokens="5000")
    assert "max_length is 5,000" in page.text(".result [role=alert]")
    page.wrong.clear()
    for panel, said in (("translate", "Type a text to translate."), ("answer", "Type or paste the passage to read.")):
        page.open(panel).tab.locator(".run").click()
        assert page.text(".result [role=alert]") == said


def test_a_note_tells_of_a_text_that_was_cut(page: Page) -> None:
    page.open("search").ask(Query="cat " * 600, Lines="a cat")
    assert "cut to 400 tokens" in page.text(".result .note")


def test_an_answer_that_takes_long_can_be_stopped(page: Page) -> None:
    page.open("translate")
    page.tab.route("**/v1/translate", lambda _: None)  # no answer ever comes
    page.tab.get_by_label("Text", exact=True).fill("a cat")
    page.tab.locator(".run").click()
    page.tab.get_by_text("Stop").click()
    assert page.tab.locator(".result").get_attribute("aria-busy") is None
    assert page.text("#said") == "Stopped"
    page.tab.wait_for_timeout(200)
    assert page.tab.locator("[role=alert]").count() == 0


def test_a_server_that_has_gone_is_said(browser: Any, page: Page) -> None:
    page.open("translate")
    page.tab.route("**/v1/**", lambda route: route.abort())
    page.ask(Text="a cat")
    assert page.text(".result [role=alert]") == "The server does not answer. Is qkv serve still running?"
    page.tab.reload()
    page.tab.wait_for_selector("main [role=alert]")
    page.tab.unroute("**/v1/**")
    page.tab.get_by_text("Try again").click()
    page.tab.wait_for_selector("body[data-ready]")
    page.wrong.clear()


def test_a_model_that_could_not_be_loaded_says_why(browser: Any, page: Page) -> None:
    models = {
        "data": [
            {"id": "good", "state": "loaded", "verbs": ["fill"], "family": "bert"},
            {"id": "bad", "state": "failed", "verbs": [], "error": "no weights"},
        ]
    }
    page.tab.route("**/v1/models", lambda route: route.fulfill(json=models))
    page.tab.goto(page.url)
    page.tab.wait_for_selector("body[data-ready]")
    assert page.all("#model option") == ["good", "bad (failed)"]
    page.tab.select_option("#model", "bad")
    assert page.text("main") == "bad could not be loaded: no weights."


def test_models_that_are_being_loaded_are_waited_for(page: Page) -> None:
    loaded = {"id": "m", "state": "loaded", "verbs": ["fill"], "family": "bert"}
    answers = [{"data": [{"id": "m", "state": "loading", "verbs": []}]}, {"data": [loaded]}]
    page.tab.route("**/v1/models", lambda route: route.fulfill(json=answers.pop(0)))
    page.tab.goto(page.url)
    page.tab.wait_for_selector("text=m is being loaded")
    page.tab.wait_for_selector(".panel.fill")


def test_no_file_writes_markup_and_nothing_comes_from_elsewhere(server: Any) -> None:
    files = [file for file in WEB.rglob("*") if file.is_file()]
    assert len(files) > 20
    for file in files:
        text = file.read_text("utf-8")
        assert len(text.splitlines()) < 200, file
        for word in ("innerHTML", "outerHTML", "insertAdjacent", "eval(", "new Function", "cdn", "@import", "style="):
            assert word not in text, (file, word)
        if file.name != "frame.js":  # the frame of a look, in a sandbox
            assert "document.write" not in text
        links = [word for word in text.split() if "://" in word and "www.w3.org/2000/svg" not in word]
        assert links == [], file
    with httpx.Client(base_url=server.url) as client:
        for file in files:
            name = file.relative_to(WEB).as_posix()
            response = client.get("/" if name == "index.html" else f"/{name}")
            assert (response.status_code, response.content) == (200, file.read_bytes()), name
            if file.suffix == ".js":
                assert "javascript" in response.headers["content-type"]
