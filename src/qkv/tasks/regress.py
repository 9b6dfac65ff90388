"""Regression: one number per text or pair of texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean
from typing import Any, ClassVar

import numpy as np
import torch

from qkv.common.batch import Labelled
from qkv.data.bad_rows import BadRows
from qkv.data.examples import Rated
from qkv.data.labelled import rated
from qkv.data.store import Store
from qkv.evaluation.correlation import MeanSquaredError, Pearson, Spearman
from qkv.evaluation.prediction import Prediction
from qkv.objectives.classify import Regress
from qkv.tasks.base import Array, Collate, Context, Row, Trivial, has_head
from qkv.tasks.batches import CHUNK, gathered
from qkv.tasks.exam import Exam, Metric, chunks
from qkv.tasks.text_table import TextTableTask, columns


class RegressTask(TextTableTask):
    """One number per example, trained with squared error."""

    Settings: ClassVar[type[Any]] = Regress
    heads: ClassVar[tuple[str, ...]] = ("pool", "regress")
    has_numbers: ClassVar[bool] = True

    def examples(self, paths: Sequence[str], skipped: BadRows | None = None) -> Iterator[Rated]:
        """Read texts and numbers."""
        return rated(list(paths), **columns(self.data), bad=self.data.bad, skipped=skipped)

    def rows(self, examples: Iterable[Rated], context: Context) -> Iterator[Row]:
        """Tokenise texts and store the numbers."""
        for chunk in chunks(examples, CHUNK):
            for example, row in zip(chunk, self.encoded(chunk, context), strict=True):
                yield row | {"score": float(example.score)}

    def collate(self, store: Store, context: Context) -> Collate:
        """Gather texts and numbers."""
        del context

        def make(rows: Array, rng: np.random.Generator) -> Labelled:
            del rng
            return Labelled(gathered(store, rows), torch.from_numpy(store.gather("score", rows)[0].astype(np.float32)))

        return make

    @classmethod
    def can_score(cls, model: Any) -> bool:
        """Whether the model predicts a number."""
        return has_head(model, "regress")

    def metrics(self, exam: Exam) -> list[Metric]:
        """Return two correlations and the mean squared error."""
        del exam
        return [Pearson(), Spearman(), MeanSquaredError()]

    def predictions(self, exam: Exam) -> Iterator[Prediction]:
        """Predict the number of each text."""
        for example, said in self.classified(exam, exam.examples(self)):
            gold = float(example.score)
            yield Prediction(
                said=said,
                gold=gold,
                texts=tuple(self.texts(example)),
                where=example.where,
                answer=f"{said:.4g}",
                correct=f"{gold:.4g}",
                fault=abs(said - gold),
            )

    def trivial(self, exam: Exam, known: Iterable[Rated], *, trained: bool) -> dict[str, Trivial]:
        """Always predict the mean."""
        del exam, trained
        numbers = [float(example.score) for example in known]
        mean = fmean(numbers) if numbers else 0.0
        return {f"always the mean, {mean:.4g}": lambda _: mean}
