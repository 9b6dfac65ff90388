"""A bag of words with numpy and scipy: TF-IDF, logistic regression and ridge regression.

The penalty, and whether rare classes weigh more, are chosen by cross-validation on the training examples.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import lsqr
from scipy.special import logsumexp, softmax

Floats = NDArray[np.float64]
Words = Sequence[Sequence[str]]

STRENGTHS = (1.0, 10.0, 100.0)  # the inverse of the penalty, as scikit-learn's C
PENALTIES = (0.1, 0.3, 1.0, 3.0, 10.0)  # of ridge regression
FOLDS, ONE_FOLD_FROM = 5, 3000  # a single fold is enough for many examples


@dataclass(frozen=True)
class TfIdf:
    """Term frequency (logarithmic) times inverse document frequency, rows of length 1, as in scikit-learn."""

    columns: dict[str, int]
    weights: Floats

    @classmethod
    def of(cls, texts: Words) -> TfIdf:
        """Count the documents of each word."""
        found = Counter(word for text in texts for word in set(text))
        columns = {word: number for number, word in enumerate(sorted(found))}
        counts = np.array([found[word] for word in columns], dtype=float)
        return cls(columns, np.log((1 + len(texts)) / (1 + counts)) + 1)

    def __call__(self, texts: Words) -> csr_matrix:
        """Return one row per text."""
        values, places, borders = list[float](), list[int](), [0]
        for text in texts:
            counts = Counter(self.columns[word] for word in text if word in self.columns)
            row = np.array([1 + np.log(count) for count in counts.values()]) * self.weights[list(counts)]
            values += (row / max(float(np.linalg.norm(row)), 1e-12)).tolist()
            places += counts
            borders.append(len(places))
        return csr_matrix((values, places, borders), shape=(len(texts), len(self.columns)))


def logistic(rows: csr_matrix, labels: NDArray[np.int64], *, strength: float, balanced: bool) -> Floats:
    """Fit multinomial logistic regression with an L2 penalty. Returns a column per class; the last row is the bias."""
    count, width = rows.shape
    sizes = np.bincount(labels)
    weight = (count / (len(sizes) * sizes))[labels] if balanced else np.ones(count)
    right = np.zeros((count, len(sizes)))
    right[np.arange(count), labels] = 1
    turned = rows.T.tocsr()

    def loss(flat: Floats) -> tuple[float, Floats]:
        matrix = flat.reshape(width + 1, -1)
        logits = rows @ matrix[:-1] + matrix[-1]
        value = strength * float(weight @ (logsumexp(logits, axis=1) - logits[np.arange(count), labels]))
        error = strength * weight[:, None] * (softmax(logits, axis=1) - right)
        gradient = np.vstack([turned @ error + matrix[:-1], error.sum(axis=0)])
        return value + float((matrix[:-1] ** 2).sum()) / 2, gradient.ravel()

    start = np.zeros((width + 1) * len(sizes))
    return minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 200}).x.reshape(width + 1, -1)


def ridge(rows: csr_matrix, targets: Floats, *, penalty: float) -> tuple[Floats, float]:
    """Fit ridge regression around the mean."""
    mean = float(targets.mean())
    return lsqr(rows, targets - mean, damp=np.sqrt(penalty), iter_lim=500)[0], mean


def fitted_classes(
    texts: Words, labels: Sequence[str], graded: Callable[[list[str], list[str]], float]
) -> Callable[[Words], list[str]]:
    """Choose the settings that score best and fit all examples. Returns a function from texts to classes."""
    names = sorted(set(labels))
    numbers = np.array([names.index(label) for label in labels])

    def fit(some: NDArray[np.int64], strength: float, balanced: bool) -> Callable[[Words], list[str]]:
        vectors, there = TfIdf.of([texts[i] for i in some]), sorted(set(numbers[some]))
        known = np.searchsorted(there, numbers[some])
        matrix = logistic(vectors([texts[i] for i in some]), known, strength=strength, balanced=balanced)
        return lambda asked: [names[there[i]] for i in (vectors(asked) @ matrix[:-1] + matrix[-1]).argmax(axis=1)]

    def grade(said: list[str], asked: NDArray[np.int64]) -> float:
        return graded(said, [labels[i] for i in asked])

    settings = list(itertools.product(STRENGTHS, (False, True)))
    return fit(np.arange(len(texts)), *chosen(texts, settings, fit, grade))


def fitted_numbers(texts: Words, targets: Sequence[float]) -> Callable[[Words], list[float]]:
    """Choose the penalty with the smallest error and fit all examples. Returns a function from texts to numbers."""
    goal = np.array(targets)

    def fit(some: NDArray[np.int64], penalty: float) -> Callable[[Words], list[float]]:
        vectors = TfIdf.of([texts[i] for i in some])
        weights, mean = ridge(vectors([texts[i] for i in some]), goal[some], penalty=penalty)
        return lambda asked: (vectors(asked) @ weights + mean).tolist()

    def grade(said: list[float], asked: NDArray[np.int64]) -> float:
        return -float(((np.array(said) - goal[asked]) ** 2).mean())

    return fit(np.arange(len(texts)), *chosen(texts, [(penalty,) for penalty in PENALTIES], fit, grade))


def chosen(texts: Words, settings: list[Any], fit: Callable[..., Any], grade: Callable[..., float]) -> Any:
    """Return the settings with the best predictions for examples that were left out of the fit."""
    fold = np.arange(len(texts)) % FOLDS
    used = range(1 if len(texts) >= ONE_FOLD_FROM else FOLDS)
    asked = np.concatenate([np.flatnonzero(fold == one) for one in used])

    def value(setting: Any) -> float:
        said: list[Any] = []
        for one in used:
            said += fit(np.flatnonzero(fold != one), *setting)([texts[i] for i in np.flatnonzero(fold == one)])
        return grade(said, asked)

    return max(settings, key=value)
