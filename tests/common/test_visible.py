"""Text for a terminal: what a terminal obeys is escaped, everything else stays."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.common.terminal import one_line, visible

BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


@given(st.text(st.characters(codec=None)))  # type: ignore[arg-type]
def test_nothing_that_a_terminal_obeys_is_left(text):
    lines, line = visible(text), one_line(text)
    assert all(unicodedata.category(c) not in ("Cc", "Cs") or c in "\t\n" for c in lines)
    assert all(unicodedata.category(c) not in ("Cc", "Cs") for c in line)
    assert not set(BIDI) & set(lines + line)
    lines.encode()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b]0;title\x07", r"\x1b[31mred\x1b]0;title\x07"),
        ("a\x9b2Jb\x7f\r", r"a\x9b2Jb\x7f\r"),
        ("evil\u202etxt.exe", r"evil\u202etxt.exe"),
        ("caf\udce9", r"caf\udce9"),
        ("two\tcells\nlines", "two\tcells\nlines"),
        ("שלום\u200f été 日本 👩\u200d🚀", "שלום\u200f été 日本 👩\u200d🚀"),
    ],
)
def test_escapes(text, shown):
    assert visible(text) == shown


def test_a_message_is_one_line():
    assert one_line("a\nb\tc") == r"a\nb\tc"
