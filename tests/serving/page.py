"""The page in a real browser, with tiny models behind a real server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from qkv.common.pixels import ImageProcessor
from qkv.predict import Model
from tests.predict.conftest import make_translator
from tests.predict.readers import NER, make_reader
from tests.predict.test_look import make_vit
from tests.predict.writers import writer

HOSTILE = "<img src=x onerror=window.hacked=1>"
SHOTS = Path(__file__).parents[2] / "artefacts" / "page"  # what the page looks like, for people

# A model for each panel.
PANELS = {
    "translate": "translator",
    "classify": "reviews",
    "pairs": "reviews",
    "tag": "names",
    "answer": "reader",
    "fill": "words",
    "generate": "writer",
    "image": "pictures",
    "similar": "words",
    "search": "words",
    "look": "translator",
}


def write_models(place: Path) -> dict[str, Path]:
    """Write a tiny model for each panel; one of the labels is markup."""
    long = {"kind": "byte-bpe", "max_length": 400}
    vit = make_vit(num_labels=4)
    facts = {"processor": ImageProcessor(size=(24, 24)), "labels": ("ship", "car", "bird", HOSTILE)}
    models = {
        "translator": make_translator("transformer-tiny", kind="byte-bpe"),
        "reviews": make_reader("pool", "classify", labels=("good", HOSTILE), **long),
        "scores": make_reader("pool", "regress", labels=(), **long),
        "names": make_reader("tag", labels=NER, plain=True, **long),
        "reader": make_reader("span", **long),
        "words": make_reader("mlm", **long),
        "writer": writer(max_length=200),
        "pictures": Model(replace(vit.contents, **facts), device="cpu"),
    }
    for name, model in models.items():
        model.save(place / name)
    return {name: place / name for name in models}


@dataclass
class Page:
    """A tab with the page.

    Attributes:
        tab: of Playwright.
        wrong: everything that went wrong in it, and every request that left the server.
    """

    tab: Any
    url: str
    wrong: list[str] = field(default_factory=list)

    def open(self, panel: str, **values: str) -> Page:
        """Open a panel by its link, with values in its fields."""
        from urllib.parse import urlencode

        self.tab.goto("about:blank")
        self.tab.goto(f"{self.url}/#{urlencode({'panel': panel, 'model': PANELS[panel], **values})}")
        self.tab.wait_for_selector("body[data-ready]")
        return self

    def example(self, number: int = 0) -> Page:
        """Click an example, and wait for the answer."""
        self.tab.locator(".example").nth(number).click()
        return self.answered()

    def ask(self, **values: str) -> Page:
        """Type into fields by their labels, and press the button."""
        for label, value in values.items():
            self.tab.get_by_label(label.replace("_", " "), exact=True).fill(value)
        self.tab.locator(".run").click()
        return self.answered()

    def answered(self) -> Page:
        """Wait until the answer is there."""
        self.tab.wait_for_selector(".result:not([aria-busy])")
        return self

    def all(self, selector: str) -> list[str]:
        """Return the text of each element."""
        return [text.strip() for text in self.tab.locator(selector).all_text_contents()]

    def text(self, selector: str) -> str:
        """Return the text of an element."""
        return str(self.tab.locator(selector).first.text_content()).strip()


@contextmanager
def opened(browser: Any, url: str, *, width: int = 1200, scheme: str = "light") -> Iterator[Page]:
    """Open a tab, and close it again; nothing may have gone wrong in it."""
    tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = Page(tab, url)
    tab.on("request", lambda request: _foreign(page, request.url))
    tab.on("console", lambda message: page.wrong.append(message.text))
    tab.on("pageerror", lambda error: page.wrong.append(str(error)))
    tab.on("dialog", lambda dialog: page.wrong.append(dialog.message))
    try:
        yield page
        assert page.wrong == []
        assert tab.evaluate("window.hacked") is None
    finally:
        tab.close()


def _foreign(page: Page, url: str) -> None:
    if not url.startswith((page.url, "about:", "blob:")):
        page.wrong.append(url)
