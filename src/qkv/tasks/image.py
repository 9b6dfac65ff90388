"""Image classification: one class per image."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch

from qkv.common.batch import Images, Labelled
from qkv.common.errors import QkvError
from qkv.data.bad_rows import BadRows
from qkv.data.examples import LabelledImage
from qkv.data.images import images, scaled
from qkv.data.labelled import sort_labels
from qkv.data.store import Store
from qkv.evaluation.classification import F1, Accuracy
from qkv.evaluation.prediction import Prediction
from qkv.objectives.classify import Classify
from qkv.tasks.base import Array, Collate, Context, Row, Say, Task, Trivial, has_head
from qkv.tasks.batches import column
from qkv.tasks.exam import Exam, Metric
from qkv.tasks.facts import Rule
from qkv.tasks.predicted import always, label_prediction

ANSWERED = 64  # images classified at a time


class ImageTask(Task):
    """One class per image; the model reads numbers from -1 to 1."""

    rules: ClassVar[Mapping[str, Rule]] = {}
    measured: ClassVar[bool] = True
    Settings: ClassVar[type[Any]] = Classify
    reads_text: ClassVar[bool] = False
    mixable: ClassVar[bool] = False
    heads: ClassVar[tuple[str, ...]] = ("classify",)
    predicts_classes: ClassVar[bool] = True
    held_out_unit: ClassVar[str] = "training images"

    def examples(self, paths: Sequence[str], skipped: BadRows | None = None) -> Iterator[LabelledImage]:
        """Read images and their classes."""
        return images(list(paths), bad=self.data.bad, skipped=skipped)

    def key(self, example: LabelledImage) -> str:
        """Hold out by pixels."""
        return hashlib.blake2b(example.pixels.tobytes()).hexdigest()

    def survey(self, examples: Iterable[LabelledImage], say: Say) -> dict[str, Any]:
        """Collect the classes of the training images."""
        del say
        return {"labels": tuple(sort_labels(example.label for example in examples))}

    def rows(self, examples: Iterable[LabelledImage], context: Context) -> Iterator[Row]:
        """Store the pixels as bytes."""
        number = {label: i for i, label in enumerate(context.labels)}
        for example in fitting(examples, context.config, context.labels):
            yield {"pixels": example.pixels.reshape(-1), "label": number[example.label]}

    def lengths(self, store: Store) -> Array:
        """Return 1 for each image: all images have the same number of patches, which only the config knows."""
        return np.ones(len(store), dtype=np.int64)

    def collate(self, store: Store, context: Context) -> Collate:
        """Gather pixels and classes."""
        config = context.config

        def make(rows: Array, rng: np.random.Generator) -> Labelled:
            del rng
            pixels = scaled(store.gather("pixels", rows)[0])
            found = Images(pixels.view(len(rows), config.channels, config.image_size, config.image_size))
            return Labelled(found, column(store, "label", rows))

        return make

    @classmethod
    def can_score(cls, model: Any) -> bool:
        """Whether the model is an image classifier."""
        return model.family == "vit" and has_head(model, "classify", "distilled")

    def metrics(self, exam: Exam) -> list[Metric]:
        """Return accuracy and macro F1."""
        del exam
        return [Accuracy(), F1(average="macro")]

    def trivial(self, exam: Exam, known: Iterable[LabelledImage], *, trained: bool) -> dict[str, Trivial]:
        """Always predict the most frequent class."""
        del exam, trained
        return always(example.label for example in known)

    def predictions(self, exam: Exam) -> Iterator[Prediction]:
        """Classify each image; pixels are scaled as in training."""
        model = exam.model
        names = model.labels or tuple(str(number) for number in range(model.config.num_labels))
        head = "classify" if "classify" in model.config.heads else "distilled"
        known = fitting(exam.examples(self), model.config, names)
        for chunk in exam.chunks(known, ANSWERED):
            found = model.logits(scaled(np.stack([example.pixels for example in chunk])), head=head)
            best = torch.stack(found).float().softmax(-1).max(-1)
            for example, place, chance in zip(chunk, best.indices.tolist(), best.values.tolist(), strict=True):
                yield label_prediction(names[place], chance, example.label, texts=(), where=example.where)


def fitting(examples: Iterable[LabelledImage], config: Any, labels: Sequence[str]) -> Iterator[LabelledImage]:
    """Yield images; raise an error for an image of the wrong size or with a class that the model does not have."""
    shape = (config.channels, config.image_size, config.image_size)
    for example in examples:
        if example.pixels.shape != shape:
            raise QkvError(f"{example.where}: the image has shape {example.pixels.shape}, but the model takes {shape}")
        if example.label not in labels:
            raise QkvError(f"{example.where}: the label {example.label!r} does not occur in training")
        yield example
