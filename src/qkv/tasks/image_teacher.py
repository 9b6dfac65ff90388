"""A trained image model as a teacher."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from qkv.checkpoints import hub
from qkv.checkpoints.folder import read_folder
from qkv.common.errors import UsageError
from qkv.common.pixels import ImageProcessor
from qkv.data.hub import is_hub
from qkv.models import catalogue
from qkv.objectives.teacher import Teacher
from qkv.tasks.start import label_rows


def check_teacher(name: str) -> None:
    """Raise an error before anything slow starts if there is no such folder."""
    if not is_hub(name) and not Path(name).is_dir():
        raise UsageError(f"objective.teacher: {name} is not a model folder")


def load_teacher(name: str, labels: Sequence[str]) -> Teacher:
    """Load a model to distil from; its classes must include those of the student."""
    found = read_folder(hub.download(name) if is_hub(name) else name)
    config = found.config
    head = next((head for head in getattr(config, "heads", ()) if head in ("classify", "distilled")), None)
    if not catalogue.reads_images(config) or head is None:
        raise UsageError(f"objective.teacher: {name} does not classify images")
    rows = label_rows(found.labels, labels)
    if missing := [label for row, label in enumerate(labels) if row not in rows]:
        known = ", ".join(found.labels[:10]) + (" …" if len(found.labels) > 10 else "")
        raise UsageError(f"objective.teacher: {name} does not know the class {missing[0]!r} (it knows {known})")
    return Teacher(
        model=found.model.requires_grad_(False),
        head=head,
        processor=found.processor or ImageProcessor(),
        shape=(config.channels, config.image_size, config.image_size),
        classes=torch.tensor([rows[row] for row in range(len(labels))]),
    )
