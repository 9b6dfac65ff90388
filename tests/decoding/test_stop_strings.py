"""Stop strings: found wherever the pieces are cut, never shown, and nothing else is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.common.errors import UsageError
from qkv.decoding.stop_strings import StopStrings

LETTERS = st.text("ab\n", max_size=12)
STOPS = st.lists(st.text("ab\n", min_size=1, max_size=4), max_size=3)


def first_stop(text: str, stops: list[str]) -> int | None:
    """Where the text would have stopped: at the first character that completes a stop string."""
    for end in range(len(text) + 1):
        found = [end - len(stop) for stop in stops if text[:end].endswith(stop)]
        if found:
            return min(found)
    return None


@given(pieces=st.lists(LETTERS, max_size=6), stops=STOPS)
def test_letters_one_by_one_stop_where_the_first_string_is_complete(pieces: list[str], stops: list[str]) -> None:
    whole, seen, shown = "".join(pieces), StopStrings(stops), ""
    for letter in whole:
        if not seen.stopped:
            shown += seen.add(letter)
            assert not any(stop in shown for stop in stops)
    shown += seen.close()
    place = first_stop(whole, stops)
    assert shown == seen.text == (whole if place is None else whole[:place])
    assert seen.stopped == (place is not None)


@given(pieces=st.lists(LETTERS, max_size=6), stops=STOPS)
def test_longer_pieces_stop_before_every_stop_string(pieces: list[str], stops: list[str]) -> None:
    seen, shown = StopStrings(stops), ""
    for piece in pieces:
        if not seen.stopped:
            shown += seen.add(piece)
    shown += seen.close()
    assert "".join(pieces).startswith(shown)
    assert not any(stop in shown for stop in stops)
    assert seen.stopped == any(stop in "".join(pieces) for stop in stops)


def test_what_may_be_the_beginning_of_a_stop_string_is_held_back() -> None:
    seen = StopStrings(["\n\nQ:"])
    assert [seen.add(piece) for piece in ("One.", "\n", "Two.", "\n\n", "Q")] == ["One.", "", "\nTwo.", "", ""]
    assert seen.add("uiet") == "\n\nQuiet"
    assert (seen.add("\n\nQ:"), seen.stopped, seen.text) == ("", True, "One.\nTwo.\n\nQuiet")


def test_an_empty_stop_string_is_refused() -> None:
    with pytest.raises(UsageError, match="empty"):
        StopStrings(["x", ""])
    with pytest.raises(UsageError, match="list"):
        StopStrings("abc")
