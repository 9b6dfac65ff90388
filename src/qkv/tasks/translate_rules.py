"""Rules for translation from scratch: what is "auto" in the recipe translate. All depend on the number of pairs."""

from __future__ import annotations

import math

from qkv.tasks.facts import Facts, Rule

FEW, MANY = 100_000, 500_000  # pairs


def vocab_size(facts: Facts) -> int:
    """60 · √pairs, between 2,000 and 16,000."""
    return _between(2000, round(60 * math.sqrt(facts.examples), -2), 16_000)


def steps(facts: Facts) -> int:
    """30 · √pairs, between 1,000 and 50,000."""
    return _between(1000, round(30 * math.sqrt(facts.examples), -2), 50_000)


def tokens(facts: Facts) -> int:
    """8,192, or 4,096 below 10,000 pairs."""
    return 8192 if facts.examples >= 10_000 else 4096


def dropout(facts: Facts) -> float:
    """0.3 below 100,000 pairs, 0.2 below 500,000, then 0.1."""
    return 0.3 if facts.examples < FEW else 0.2 if facts.examples < MANY else 0.1


def r_drop(facts: Facts) -> float:
    """3 below 500,000 pairs, then 0: with so much data, one pass over twice the pairs is better than two."""
    return 3.0 if facts.examples < MANY else 0.0


RULES: dict[str, Rule] = {
    "tokenizer.vocab_size": vocab_size,
    "model.set.dropout": dropout,
    "objective.r_drop": r_drop,
    "train.steps": steps,
    "train.tokens": tokens,
}


def _between(least: int, value: float, most: int) -> int:
    return int(min(most, max(least, value)))
