"""Rules for tasks as text: what is "auto" in the recipe text-to-text."""

from __future__ import annotations

import math

from qkv.tasks import finetuning
from qkv.tasks.facts import Facts, Rule

FEW = 10_000  # examples


def tokens(facts: Facts) -> int:
    """4,096 tokens of sources and targets below 10,000 examples, then 8,192."""
    return 8192 if facts.examples >= FEW else 4096


def steps(facts: Facts) -> int:
    """30 · √examples, between 1,000 and 50,000; half of it, at least 500, from trained weights."""
    most = int(min(50_000, max(1000, round(30 * math.sqrt(facts.examples), -2))))
    return max(500, most // 2) if facts.pretrained else most


# From random weights, 250 steps on the phrasebook ended with a loss of 3.15 with 2e-3 and 3.17 with 5e-3. From trained
# ones, the rates are those that are usual for T5 with AdamW (3e-4 for t5-small); no others were compared.
def lr(facts: Facts) -> float:
    """4e-4 · 384 / the width of the model from trained weights, 2e-3 from random ones."""
    return float(finetuning.rate(4e-4)(facts)) if facts.pretrained else 2e-3


RULES: dict[str, Rule] = {
    "optim.lr": lr,
    "train.steps": steps,
    "train.tokens": tokens,
    "train.keep_best": finetuning.keep_best,
    "data.held_out": finetuning.held_out,
}
