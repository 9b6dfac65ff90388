"""Classification: one label for each text, pair of texts or image, any number of labels, or a number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from qkv.common.errors import UsageError
from qkv.predict.finite import finite
from qkv.predict.images import chances_of_images, read_images
from qkv.predict.runner import Runner
from qkv.predict.verbs import names_of, reader, verbs


@dataclass(frozen=True)
class Label:
    """A label and its probability."""

    label: str
    score: float

    def to_dict(self) -> dict[str, Any]:
        """Return the label for JSON."""
        return {"label": self.label, "score": self.score}


def classify(
    model: Runner,
    texts: Sequence[str],
    pairs: Sequence[str] | None = None,
    *,
    every: bool = False,
    top: int | None = None,
    threshold: float | None = None,
) -> list[Any]:
    """Classify each text or image; see `Model.classify`."""
    _check_top(top, every)
    if model.reads_images:
        return _classify_images(model, texts, pairs, every=every, top=top, threshold=threshold)
    reader(model, "classify", texts)
    number = "classify" not in model.config.heads
    limit = _threshold(model, number, every, top, threshold)
    if not len(texts):
        return []
    encoded = model.encode(texts, pairs)
    head = "regress" if number else "classify"
    scores = torch.stack(model.logits(encoded.ids, segments=encoded.segments, head=head)).float()
    if number:
        return list(finite(scores).tolist())
    chances = finite(scores.sigmoid() if model.multi_label else scores.softmax(-1))
    found = [_ranked(model, row) for row in chances.tolist()]
    if every or top:
        return [row[:top] for row in found]
    return [[label for label in row if label.score > limit] if model.multi_label else row[0] for row in found]


def _classify_images(
    model: Runner,
    images: Sequence[Any],
    pairs: Any,
    *,
    every: bool,
    top: int | None,
    threshold: float | None,
) -> list[Any]:
    if "classify" not in verbs(model):
        raise UsageError(f"this {model.family} cannot classify: it has no head for that")
    if pairs is not None or threshold is not None:
        raise UsageError("this model gives one label for each image: leave out pairs and the threshold")
    found = [_ranked(model, row) for row in chances_of_images(model, *read_images("classify", images)).tolist()]
    return [row[:top] if every or top else row[0] for row in found]


def _check_top(top: int | None, every: bool) -> None:
    if top is not None and (every or top < 1):
        raise UsageError(
            "give the number of labels or ask for all, not both" if every else f"top must be at least 1, got {top}"
        )


def to_dict(found: Label | list[Label] | float) -> dict[str, Any]:
    """Return the result of `classify` for one text as JSON has it: a label, `labels`, or a `number`."""
    if isinstance(found, Label):
        return found.to_dict()
    if isinstance(found, float):
        return {"number": found}
    return {"labels": [label.to_dict() for label in found]}


def _ranked(model: Runner, scores: list[float]) -> list[Label]:
    """Attach the label names, most likely first; ties keep their order."""
    return sorted(map(Label, names_of(model), scores), key=lambda label: -label.score)


def _threshold(model: Runner, number: bool, every: bool, top: int | None, asked: float | None) -> float:
    if number and (every or top or asked is not None):
        raise UsageError("this model predicts a number for each text: it has no labels to choose from")
    if asked is None:
        return model.threshold
    if every or top or not model.multi_label:
        chosen = "you asked for all labels" if every else f"you asked for {top} labels"
        why = chosen if every or top else "this model gives one label, the most likely one"
        raise UsageError(f"{why}: leave out the threshold, which is for models that give any number of labels")
    if not 0 <= asked <= 1:
        raise UsageError(f"the threshold must be between 0 and 1, got {asked}")
    return asked
