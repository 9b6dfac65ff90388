"""Rules for a language model on a text: what is "auto" in the recipes tune-gpt and pretrain-gpt."""

from __future__ import annotations

import math

from qkv.tasks.facts import Facts, Rule
from qkv.tasks.finetuning import rate

LEAST, MOST = 512, 8192  # tokens of a batch
STEPS = 300
FEWEST, EPOCHS = 2, 10
# Reading a text more often teaches next to nothing new (Muennighoff et al. 2023). On 60 kB of Shakespeare, a GPT of
# 0.4 million weights validated best after 23 passes and grew worse from there.
PASSES = 40
LONGEST, SHORTEST = 20_000, 500  # steps from random weights


def tokens(facts: Facts) -> int:
    """One hundredth of the text, between 512 and 8,192 tokens."""
    return int(min(MOST, max(LEAST, facts.total / 100)))


def epochs(facts: Facts) -> float:
    """As many as give 300 steps, but from 2 to 10."""
    steps_of_epoch = max(1.0, facts.total / tokens(facts))
    return round(min(EPOCHS, max(FEWEST, STEPS / steps_of_epoch)), 1)


def steps(facts: Facts) -> int:
    """20,000, or as many as read the text 40 times, but at least 500."""
    return int(min(LONGEST, max(SHORTEST, math.ceil(PASSES * facts.total / facts.batch))))


def keep_best(facts: Facts) -> bool:
    """True: a small text is soon learned by heart."""
    del facts
    return True


def held_out(facts: Facts) -> float:
    """10 %, or 5 % from 100,000 tokens on."""
    return 0.1 if facts.total < 100_000 else 0.05


RULES: dict[str, Rule] = {
    "optim.lr": rate(1e-4),
    "train.tokens": tokens,
    "train.epochs": epochs,
    "train.steps": steps,
    "train.keep_best": keep_best,
    "data.held_out": held_out,
}
