"""Start from the weights of another model: tensors are matched by name, label rows by the names of the labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from qkv.checkpoints.folder import Folder
from qkv.common.errors import UsageError

LABELLED = ("heads.classify.", "heads.distilled.", "heads.tag.")  # parameters with a row for each label


def transfer(model: nn.Module, start: Folder, labels: Sequence[str] = ()) -> None:
    """Copy the weights that both models have. A label that `start` does not have keeps its new row."""
    theirs = start.model.state_dict()
    rows = label_rows(start.labels, labels)
    with torch.no_grad():
        for name, mine in model.state_dict().items():
            if name not in theirs:
                continue
            if name.startswith(LABELLED) and _is_by_label(mine, labels) and _is_by_label(theirs[name], start.labels):
                if mine.shape[1:] == theirs[name].shape[1:]:
                    for new, old in rows.items():
                        mine[new] = theirs[name][old]
            elif mine.shape == theirs[name].shape:
                mine.copy_(theirs[name])


def label_rows(old: Sequence[str], new: Sequence[str]) -> Mapping[int, int]:
    """Map the row of each new label to its row in the old model; the default name LABEL_3 also matches the label 3."""
    known = {name: row for row, name in enumerate(old)}
    found = {row: known.get(name, known.get(f"LABEL_{name}")) for row, name in enumerate(new)}
    return {row: place for row, place in found.items() if place is not None}


def taught_labels(facts: dict[str, Any], teacher: Folder, name: str) -> dict[str, Any]:
    """Return the facts of the training examples with the classes of the teacher, in its order."""
    labels = tuple(facts.get("labels", ()))
    rows = label_rows(teacher.labels, labels)
    if missing := [label for row, label in enumerate(labels) if row not in rows]:
        raise UsageError(unknown_label(name, missing[0], teacher.labels))
    if not labels:
        return facts
    names = list(teacher.labels)
    for mine, theirs in rows.items():
        names[theirs] = labels[mine]  # 3 where the teacher says LABEL_3
    found = facts | {"labels": tuple(names)}
    if "counts" in facts:
        counts = dict(zip(labels, facts["counts"], strict=True))
        found["counts"] = tuple(counts.get(label, 0) for label in names)
    return found


def unknown_label(teacher: str, label: str, known: Sequence[str]) -> str:
    """Say that a teacher cannot teach a label."""
    shown = ", ".join(known[:10]) + (" …" if len(known) > 10 else "")
    return f"distill.teacher: {teacher} does not know the label {label!r} (it knows {shown or 'none by name'})"


def _is_by_label(tensor: Tensor, labels: Sequence[str]) -> bool:
    return tensor.dim() > 0 and tensor.shape[0] == len(labels)
