"""Entity tags: IOB1 and BIOES become IOB2, and IOB2 becomes spans.

    words   Ada  Lovelace  met  Mary  in  New    York
    IOB1    I-P  I-P       O    I-P   O   I-L    I-L      B- only between adjacent entities of one type
    IOB2    B-P  I-P       O    B-P   O   B-L    I-L      B- at the start of every entity
    BIOES   B-P  E-P       O    S-P   O   B-L    E-L      E- at the end, S- for a single word (BILOU: L-, U-)

Tags without prefixes (parts of speech) are plain and stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from qkv.common.errors import unknown
from qkv.data.bad_rows import BadRow

PREFIXES = {"IOB1": "BI", "IOB2": "BI", "BIOES": "BIESLU"}
SCHEMES = (*PREFIXES, "plain")
PREFIXED = re.compile(r"([BIESLU])-(.+)", re.DOTALL)
IOB2 = {"S": "B", "U": "B", "E": "I", "L": "I"}  # the letters of BIOES and BILOU


def to_iob2(tags: Sequence[str], scheme: str) -> tuple[str, ...]:
    """Convert the tags of a sentence; a tag that the scheme does not allow raises a `BadRow` that names the word."""
    if scheme not in SCHEMES:
        raise unknown("scheme", scheme, SCHEMES)
    if scheme == "plain":
        return tuple(tags)
    result = []
    current: str | None = None  # the entity that the next word may continue
    for place, tag in enumerate((*tags, "O"), 1):  # the last O closes the sentence
        prefix, name = _parts(tag, scheme, place)
        inside = prefix in ("I", "E") and name == current
        if prefix in ("I", "E") and not inside and scheme != "IOB1":
            raise BadRow(f"the tag {tag!r} of word {place} continues no entity, which {scheme} does not allow")
        if scheme == "BIOES" and current is not None and not inside:
            raise BadRow(f"the entity {current!r} up to word {place - 1} has no end tag, which BIOES does not allow")
        result.append("O" if name is None else f"{'I' if inside else 'B'}-{name}")
        current = None if prefix in ("E", "S") else name
    return tuple(result[:-1])


def spans_of(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """Return the label, the first and the last word of each entity in IOB2 tags.

    An I- that continues no entity starts one, as in conlleval and seqeval: a model may predict it.
    """
    spans: list[tuple[str, int, int]] = []
    for place, tag in enumerate(tags):
        prefix, _, name = tag.partition("-")
        if prefix not in ("B", "I") or not name:
            continue
        if prefix == "I" and spans and spans[-1][0] == name and spans[-1][2] == place - 1:
            spans[-1] = (name, spans[-1][1], place)
        else:
            spans.append((name, place, place))
    return spans


def detect_scheme(sentences: Iterable[Sequence[str]]) -> str:
    """Detect the scheme of many sentences.

    One E-, S-, L- or U- means BIOES. One I- that continues no entity means IOB1, which also reads valid IOB2 correctly.
    """
    found: set[str] = set()
    for tags in sentences:
        before = None
        for tag in tags:
            match = PREFIXED.fullmatch(tag)
            prefix, name = match.groups() if match else ("O" if tag == "O" else "other", None)
            found.add("start" if prefix == "I" and name != before else prefix)
            before = name
    if not found & {*"BIESLU", "start"} or ("other" in found and "O" not in found):
        return "plain"
    if found & set("ESLU"):
        return "BIOES"
    return "IOB1" if "start" in found else "IOB2"


def check_scheme(scheme: str | None) -> None:
    """Raise for an unknown scheme; None means to detect it."""
    if scheme is not None and scheme not in SCHEMES:
        raise unknown("scheme", scheme, SCHEMES)


def _parts(tag: str, scheme: str, place: int) -> tuple[str, str | None]:
    """Return the prefix, with BILOU mapped to BIOES, and the entity type."""
    if tag == "O":
        return "O", None
    match = PREFIXED.fullmatch(tag)
    if not match or match[1] not in PREFIXES[scheme]:
        allowed = ", ".join(f"{prefix}-NAME" for prefix in PREFIXES[scheme])
        raise BadRow(f"the tag {tag!r} of word {place} is not {scheme} (allowed: O, {allowed})")
    return {"L": "E", "U": "S"}.get(match[1], match[1]), match[2]


def iob2(label: str) -> str:
    """Write the tags of other schemes as IOB2."""
    found = PREFIXED.fullmatch(label)
    return f"{IOB2.get(found[1], found[1])}-{found[2]}" if found else label
