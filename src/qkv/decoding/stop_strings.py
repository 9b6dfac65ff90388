"""Stop strings: a text ends where one of them begins, wherever the borders of its tokens are."""

from __future__ import annotations

from collections.abc import Sequence

from qkv.common.errors import UsageError


class StopStrings:
    r"""A text that grows until it holds a stop string.

    Its end is held back while it may be the beginning of a stop string, so that no part of one is ever shown:

        stop "\n\n"     "One."  "\n"  "Two."  "\n"  "\nThree"
        shown           "One."  ""    "\nTwo."  ""    ""          stopped

    Attributes:
        text: the whole text so far, without the stop string.
        stopped: whether a stop string was found.
    """

    def __init__(self, stops: Sequence[str] = ()) -> None:
        self.stops, self.text, self.stopped = check_stops(stops), "", False
        self._shown = 0
        self._longest = max(map(len, self.stops), default=1)

    def add(self, piece: str) -> str:
        """Append to the text, and return what can be shown of it that was not shown before."""
        start = max(0, len(self.text) - self._longest + 1)
        self.text += piece
        found = [place for stop in self.stops if (place := self.text.find(stop, start)) >= 0]
        if found:
            self.stopped, self.text = True, self.text[: min(found)]
        return self._show(len(self.text) if found else len(self.text) - self._begun())

    def close(self) -> str:
        """Return what was held back, because no stop string followed."""
        return self._show(len(self.text))

    def _show(self, end: int) -> str:
        start, self._shown = self._shown, end
        return self.text[start:end]

    def _begun(self) -> int:
        """Return how many characters at the end of the text are the beginning of a stop string."""
        for size in range(min(self._longest - 1, len(self.text)), 0, -1):
            end = self.text[-size:]
            if any(stop.startswith(end) for stop in self.stops):
                return size
        return 0


def check_stops(stops: Sequence[str]) -> tuple[str, ...]:
    """Return stop strings; raise an error if one is empty, or if they are not a list."""
    if isinstance(stops, str):
        raise UsageError("stop takes a list of strings; put a single one in a list")
    if not all(stops):
        raise UsageError("a stop string is empty: every text contains it")
    return tuple(stops)
