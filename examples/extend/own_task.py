"""Add your own task: are two sentences in the right order? (ALBERT's sentence-order objective, Lan et al. 2020).

Everything about the task is in this file. Run it: python examples/extend/own_task.py
A recipe can use it too: task = "own_task:SentenceOrderTask", if you run qkv in this folder.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import qkv
from qkv.common.batch import Labelled
from qkv.data.bad_rows import BadRows
from qkv.data.documents import documents
from qkv.data.store import Store
from qkv.evaluation.classification import Accuracy
from qkv.evaluation.prediction import Prediction
from qkv.exams.evaluate import evaluate
from qkv.objectives.classify import Classify
from qkv.tasks.base import Array, Collate, Context, Row, Say, Task
from qkv.tasks.batches import column, gathered, limit_of
from qkv.tasks.exam import Exam, Metric, chunks
from qkv.tasks.predicted import label_prediction


@dataclass(frozen=True, kw_only=True)
class OrderSettings:
    """The table [objective].

    Attributes:
        smoothing: label smoothing.
    """

    smoothing: float = 0.0


@dataclass(frozen=True)
class Ordered:
    """Two sentences, in their original order or swapped."""

    first: str
    second: str
    swapped: bool


class SentenceOrderTask(Task):
    """Pairs of consecutive lines of a text, with every other pair swapped."""

    Settings: ClassVar[type[Any]] = OrderSettings
    heads: ClassVar[tuple[str, ...]] = ("pool", "classify")
    measured: ClassVar[bool] = True  # validation reports the accuracy, and the best one decides

    def examples(self, paths: Sequence[str], skipped: BadRows | None = None) -> Iterator[Ordered]:
        """Read pairs of lines."""
        lines = [document.text for document in documents(list(paths), bad=self.data.bad, skipped=skipped)]
        for number, (a, b) in enumerate(zip(lines[::2], lines[1::2], strict=False)):
            yield Ordered(b, a, True) if number % 2 else Ordered(a, b, False)

    def texts(self, example: Ordered) -> Iterable[str]:
        """Return the texts to train a tokenizer on."""
        return example.first, example.second

    def key(self, example: Ordered) -> str:
        """Return the key of the split: pairs of the same two sentences stay on one side."""
        return "\n".join(sorted(self.texts(example)))

    def survey(self, examples: Iterable[Ordered], say: Say) -> dict[str, Any]:
        """Return the labels, which do not depend on the data."""
        del examples, say
        return {"labels": ("in order", "swapped")}

    def rows(self, examples: Iterable[Ordered], context: Context) -> Iterator[Row]:
        """Tokenise pairs."""
        for chunk in chunks(examples, 1000):
            sides = [[e.first for e in chunk], [e.second for e in chunk]]
            found = context.text.encode(*sides, max_length=limit_of(context, self.data.max_length))
            for example, ids, segments in zip(chunk, found.ids, found.segments, strict=True):
                yield {"ids": ids, "segments": segments, "label": int(example.swapped)}

    def collate(self, store: Store, context: Context) -> Collate:
        """Gather pairs and labels."""
        del context

        def make(rows: Array, rng: np.random.Generator) -> Labelled:
            del rng
            return Labelled(gathered(store, rows), column(store, "label", rows))

        return make

    def objective(self) -> Classify:
        """Return cross-entropy over the two orders."""
        return Classify(smoothing=self.settings.smoothing)

    def metrics(self, exam: Exam) -> list[Metric]:
        """Return the accuracy."""
        del exam
        return [Accuracy()]

    def predictions(self, exam: Exam) -> Iterator[Prediction]:
        """Ask the model about each pair."""
        for chunk in exam.chunks(exam.examples(self)):
            found = exam.model.classify([e.first for e in chunk], [e.second for e in chunk])
            for label, example in zip(found, chunk, strict=True):
                right = "swapped" if example.swapped else "in order"
                yield label_prediction(label.label, label.score, right, texts=(example.first, example.second), where="")


def main() -> None:
    """Train on a text with numbered sentences."""
    with tempfile.TemporaryDirectory() as place:
        text = Path(place) / "text.txt"
        lines = [f"{'first' if n % 2 == 0 else 'then'} comes number {n // 2}" for n in range(600)]
        text.write_text("\n".join(lines) + "\n")
        changes = {"data.train": str(text), "model.preset": "bert-tiny", "out": f"{place}/run", "optim.lr": 2e-3}
        sizes = {
            "model.set": {"dim": 32, "num_heads": 2, "ff_dim": 64},
            "tokenizer.vocab_size": 200,
            "train.tokens": 256,
        }
        qkv.train(
            "classify",
            task=SentenceOrderTask,
            changes={**changes, **sizes, "train.epochs": 8},
            device="cpu",
        )
        model = qkv.load(f"{place}/run", device="cpu")
        (accuracy,) = evaluate(model, [str(text)], task=SentenceOrderTask)
        print(f"order accuracy {accuracy.value:.3f} on {accuracy.count} pairs")


if __name__ == "__main__":
    main()
