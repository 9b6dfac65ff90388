"""Use a model for images of another size: learned positions of the patches are interpolated."""

from __future__ import annotations

import dataclasses

from qkv.checkpoints.folder import Folder
from qkv.common.errors import UsageError
from qkv.models.catalogue import build, reads_images
from qkv.nn.grid import resized_table
from qkv.nn.init import without_weights

TABLE = "embeddings.position.table.weight"


def at_size(found: Folder, image_size: int) -> Folder:
    """Return a model folder for images of another size. Its image processor then resizes to that size."""
    if not reads_images(found.config):
        raise UsageError("image_size is for models of images, and this model reads texts: leave it out")
    if image_size == found.config.image_size:
        return found
    config = dataclasses.replace(found.config, image_size=image_size)
    with without_weights():
        model = build(config)
    weights = dict(found.model.state_dict())
    if TABLE in weights:
        weights[TABLE] = resized_table(weights[TABLE], config.leading, config.grid)
    model.load_state_dict(weights, assign=True)
    processor = None if found.processor is None else found.processor.resized_to(image_size)
    return dataclasses.replace(found, config=config, model=model.eval(), processor=processor)
