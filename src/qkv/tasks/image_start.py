"""Other image models that a run needs: the one to start from, and a teacher."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from qkv.checkpoints import hub
from qkv.checkpoints.folder import Folder, read_folder
from qkv.common.errors import UsageError
from qkv.common.pixels import ImageProcessor
from qkv.data.hub import is_hub
from qkv.models import catalogue
from qkv.models.vit import ViTConfig
from qkv.nn.grid import resized_table
from qkv.objectives.teacher import Teacher
from qkv.tasks.start import label_rows

TABLE = "embeddings.position.table.weight"


def at_size(start: Folder, config: Any) -> Folder:
    """Return a model for images of the size in `config`: learned positions of its patches are interpolated."""
    if not isinstance(start.config, ViTConfig) or not isinstance(config, ViTConfig):
        return start
    old, weights = start.config, start.model.state_dict()
    if old.grid == config.grid or TABLE not in weights:
        return start
    if old.patch_size != config.patch_size:
        raise UsageError(
            f"the model to start from has patches of {old.patch_size} pixels, and patch_size {config.patch_size} is "
            "another: leave out model.set.patch_size"
        )
    found = dataclasses.replace(old, image_size=config.image_size)
    model = catalogue.build(found)
    model.load_state_dict(weights | {TABLE: resized_table(weights[TABLE], old.leading, found.grid)})
    return dataclasses.replace(start, config=found, model=model.eval())


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
