"""Regression: one number per text or pair of texts.

With `objective.standardize`, the model learns numbers with mean 0 and standard deviation 1. The scale is part of the
head that is saved, so that a model folder predicts numbers on their own scale and needs nothing else.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from qkv.checkpoints.folder import Folder
from qkv.common.batch import Labelled
from qkv.data.bad_rows import BadRows
from qkv.data.examples import Rated
from qkv.data.labelled import rated
from qkv.data.store import Store
from qkv.evaluation.correlation import MeanSquaredError, Pearson, Spearman
from qkv.evaluation.prediction import Prediction
from qkv.objectives.classify import Regress
from qkv.objectives.teacher import Teacher
from qkv.tasks import finetuning
from qkv.tasks.base import Array, Collate, Context, Row, Say, Trivial, has_head
from qkv.tasks.batches import CHUNK, gathered
from qkv.tasks.exam import Exam, Metric, chunks
from qkv.tasks.facts import Rule
from qkv.tasks.text_table import TextTableTask, columns


class RegressTask(TextTableTask):
    """One number per example, trained with squared error."""

    distilled_by: ClassVar[str] = "regress"
    rules: ClassVar[Mapping[str, Rule]] = finetuning.rules(lr=1.2e-4)
    measured: ClassVar[bool] = True
    Settings: ClassVar[type[Any]] = Regress
    heads: ClassVar[tuple[str, ...]] = ("pool", "regress")
    has_numbers: ClassVar[bool] = True

    def examples(self, paths: Sequence[str], skipped: BadRows | None = None) -> Iterator[Rated]:
        """Read texts and numbers."""
        return rated(list(paths), **columns(self.data), bad=self.data.bad, skipped=skipped)

    def survey(self, examples: Iterable[Rated], say: Say) -> dict[str, Any]:
        """Find the mean and the standard deviation of the numbers, to standardise them."""
        if not self.settings.standardize:
            return {"mean": 0.0, "std": 1.0}
        numbers = np.array([example.score for example in examples], np.float64)
        mean, std = (float(numbers.mean()), float(numbers.std())) if len(numbers) else (0.0, 0.0)
        if not std > 0:
            say(f"all {len(numbers)} rows have the number {mean:g}, so there is nothing to learn; is data.label right?")
        else:
            say(f"numbers have mean {mean:.4g} and standard deviation {std:.4g}")
        return {"mean": mean, "std": std if std > 0 else 1.0}

    def load_start(self, model: nn.Module, start: Folder, path: Path, context: Context) -> None:
        """Copy the weights; a head that predicts numbers is brought to the scale of training."""
        super().load_start(model, start, path, context)
        if "regress" in getattr(start.config, "heads", ()):
            mean, std = context.facts["mean"], context.facts["std"]
            _rescale(model, 1 / std, -mean / std)

    def teacher(self, found: Folder, name: str, context: Context) -> Teacher:
        """Return a teacher whose numbers are on the scale of training."""
        teacher = super().teacher(found, name, context)
        mean, std = context.facts["mean"], context.facts["std"]
        _rescale(teacher.model, 1 / std, -mean / std)
        return teacher

    def saved(self, model: nn.Module, config: Any, context: Context) -> dict[str, tuple[Any, Any]]:
        """Return a copy of the model whose head predicts numbers on their own scale."""
        scaled = copy.deepcopy(model)
        _rescale(scaled, context.facts["std"], context.facts["mean"])
        return {"": (config, scaled)}

    def rows(self, examples: Iterable[Rated], context: Context) -> Iterator[Row]:
        """Tokenise texts and store the numbers."""
        for chunk in chunks(examples, CHUNK):
            for example, row in zip(chunk, self.encoded(chunk, context), strict=True):
                yield row | {"score": float(example.score)}

    def collate(self, store: Store, context: Context) -> Collate:
        """Gather texts and standardised numbers; without a survey, as for a saved model, on their own scale."""
        mean, std = context.facts.get("mean", 0.0), context.facts.get("std", 1.0)

        def make(rows: Array, rng: np.random.Generator) -> Labelled:
            del rng
            numbers = (store.gather("score", rows)[0] - mean) / std
            return Labelled(gathered(store, rows), torch.from_numpy(numbers.astype(np.float32)))

        return make

    def blank(self, text: str, second: str | None, where: str) -> Rated:
        """Return an example without a number."""
        return Rated(text, second, math.nan, where)

    def answered(self, examples: Sequence[Any], model: Any, labels: Sequence[str]) -> Iterator[Rated]:
        """Predict the number of each text, on its own scale."""
        del labels
        for example, found in zip(examples, self.said(model, examples), strict=True):
            yield replace(example, score=float(found))

    def answer(self, example: Rated) -> float:
        """Return the number."""
        return example.score

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


@torch.no_grad()
def _rescale(model: nn.Module, scale: float, shift: float) -> None:
    """Make the head predict scale · x + shift instead of x."""
    head: Any = model.get_submodule("heads.regress.linear")
    head.weight.mul_(scale)
    head.bias.mul_(scale).add_(shift)
