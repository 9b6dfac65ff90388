"""Metrics of a model with several tasks: each task by itself, and their average.

Predictions and correct answers are pairs of the name of a task and what its own metrics take.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from qkv.evaluation.bootstrap import middle
from qkv.evaluation.score import Score, around
from qkv.tasks.exam import Metric

PERCENT = ("BLEU", "chrF")  # metrics from 0 to 100


class OfPart:
    """A metric of one task; examples of other tasks do not count."""

    def __init__(self, part: str, metric: Metric) -> None:
        self.part, self._metric = part, metric
        self._count = 0

    def add(self, said: tuple[str, Any], right: tuple[str, Any]) -> None:
        """Add one example of any task."""
        if right[0] == self.part:
            self._metric.add(said[1], right[1])
            self._count += 1

    def result(self) -> Score:
        """Return the score under the name "task/metric"; nan without examples."""
        if not self._count:
            return Score(name=f"{self.part}/none", value=math.nan, low=math.nan, high=math.nan, count=0, signature="")
        score = self._metric.result()
        return replace(score, name=f"{self.part}/{score.name}")


class Average:
    """The mean over tasks of one metric each, from 0 to 1, as GLUE averages its tasks."""

    def __init__(self, metrics: Sequence[OfPart]) -> None:
        self._metrics = metrics

    def add(self, said: tuple[str, Any], right: tuple[str, Any]) -> None:
        """Add one example of any task."""
        for metric in self._metrics:
            metric.add(said, right)

    def result(self) -> Score:
        """Return the mean over the tasks that have examples; a score that is undefined counts as 0."""
        scores = [score for metric in self._metrics if (score := metric.result()).count]
        scales = [100.0 if score.name.split("/")[-1].startswith(PERCENT) else 1.0 for score in scores]
        values = [(0.0 if math.isnan(s.value) else s.value) / scale for s, scale in zip(scores, scales, strict=True)]
        value = sum(values) / len(values) if values else math.nan
        drawn = [s.replicas / scale for s, scale in zip(scores, scales, strict=True) if s.replicas is not None]
        # The tasks have different examples, so their replicas are independent.
        replicas = np.mean(drawn, axis=0) if scores and len(drawn) == len(scores) else None
        low, high = around(value, *((math.nan, math.nan) if replicas is None else middle(replicas)))
        return Score(
            name="average",
            value=value,
            low=low,
            high=high,
            count=sum(score.count for score in scores),
            signature=f"of:{','.join(score.name for score in scores)}",
            replicas=replicas,
        )
