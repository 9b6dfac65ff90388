"""Rules for a language model on a text: what is "auto" in the recipes tune-gpt and pretrain-gpt."""

from __future__ import annotations

from qkv.tasks.facts import Facts, Rule
from qkv.tasks.finetuning import rate
from qkv.tasks.pretraining_rules import CAUSAL, rules

LEAST, MOST = 512, 8192  # tokens of a batch
STEPS = 300
FEWEST, EPOCHS = 2, 10


def tokens(facts: Facts) -> int:
    """One hundredth of the text, between 512 and 8,192 tokens."""
    return int(min(MOST, max(LEAST, facts.total / 100)))


def epochs(facts: Facts) -> float:
    """As many as give 300 steps, but from 2 to 10."""
    steps_of_epoch = max(1.0, facts.total / tokens(facts))
    return round(min(EPOCHS, max(FEWEST, STEPS / steps_of_epoch)), 1)


def held_out(facts: Facts) -> float:
    """10 %, or 5 % from 100,000 tokens on."""
    return 0.1 if facts.total < 100_000 else 0.05


RULES: dict[str, Rule] = {
    **rules(CAUSAL),
    "optim.lr": rate(1e-4),
    "train.tokens": tokens,
    "train.epochs": epochs,
    "data.held_out": held_out,
}
