"""`train.match_rates`: predict each class as often as it occurs, for imbalanced classes.

A classifier that has memorised its examples predicts frequent classes too often on new texts. After training, the
biases of its last layer are shifted until it predicts each class on validation texts as often as it occurs in training
(after Saerens et al. 2002). Validation labels are not used, and the model folder needs no extra files.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from qkv.checkpoints.folder import Folder
from qkv.common.errors import UsageError
from qkv.common.progress import Bar
from qkv.data.store import Store
from qkv.evaluation.rates import matching_offsets, rates
from qkv.tasks.base import Context
from qkv.tasks.exam import chunks

CHUNK = 512  # texts scored at a time
SHOWN = 5  # number of classes to show


def check_biases(model: nn.Module) -> None:
    """Raise an error before training if the classifier has no biases."""
    if _biases(model) is None:
        raise UsageError("train.match_rates shifts the biases of the classifier, but this one has none")


def match_rates(found: Folder, model: Any, context: Context, train: Store, valid: Store) -> Folder:
    """Shift the biases of a trained classifier."""
    shares = np.bincount(train.values("label"), minlength=len(context.labels)) / len(train)
    with Bar("matching class rates", total=len(valid)) as bar:
        scores = np.stack(list(bar.each(_scores(model, valid))))
    offsets = matching_offsets(scores, shares)
    biases = _biases(found.model)
    assert biases is not None
    with torch.no_grad():
        biases += torch.from_numpy(offsets).to(biases)
    facts = zip(context.labels, rates(scores), rates(scores + offsets), shares, strict=True)
    most = sorted(facts, key=lambda fact: -fact[3])[:SHOWN]
    shown = ", ".join(f"{name} {old:.1%} -> {new:.1%} (training {share:.1%})" for name, old, new, share in most)
    context.say(f"classes on validation texts: {shown}")
    return found


def _scores(model: Any, store: Store) -> Iterator[NDArray[np.float64]]:
    for numbers in chunks(range(len(store)), CHUNK):
        rows = store.rows(numbers)
        ids, segments = ([row[name].tolist() for row in rows if name in row] for name in ("ids", "segments"))
        found = model.logits(ids, segments=segments or None, head="classify")
        yield from torch.stack(found).double().cpu().numpy()


def _biases(model: nn.Module) -> Tensor | None:
    head = getattr(model, "heads", {})["classify"]
    return getattr(getattr(head, "linear", None), "bias", None)
