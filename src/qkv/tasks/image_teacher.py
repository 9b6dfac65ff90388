"""A trained image model as a teacher."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from qkv.checkpoints.folder import Folder
from qkv.common.errors import UsageError
from qkv.common.pixels import ImageProcessor
from qkv.models import catalogue
from qkv.objectives.teacher import ImageTeacher
from qkv.tasks.start import label_rows, unknown_label


def image_teacher(found: Folder, name: str, labels: Sequence[str]) -> ImageTeacher:
    """Return a model to distil from; it may have another size, and its classes must include those of the student."""
    config = found.config
    head = next((head for head in getattr(config, "heads", ()) if head in ("classify", "distilled")), None)
    if not catalogue.reads_images(config) or head is None:
        raise UsageError(f"distill.teacher: {name} does not classify images")
    rows = label_rows(found.labels, labels)
    if missing := [label for row, label in enumerate(labels) if row not in rows]:
        raise UsageError(unknown_label(name, missing[0], found.labels))
    wanted = torch.tensor([rows[row] for row in range(len(labels))])
    found.model.register_buffer("wanted_classes", wanted, persistent=False)  # moves to the device with the model
    return ImageTeacher(
        model=found.model,
        head=head,
        processor=found.processor or ImageProcessor(),
        shape=(config.channels, config.image_size, config.image_size),
    )
