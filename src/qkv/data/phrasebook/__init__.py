"""An English-French corpus written by a small bilingual grammar: a translator can be trained with no file at all.

    words       the lexicon
    forms       elision, contraction, agreement
    phrases     noun phrases and pronouns
    clauses     a verb and what belongs to it, said in both languages
    actions     what can happen
    sentences   statements, questions, two clauses in one

English to French is a function: "you" is tu unless someone is called at the end (", sir"), "it" and "them" take their
gender from a noun said before, "I" is a man. So a perfect translator scores 100 BLEU.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator

from qkv.common.errors import UsageError
from qkv.data.phrasebook.dice import Dice
from qkv.data.phrasebook.forms import capital, english_text, french_text
from qkv.data.phrasebook.sentences import KINDS

Pair = tuple[str, str]
SHORTEST, LONGEST = 3, 16  # words
PARTS = ("train",) * 18 + ("valid", "test")


def sentence(rng: random.Random) -> Pair:
    """Draw a sentence in English and its translation into French."""
    while True:
        dice = Dice(rng)
        (english, french), mark = dice.pick(KINDS)(dice)
        calls, appels = dice.call()
        said, dit = capital(english_text((*english, *calls))), capital(french_text((*french, *appels)))
        if all(SHORTEST <= len(text.split()) <= LONGEST for text in (said, dit)):
            return said + mark, dit + (" ?" if mark == "?" else mark)  # French sets its question mark apart


def phrasebook(count: int, seed: int) -> Iterator[Pair]:
    """Draw pairs; a short one may come again."""
    rng = random.Random(seed)
    for _ in range(count):
        yield sentence(rng)


def split(count: int, seed: int, held_out: int) -> tuple[list[Pair], list[Pair], list[Pair]]:
    """Draw different pairs: `count` to train on, `held_out` each to validate and to test; no side is in two lists.

    What is held out depends on the seed alone, not on `count`.
    """
    if min(count, held_out) < 0:
        raise UsageError(f"the phrasebook gives 0 or more sentences, not {min(count, held_out)}")
    wanted = {"train": count, "valid": held_out, "test": held_out}
    found: dict[str, dict[str, str]] = {name: {} for name in wanted}
    rng = random.Random(seed)
    while any(len(found[name]) < size for name, size in wanted.items()):
        english, french = sentence(rng)
        name = part(french)
        if len(found[name]) < wanted[name]:
            found[name][english] = french
    train, valid, test = (list(pairs.items()) for pairs in found.values())
    return train, valid, test


def part(french: str) -> str:
    """Name the part a pair belongs to, whoever draws it: equal English has equal French, and so the same part."""
    return PARTS[zlib.crc32(french.encode()) % len(PARTS)]
