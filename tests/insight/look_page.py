"""The page of a look in a browser: opened, and asked what it shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.browser import watched


def opened(browser: Any, file: Path, *, width: int = 1200, scheme: str = "light") -> tuple[Any, list[str]]:
    """Open a page and wait until it is drawn; gives it and everything that went wrong, or that it tried to load."""
    tab, seen = watched(browser, width, scheme)
    tab.goto(file.as_uri())
    drawn(tab)
    return tab, [line for line in seen if line != file.as_uri()]


def drawn(tab: Any) -> None:
    tab.wait_for_selector("body[data-ready]")
    tab.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 30))))")


def picture(tab: Any, section: str) -> str:
    drawn(tab)
    return str(tab.evaluate(f"document.querySelector('#{section} canvas').toDataURL()"))


def changes(tab: Any, act: Any, *sections: str) -> list[bool]:
    """Tell of some pictures whether an act changes them."""
    before = [picture(tab, section) for section in sections]
    act()
    return [picture(tab, section) != old for section, old in zip(sections, before, strict=True)]


def said(tab: Any, section: str) -> str:
    return str(tab.locator(f"#{section} .said").inner_text())


def percent(value: Any) -> str:
    share = float(value)
    return f"{round(100 * share)} %" if share >= 0.0995 else f"{100 * share:.1f} %"
