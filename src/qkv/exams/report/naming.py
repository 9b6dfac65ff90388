"""How scores are named, which scale they have, and whether a model beats the trivial answers."""

from __future__ import annotations

import math

from qkv.evaluation.invalid import INVALID
from qkv.evaluation.report import number
from qkv.evaluation.score import Score
from qkv.exams.study import Study

LOWER = {"mse", "perplexity", INVALID}  # metrics where less is better
NAMES = {
    "f1": "F1",
    "entity-f1": "entity F1",
    "answer-f1": "F1",
    "exact-match": "exact match",
    "mse": "MSE",
    INVALID: "no valid answer",
}
VARIANTS = {"average:macro": "macro", "average:micro": "micro", "case:lc": "lower case"}


def name_of(score: Score) -> str:
    """Return the name of a metric with its task and variant, such as "sst2: F1 (macro)"."""
    part, slash, base = score.name.rpartition("/")
    keys = score.signature.split("|")
    variant = next((word for key, word in VARIANTS.items() if key in keys), "")
    name = (f"{part}: " if slash else "") + NAMES.get(base, base)
    return f"{name} ({variant})" if variant else name


def is_lower_better(name: str) -> bool:
    """Whether less of a metric is better; the name may begin with that of a task."""
    return name.rpartition("/")[2] in LOWER


def interval_of(score: Score) -> str:
    """Return the 95 % interval in words."""
    return "undefined" if math.isnan(score.value) else f"{number(score.low)} to {number(score.high)}"


def scale_of(score: Score) -> tuple[float, float] | None:
    """Return the lowest and the highest value that a metric can have, or None if there is no such limit."""
    if score.name.rpartition("/")[2].lower().startswith(("bleu", "chrf")):
        return 0.0, 100.0
    if is_lower_better(score.name) or math.isnan(score.value) or not -1 <= score.low <= score.high <= 1:
        return None
    return (-1.0 if score.low < 0 else 0.0), 1.0


def point_of(score: Score) -> float:
    """Return the size of a point of a metric: a hundredth from 0 to 1, else 1, as of BLEU or of an error."""
    scale = scale_of(score)
    return 0.01 if scale is not None and scale[1] == 1 else 1.0


def beats(score: Score, trivial: Score) -> bool | None:
    """Whether a score is better than a trivial one; None if they cannot be compared."""
    if math.isnan(score.value) or math.isnan(trivial.value):
        return None
    return score.value < trivial.value if is_lower_better(score.name) else score.value > trivial.value


def verdict(study: Study) -> str:
    """Return a sentence if a trivial answer is as good as the model, by the first metric that compares the two."""
    for name, scores in study.trivial.items():
        for score, trivial in zip(study.scores, scores, strict=True):
            better = beats(score, trivial)
            if better:
                break
            if better is False:
                worse = f"{name_of(score)} {number(score.value)} against {number(trivial.value)}"
                return f"The model is no better than a trivial answer ({name}): {worse}. It learned next to nothing."
    return ""
