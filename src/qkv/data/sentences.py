"""A text cut into sentences, with nothing lost: sentences and the spaces between them are the text again.

A sentence ends at . ! ? … and their kin, with the quotes and brackets that close there, before a space; the full stops
of Chinese and Japanese need no space. A line break always ends one. A full stop ends none after an initial, a usual
abbreviation or a day's number, and no mark ends one before a small letter: better a sentence too long than a half.
"""

from __future__ import annotations

import re

# Of English, German, French, Spanish and Italian: those that a capital letter often follows, and that are no words.
_SHORT = (
    "mr mrs dr prof rev hon sr jr st col capt lt sgt cmdr adm gov sen messrs mme mlle "
    "vs etc cf approx dept figs vol vols pp eds jan feb apr aug sept oct nov dec inc ltd corp bros blvd "
    "hr hrn nr bzw usw vgl ggf evtl inkl zzgl bzgl hrsg jh jhd mio mrd tel abt "
    "e.g i.e a.m p.m u.s u.k u.n ph.d z.b d.h u.a o.ä v.a s.o s.u u.s.w i.d.r n.chr v.chr p.ex c.-à-d "
    "ud uds sra srta núm pág dra dott avv"
)
ABBREVIATIONS = frozenset(_SHORT.split())
MARKS = ".!?…‽؟۔।॥።՞։"  # noqa: RUF001
FULL_WIDTH = "。！？｡"  # noqa: RUF001
CLOSING = "\"'”’»›)\\]}」』】）"  # noqa: RUF001

_END = re.compile(
    rf"(?<![{MARKS}])(?P<spaced>[{MARKS}]++[{CLOSING}]*+)(?=[^\S\r\n])"  # a mark, what closes, and a space
    rf"|[{FULL_WIDTH}]++[{CLOSING}]*+"  # full width marks stand without spaces
    r"|(?=[\r\n])"  # a line break
)
_LAST_WORD = re.compile(r"[^\W_](?:[\w.'-]*[^\W_])?\Z")
_SPACE = re.compile(r"\s*")


def split_sentences(text: str) -> list[tuple[str, str]]:
    """Return each sentence and the white space after it; a text that begins with white space begins with ("", space).

    `"".join(sentence + space for sentence, space in split_sentences(text)) == text`, whatever the text.
    """
    found: list[tuple[str, str]] = []
    start = len(text) - len(text.lstrip())
    if start:
        found.append(("", text[:start]))
    for end in _END.finditer(text):
        if end.end() <= start or not _ends(text, start, end):
            continue
        after = _space_after(text, end.end())
        sentence = text[start : end.end()].rstrip()
        found.append((sentence, text[start + len(sentence) : after]))
        start = after
    if start < len(text):
        last = text[start:].rstrip()
        found.append((last, text[start + len(last) :]))
    return found


def _ends(text: str, start: int, end: re.Match[str]) -> bool:
    """Tell whether a sentence that began at `start` ends at a mark."""
    if end["spaced"] is None:
        return True
    after = _space_after(text, end.end())
    following = text[after : after + 1]
    if following.islower():
        return False
    word = _LAST_WORD.search(text, max(start, end.start() - 20), end.start()) if end["spaced"] == "." else None
    if word is None:
        return True
    last = word.group()
    initial = len(last) == 1 and last.isupper() and last != "I"
    day = last.isdecimal() and len(last) <= 2 and following.isalpha()
    return not (initial or day or last.casefold() in ABBREVIATIONS)


def _space_after(text: str, place: int) -> int:
    found = _SPACE.match(text, place)
    return found.end() if found else place
