"""Split a text into sentences without loss: the sentences and the spaces between them add up to the text.

A sentence ends at . ! ? … and similar marks, with closing quotes and brackets, before a space; Chinese and Japanese
full stops need no space. A line break always ends a sentence. A full stop does not after an initial, a common
abbreviation or the number of a day, and no mark does before a lower-case letter: a long sentence does less harm than
half a sentence.
"""

from __future__ import annotations

import re

# English, German, French, Spanish and Italian abbreviations that often precede a capital and are not words themselves.
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
    rf"(?<![{MARKS}])(?P<spaced>[{MARKS}]++[{CLOSING}]*+)(?=[^\S\r\n])"  # a mark, closing quotes or brackets, a space
    rf"|[{FULL_WIDTH}]++[{CLOSING}]*+"  # full-width marks need no space
    r"|(?=[\r\n])"  # a line break
)
_LAST_WORD = re.compile(r"[^\W_](?:[\w.'-]*[^\W_])?\Z")
_SPACE = re.compile(r"\s*")


def split_sentences(text: str) -> list[tuple[str, str]]:
    """Return each sentence and the white space after it; leading white space comes first as ("", space).

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
    """Return whether a sentence that begins at `start` ends at a mark."""
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
