"""Text that is safe to show on a terminal: what a terminal would obey instead of printing is written as an escape."""

from __future__ import annotations

import re

# C0 and C1 controls with ESC and DEL, line and paragraph separators, the bidirectional overrides, embeddings and
# isolates that reorder what follows (Boucher & Anderson 2021), and lone surrogates, which UTF-8 cannot hold.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_UNSAFE_IN_LINES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    r"""Return lines with their tabs and newlines, and every other control character as an escape such as \x1b."""
    return _UNSAFE_IN_LINES.sub(_escape, text)


def one_line(text: str) -> str:
    r"""Return a message as one line: tabs and newlines are written as \t and \n too."""
    return _UNSAFE.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")
