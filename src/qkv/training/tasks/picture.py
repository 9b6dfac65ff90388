"""A class for each picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from qkv.common.batch import Images, Labelled
from qkv.common.config import from_dict
from qkv.common.errors import QkvError
from qkv.data.pictures import pictures
from qkv.data.store import Store
from qkv.objectives.classify import Classify
from qkv.training.config import DataConfig
from qkv.training.tasks.base import Array, Collate, Context, Row, Task


class PictureTask(Task):
    """Pixels from 0 to 255 become numbers from -1 to 1."""

    reads_text = False
    heads = ("classify",)

    def labels(self, paths: Sequence[str], data: DataConfig) -> tuple[str, ...]:
        """Find every class of the training pictures."""
        del data
        found = {example.label for example in pictures(list(paths))}
        return tuple(sorted(found, key=lambda name: (len(name), name) if name.isdigit() else (99, name)))

    def rows(self, paths: Sequence[str], context: Context) -> Iterator[Row]:
        """Keep the pixels as bytes."""
        number = {label: i for i, label in enumerate(context.labels)}
        config = context.config
        shape = (config.channels, config.image_size, config.image_size)
        for example in pictures(list(paths), **context.reading):
            if example.pixels.shape != shape:
                raise QkvError(f"{example.where}: the picture is {example.pixels.shape}, and the model takes {shape}")
            if example.label not in number:
                raise QkvError(f"{example.where}: the label {example.label!r} is not among those of training")
            yield {"pixels": example.pixels.reshape(-1), "label": number[example.label]}

    def lengths(self, store: Store) -> Array:
        """Every picture costs its patches; the config knows how many, the store only that they are equal."""
        return np.ones(len(store), dtype=np.int64)

    def collate(self, store: Store, context: Context) -> Collate:
        """Gather pixels and classes."""
        config = context.config

        def make(rows: Array, rng: np.random.Generator) -> Labelled:
            del rng
            pixels = torch.from_numpy(store.gather("pixels", rows)[0].astype(np.float32) / 127.5 - 1)
            images = Images(pixels.view(len(rows), config.channels, config.image_size, config.image_size))
            return Labelled(images, torch.from_numpy(store.gather("label", rows)[0].astype(np.int64)))

        return make

    def objective(self, settings: Mapping[str, Any]) -> Classify:
        """Cross-entropy of the class."""
        return from_dict(Classify, settings)
