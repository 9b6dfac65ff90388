"""Print text safely on a terminal, with control characters escaped."""

from __future__ import annotations

import re
import sys

# C0 and C1 controls with ESC and DEL, line and paragraph separators, bidirectional overrides, embeddings and isolates,
# which reorder text (Boucher & Anderson 2021), and lone surrogates, which UTF-8 cannot encode.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_UNSAFE_IN_LINES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    r"""Escape all control characters except tabs and newlines, for example as \x1b."""
    return _UNSAFE_IN_LINES.sub(_escape, text)


def one_line(text: str) -> str:
    r"""Escape all control characters, including tabs and newlines as \t and \n, so that a message fits on one line."""
    return _UNSAFE.sub(_escape, text)


def to_standard_error(line: str) -> None:
    """Print a line for the user where nothing else listens to the progress of a run."""
    sys.stderr.write(visible(line) + "\n")


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")
