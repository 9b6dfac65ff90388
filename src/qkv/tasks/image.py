"""Image classification: one class per image."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from qkv.checkpoints.folder import Folder
from qkv.checkpoints.image_size import at_size
from qkv.common.batch import Images, Labelled
from qkv.common.config import from_dict
from qkv.common.errors import QkvError, UsageError
from qkv.common.pixels import ImageProcessor
from qkv.data.bad_rows import BadRows
from qkv.data.examples import LabelledImage
from qkv.data.images import images
from qkv.data.labelled import sort_labels
from qkv.data.resize import fitted
from qkv.data.store import Store
from qkv.evaluation.classification import F1, Accuracy
from qkv.evaluation.prediction import Prediction
from qkv.models.catalogue import reads_images
from qkv.models.vit import ViTConfig
from qkv.nn.block import stochastic_depth
from qkv.objectives.images import ClassifyImages, ImageSettings
from qkv.objectives.teacher import Teacher
from qkv.tasks.base import Array, Collate, Context, Row, Say, Task, Trivial, has_head
from qkv.tasks.batches import column
from qkv.tasks.exam import Exam, Metric
from qkv.tasks.facts import Rule
from qkv.tasks.image_rules import NO_IMAGES, RULES
from qkv.tasks.image_teacher import image_teacher
from qkv.tasks.pixel_facts import PixelFacts
from qkv.tasks.predicted import always, label_prediction

ANSWERED = 64  # images classified at a time


class ImageTask(Task):
    """One class per image. The store holds bytes; the objective changes and normalises them on the device."""

    distilled_by: ClassVar[str] = "image"
    rules: ClassVar[Mapping[str, Rule]] = RULES
    measured: ClassVar[bool] = True
    Settings: ClassVar[type[Any]] = ImageSettings
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

    def shape(self, example: LabelledImage) -> tuple[int, ...]:
        """Return channels, height and width."""
        return example.pixels.shape

    def survey(self, examples: Iterable[LabelledImage], say: Say) -> dict[str, Any]:
        """Collect the classes of the training images, and how bright they are."""
        del say
        labels, pixels = set[str](), PixelFacts()
        for example in examples:
            labels.add(example.label)
            pixels.add(example.pixels)
        return {"labels": tuple(sort_labels(labels)), **pixels.result()}

    def inherited(self, start: Folder) -> dict[str, Any]:
        """Return how the model to start from reads pixels."""
        return {"processor": dataclasses.asdict(start.processor or ImageProcessor())}

    def adapted(self, config: Any, base: Any) -> Any:
        """Give a distilled model to start from its two heads."""
        return self.student(config) if isinstance(base, ViTConfig) and "distilled" in base.heads else config

    def taught_facts(self, facts: dict[str, Any], found: Folder, name: str) -> dict[str, Any]:
        """The student has the classes of its files; a teacher may have more."""
        del found, name
        return facts

    def student(self, config: Any) -> Any:
        """Give the student of a teacher DeiT's distillation token and its two heads."""
        if not isinstance(config, ViTConfig):
            return config
        return dataclasses.replace(config, distilled=True, heads=("distilled",))

    def teacher(self, found: Folder, name: str, context: Context) -> Teacher:
        """Return an image classifier of any size."""
        return image_teacher(found, name, context.labels)

    def build(self, config: Any) -> nn.Module:
        """Build the model, with stochastic depth."""
        if not reads_images(config):
            raise UsageError(NO_IMAGES)
        model = super().build(config)
        if rate := self.settings.drop_path:
            stack = getattr(model, "stack", None)
            if stack is None:
                raise UsageError("objective.drop_path is for models with attention, not for a convnet: set it to 0")
            stochastic_depth(stack.blocks, rate)
        return model

    def check_model(self, model: nn.Module, context: Context) -> None:
        """The heads are those of the config: one, or DeiT's two in one."""
        del model
        if context.config.channels not in (1, 3):
            raise UsageError(f"images have 1 or 3 channels, but the model takes {context.config.channels}")

    def load_start(self, model: nn.Module, start: Folder, path: Path, context: Context) -> None:
        """Copy the weights of `model.init`; learned positions are interpolated for another image size."""
        old, new = (getattr(config, "patch_size", 0) for config in (start.config, context.config))
        if old != new:
            raise UsageError(
                f"the model to start from has patches of {old} pixels: leave out model.set.patch_size {new}"
            )
        super().load_start(model, at_size(start, context.config.image_size), path, context)

    def folder_facts(self, context: Context) -> dict[str, Any]:
        """Store the classes, and how images become numbers."""
        return {"labels": context.labels, "processor": self.processor(context)}

    def processor(self, context: Context) -> ImageProcessor:
        """Return how images become numbers: as in the model to start from, by the training images, or to -1 … 1."""
        size, given = context.config.image_size, context.facts.get("processor")
        if given:
            found = from_dict(ImageProcessor, given)
            return found if (found.crop or found.size) == (size, size) else found.resized_to(size)
        facts = context.facts if self.settings.normalize else {}
        mean, std = facts.get("mean", (0.5,)), facts.get("std", (0.5,))
        if len(mean) not in (1, context.config.channels):
            mean, std = (sum(mean) / len(mean),), (sum(std) / len(std),)
        return ImageProcessor(mean=tuple(mean), std=tuple(std)).resized_to(size)

    def rows(self, examples: Iterable[LabelledImage], context: Context) -> Iterator[Row]:
        """Store the pixels as bytes, in the model's size."""
        number = {label: i for i, label in enumerate(context.labels)}
        shape, processor = _shape(context.config), self.processor(context)
        resized = 0
        for example in known_labels(examples, context.labels):
            resized += example.pixels.shape != shape
            pixels = fitted(example.pixels, shape, processor, example.where)
            yield {"pixels": pixels.reshape(-1), "label": number[example.label]}
        if resized:
            context.say(f"{resized:,} images were brought to {shape[1]} x {shape[2]} pixels and {shape[0]} channels")

    def lengths(self, store: Store) -> Array:
        """Return 1 for each image: all images have the same number of patches, which only the config knows."""
        return np.ones(len(store), dtype=np.int64)

    def collate(self, store: Store, context: Context) -> Collate:
        """Gather bytes, classes, and the random numbers that change the images."""
        shape, augment = _shape(context.config), self.settings.augment

        def make(rows: Array, rng: np.random.Generator) -> Labelled:
            pixels = torch.from_numpy(store.gather("pixels", rows)[0]).view(len(rows), *shape)
            return Labelled(Images(pixels, augment.draw(rng, len(rows))), column(store, "label", rows))

        return make

    def objective(self) -> ClassifyImages:
        """Return the objective, to check the settings."""
        return ClassifyImages(settings=self.settings)

    def objective_for(self, context: Context) -> ClassifyImages:
        """Return the objective with the numbers of the training images."""
        config, settings = context.config, self.settings
        head = settings.head if settings.head in config.heads else next(iter(config.heads), "classify")
        found = dataclasses.replace(settings, head=head)
        return ClassifyImages(settings=found, processor=self.processor(context))

    @classmethod
    def can_score(cls, model: Any) -> bool:
        """Whether the model is an image classifier."""
        return model.reads_images and has_head(model, "classify", "distilled")

    def metrics(self, exam: Exam) -> list[Metric]:
        """Return accuracy and macro F1."""
        del exam
        return [Accuracy(), F1(average="macro")]

    def trivial(self, exam: Exam, known: Iterable[LabelledImage], *, trained: bool) -> dict[str, Trivial]:
        """Always predict the most frequent class."""
        del exam, trained
        return always(example.label for example in known)

    def predictions(self, exam: Exam) -> Iterator[Prediction]:
        """Classify each image, without augmentation."""
        model = exam.model
        names = model.labels or tuple(str(number) for number in range(model.config.num_labels))
        for chunk in exam.chunks(known_labels(exam.examples(self), names), ANSWERED):
            chances = model.image_chances([example.pixels for example in chunk], [example.where for example in chunk])
            best = chances.max(-1)
            for example, place, chance in zip(chunk, best.indices.tolist(), best.values.tolist(), strict=True):
                yield label_prediction(names[place], chance, example.label, texts=(), where=example.where)


def known_labels(examples: Iterable[LabelledImage], labels: Sequence[str]) -> Iterator[LabelledImage]:
    """Yield images; raise an error for one with a class that the model does not have."""
    for example in examples:
        if example.label not in labels:
            raise QkvError(f"{example.where}: the label {example.label!r} does not occur in training")
        yield example


def _shape(config: Any) -> tuple[int, int, int]:
    return config.channels, config.image_size, config.image_size
