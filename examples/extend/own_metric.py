"""Add your own metric: balanced accuracy, the mean recall over the classes.

Run it: python examples/extend/own_metric.py
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import qkv
from qkv.evaluation.score import Score
from qkv.exams.evaluate import evaluate
from qkv.tasks.classify import ClassifyTask
from qkv.tasks.exam import Exam, Metric


class BalancedAccuracy:
    """`add` takes a prediction and the correct answer; `result` returns the score so far."""

    def __init__(self) -> None:
        self.hits: Counter[str] = Counter()
        self.total: Counter[str] = Counter()

    def add(self, said: str, right: str) -> None:
        """Count one example."""
        self.total[right] += 1
        self.hits[right] += said == right

    def result(self) -> Score:
        """Return the mean recall. For a confidence interval, resample here (`qkv.evaluation.bootstrap`)."""
        value = sum(self.hits[name] / count for name, count in self.total.items()) / len(self.total)
        count = self.total.total()
        return Score(name="balanced-accuracy", value=value, low=value, high=value, count=count, signature="mean:recall")


class BalancedClassifyTask(ClassifyTask):
    """Classification with one more metric."""

    def metrics(self, exam: Exam) -> list[Metric]:
        """Return the usual metrics and balanced accuracy."""
        return [*super().metrics(exam), BalancedAccuracy()]


def main() -> None:
    """Score a classifier that was trained on imbalanced classes."""
    with tempfile.TemporaryDirectory() as place:
        table = Path(place) / "reviews.tsv"
        rows = [f"{'bad' if n % 5 == 0 else 'good'} film {n}\t{'neg' if n % 5 == 0 else 'pos'}" for n in range(200)]
        table.write_text("\n".join(["text\tlabel", *rows]) + "\n")
        changes = {"data.train": str(table), "model.preset": "bert-tiny", "out": f"{place}/run", "optim.lr": 5e-3}
        sizes = {
            "model.set": {"dim": 32, "num_heads": 2, "ff_dim": 64},
            "tokenizer.vocab_size": 200,
            "train.tokens": 256,
        }
        qkv.train("classify", changes={**changes, **sizes, "train.epochs": 10}, device="cpu")
        model = qkv.load(f"{place}/run", device="cpu")
        for score in evaluate(model, [str(table)], task=BalancedClassifyTask):
            print(f"{score.name} {score.value:.3f}")


if __name__ == "__main__":
    main()
