"""Rules for fine-tuning: what is "auto" in the recipes classify, pairs, regress, tag, answer and sentence-embeddings.

Each rule is one function of the measured facts, and its docstring states it; docs/recipes.md quotes them. To compare
other values on many data sets, from 30 examples to whole ones: `benchmarks/defaults.py run --try`.
"""

from __future__ import annotations

from collections.abc import Mapping

from qkv.tasks.facts import Facts, Rule

WIDTH = 384  # the width that learning rates are given for
SMALL, LARGE = 16, 32  # examples of a batch
MANY = 3000  # examples from which batches are large
STEPS = 500  # small data gets at least so many steps,
MOST_EPOCHS = 150  # unless that takes more epochs than this
LEAST_EPOCHS = 3
# 8 epochs against 3, from MiniLM, on the test sets of benchmarks/defaults.py, seeds 1 and 2: CoLA 27.3, 23.9 and 24.5,
# 20.4; SST-2 88.6, 89.2 and 88.4, 88.4; STS-B 83.7, 83.7 and 83.3, 83.2; MRPC 78.3, 77.9 and 79.9, 76.4; uneven SST-2
# 65.6, 65.6 and 55.3, 55.0. Larger sets were not tried, so they keep 3.
MORE_STEPS, MORE_EPOCHS = 3500, 8
UNEVEN = 3  # classes are imbalanced if the largest has this many times the examples of the smallest


def batch(facts: Facts) -> int:
    """Return the number of examples of a batch."""
    return SMALL if facts.examples < MANY else LARGE


def tokens(facts: Facts) -> int:
    """16 examples of mean length, or 32 from 3,000 examples on; between 256 and 8,192 tokens."""
    return int(min(8192, max(256, batch(facts) * facts.length)))


def epochs(facts: Facts) -> float:
    """As many as give 3,500 steps, but from 3 to 8; more than 8 if that gives fewer than 500 steps, but at most 150."""
    steps_of_epoch = max(1.0, facts.examples * facts.length / tokens(facts))
    usual = min(MORE_EPOCHS, max(LEAST_EPOCHS, MORE_STEPS / steps_of_epoch))
    return round(min(MOST_EPOCHS, max(usual, STEPS / steps_of_epoch)), 1)


def held_out(facts: Facts) -> float:
    """5 %, or as much as gives 50 examples, but at most 10 %."""
    return round(min(0.1, max(0.05, 50 / max(1, facts.examples))), 3)


def keep_best(facts: Facts) -> bool:
    """True if there are at least 100 validation examples: the best of a few is chance."""
    return (facts.valid or held_out(facts) * facts.examples) >= 100


def balance(facts: Facts) -> bool:
    """True if the largest class has at least three times the examples of the smallest."""
    return len(facts.classes) > 1 and max(facts.classes.values()) >= UNEVEN * min(facts.classes.values())


def rate(at_width: float) -> Rule:
    """Return the rule for a learning rate that is right for a model of width 384."""

    def lr(facts: Facts) -> float:
        return float(f"{at_width * WIDTH / facts.dim:.2g}")

    lr.__doc__ = f"{at_width:g} · 384 / the width of the model."
    return lr


def rules(lr: float) -> Mapping[str, Rule]:
    """Return the rules of a fine-tuning task by key."""
    return {
        "optim.lr": rate(lr),
        "train.tokens": tokens,
        "train.epochs": epochs,
        "train.keep_best": keep_best,
        "data.held_out": held_out,
    }
