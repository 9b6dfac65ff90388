"""Rules for a model that begins with random weights on a text: what is "auto" in the recipes for pre-training."""

from __future__ import annotations

import math
from collections.abc import Mapping

from qkv.tasks.facts import Facts, Rule

LONGEST, SHORTEST = 20_000, 500  # steps
# Reading a text more often teaches a model of the next token next to nothing new (Muennighoff et al. 2023). On 60 kB of
# Shakespeare, a GPT of 0.4 million weights validated best after 23 passes and grew worse from there.
CAUSAL = 40
# Where other tokens are hidden in each pass, 64 passes cost T5 nothing and 256 little (Raffel et al. 2020, table 9).
MASKED = 100
# The curve of translation, 60 · √pairs, for pairs of 30 tokens.
WORDS, FEWEST, MOST = 11, 2000, 30_000
PIECES = 3  # for each character: alone, as a continuation, and one to begin to learn words with


def vocab_size(facts: Facts) -> int:
    """11 · √tokens, at least 2,000 and 3 for each character that the text has, at most 30,000."""
    return int(min(MOST, max(FEWEST, PIECES * facts.characters, round(WORDS * math.sqrt(facts.total), -2))))


def keep_best(facts: Facts) -> bool:
    """True: a small text is soon learned by heart."""
    del facts
    return True


def steps_of(passes: int) -> Rule:
    """Return the rule for the number of steps that read a text at most so many times."""

    def steps(facts: Facts) -> int:
        return int(min(LONGEST, max(SHORTEST, math.ceil(passes * facts.total / facts.batch))))

    steps.__doc__ = f"{LONGEST:,}, or as many as read the text {passes} times, but at least {SHORTEST}."
    return steps


def rules(passes: int) -> Mapping[str, Rule]:
    """Return the rules of a task by key."""
    return {"tokenizer.vocab_size": vocab_size, "train.steps": steps_of(passes), "train.keep_best": keep_best}
