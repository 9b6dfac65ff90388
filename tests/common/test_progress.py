"""The bar, on a terminal that is one and on a file that is none."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr

import pytest

from qkv.common import progress
from qkv.common.progress import Bar
from tests.common.terminal import terminal


@pytest.fixture(autouse=True)
def _draw_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PAUSE", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")


def test_a_terminal_shows_the_count_and_is_clean_afterwards() -> None:
    with terminal() as screen, Bar("reading", total=8, done=2) as bar:
        assert list(bar.each("abc")) == ["a", "b", "c"]
        bar.at(6, "fast [bold]")
    assert "reading" in screen.seen
    assert "6/8" in screen.seen
    assert "fast [bold]" in screen.seen
    assert screen.seen.endswith("\x1b[2K")  # the last thing that happens to the line is that it is cleared
    assert screen.answer == ""


def test_an_unknown_total_is_counted_all_the_same() -> None:
    with terminal() as screen, Bar("reading") as bar:
        bar.add(5)
        bar.add(7)
    assert "12/?" in screen.seen


def test_lines_are_said_above_the_bar_and_answers_pass() -> None:
    with terminal() as screen, Bar("reading", total=2) as bar:
        bar.say("half :smile: [way]")
        sys.stdout.write("an answer\n")
    assert "half :smile: [way]" in screen.seen
    assert screen.answer == "an answer\n"


@pytest.mark.parametrize("long", [True, False])
def test_a_file_gets_lines_but_no_bar(long: bool) -> None:
    file = io.StringIO()
    with redirect_stderr(file), Bar("reading", total=8, long=long) as bar:
        bar.add(8)
        bar.say("done")
    assert file.getvalue() == "done\n"
    assert bar.done == 8
    assert not bar.shown


def test_short_work_shows_nothing_on_a_terminal_either() -> None:
    with terminal() as screen, Bar("reading", total=8, long=False) as bar:
        bar.add(8)
        bar.say("done")
    assert screen.seen.strip() == "done"


def test_counting_does_not_draw_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PAUSE", 3600.0)
    drawn: list[int] = []
    with terminal(), Bar("reading") as bar:
        monkeypatch.setattr(bar._bar, "update", lambda *_, completed, **__: drawn.append(completed))
        for _ in bar.each(range(10_000)):
            pass
    assert drawn[-1] == 10_000
    assert len(drawn) <= 2
