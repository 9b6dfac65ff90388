"""A class for each image."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from qkv.common.batch import Images, Labelled
from qkv.common.config import from_dict
from qkv.common.errors import QkvError
from qkv.data.config import DataConfig
from qkv.data.examples import LabelledImage
from qkv.data.images import images
from qkv.data.labelled import sort_labels
from qkv.data.store import Store
from qkv.objectives.classify import Classify
from qkv.tasks.base import Array, Collate, Context, Row, Task


def scaled(pixels: Array) -> Tensor:
    """Turn pixels from 0 to 255 into numbers from -1 to 1, for training and for asking alike."""
    return torch.from_numpy(pixels.astype(np.float32) / 127.5 - 1)


def fitting(paths: Sequence[str], config: Any, labels: Sequence[str], **reading: Any) -> Iterator[LabelledImage]:
    """Read images; one of another size, or of a class that the model does not have, is an error that names it."""
    shape = (config.channels, config.image_size, config.image_size)
    for example in images(list(paths), **reading):
        if example.pixels.shape != shape:
            raise QkvError(f"{example.where}: the image is {example.pixels.shape}, and the model takes {shape}")
        if example.label not in labels:
            raise QkvError(f"{example.where}: the label {example.label!r} is not among those of training")
        yield example


class ImageTask(Task):
    """A class for each image; the model reads numbers from -1 to 1."""

    reads_text = False
    heads = ("classify",)

    def labels(self, paths: Sequence[str], data: DataConfig) -> tuple[str, ...]:
        """Find every class of the training images."""
        return tuple(sort_labels(example.label for example in images(list(paths), bad=data.bad)))

    def rows(self, paths: Sequence[str], context: Context) -> Iterator[Row]:
        """Keep the pixels as bytes."""
        number = {label: i for i, label in enumerate(context.labels)}
        for example in fitting(paths, context.config, context.labels, **context.reading):
            yield {"pixels": example.pixels.reshape(-1), "label": number[example.label]}

    def lengths(self, store: Store) -> Array:
        """Every image costs its patches; the config knows how many, the store only that they are equal."""
        return np.ones(len(store), dtype=np.int64)

    def collate(self, store: Store, context: Context) -> Collate:
        """Gather pixels and classes."""
        config = context.config

        def make(rows: Array, rng: np.random.Generator) -> Labelled:
            del rng
            pixels = scaled(store.gather("pixels", rows)[0])
            images = Images(pixels.view(len(rows), config.channels, config.image_size, config.image_size))
            return Labelled(images, torch.from_numpy(store.gather("label", rows)[0].astype(np.int64)))

        return make

    def objective(self, settings: Mapping[str, Any]) -> Classify:
        """Cross-entropy of the class."""
        return from_dict(Classify, settings)
