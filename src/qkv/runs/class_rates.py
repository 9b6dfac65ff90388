"""Each class said as often as it is: `train.match_rates`, for classes of uneven number.

A classifier that knows its examples by heart leans towards frequent classes on texts it has not seen. Afterwards the
biases of its last layer are moved until it says each class as often on validation texts as training had it (after
Saerens et al. 2002). No label of a validation text is looked at, and a folder needs nothing new to be read.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from qkv.checkpoints.folder import folder_files, read_folder
from qkv.common import disk
from qkv.common.errors import UsageError
from qkv.common.progress import Bar
from qkv.data.store import Store
from qkv.evaluation.rates import matching_offsets, rates
from qkv.predict import Model
from qkv.recipes.schema import Say
from qkv.runs.prepare import Prepared
from qkv.tasks.base import chunks

CHUNK = 512  # texts that are scored at a time
SHOWN = 5  # classes whose rates are said


def check_biases(model: nn.Module) -> None:
    """Stop before training where there is nothing to move."""
    if _biases(model) is None:
        raise UsageError("train.match_rates moves the biases of the classifier, and this model's has none")


def match_rates(prepared: Prepared, *, device: str | None, say: Say) -> None:
    """Move the biases of the run's folder and of that of its best validation."""
    shares = np.bincount(prepared.train.values("label"), minlength=len(prepared.context.labels)) / len(prepared.train)
    for place in (prepared.folder, prepared.folder / "best"):
        if not (place / "config.json").is_file():
            continue
        found = read_folder(place)
        with Bar("matching rates of classes", total=len(prepared.valid)) as bar:
            scores = np.stack(list(bar.each(_scores(Model(found, device=device), prepared.valid))))
        offsets = matching_offsets(scores, shares)
        biases = _biases(found.model)
        assert biases is not None
        with torch.no_grad():
            biases += torch.from_numpy(offsets).to(biases)
        disk.update_folder(place, folder_files(found))
        if place == prepared.folder:
            facts = zip(prepared.context.labels, rates(scores), rates(scores + offsets), shares, strict=True)
            most = sorted(facts, key=lambda fact: -fact[3])[:SHOWN]
            said = ", ".join(f"{name} {old:.1%} -> {new:.1%} (training {share:.1%})" for name, old, new, share in most)
            say(f"classes on validation texts: {said}")


def _scores(model: Model, store: Store) -> Iterator[NDArray[np.float64]]:
    for numbers in chunks(range(len(store)), CHUNK):
        rows = store.rows(numbers)
        ids, segments = ([row[name].tolist() for row in rows if name in row] for name in ("ids", "segments"))
        found = model.logits(ids, segments=segments or None, head="classify")
        yield from torch.stack(found).double().cpu().numpy()


def _biases(model: nn.Module) -> Tensor | None:
    head = getattr(model, "heads", {})["classify"]
    return getattr(getattr(head, "linear", None), "bias", None)
