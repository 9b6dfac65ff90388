"""Regression: one number per text or pair of texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import torch

from qkv.common.batch import Labelled
from qkv.data.bad_rows import BadRows
from qkv.data.examples import Rated
from qkv.data.labelled import rated
from qkv.data.store import Store
from qkv.evaluation.correlation import MeanSquaredError, Pearson, Spearman
from qkv.evaluation.score import Score
from qkv.objectives.classify import Regress
from qkv.tasks.base import Array, Collate, Context, Row, has_head
from qkv.tasks.batches import CHUNK, gathered
from qkv.tasks.exam import Exam, chunks, graded
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

    def score(self, exam: Exam) -> list[Score]:
        """Score the number predicted for each text."""
        found = self.classified(exam, self.examples(exam.paths, exam.skipped))
        said = ((score, example.score) for example, score in found)
        return graded([Pearson(), Spearman(), MeanSquaredError()], said)
