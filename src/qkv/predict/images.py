"""Classify images: files, Pillow images or arrays of bytes, brought to the size and the numbers of the model."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from os import PathLike, fspath
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from qkv.common.errors import QkvError, UsageError, show
from qkv.common.pixels import ImageProcessor
from qkv.data.bad_rows import BadRow
from qkv.data.images import pixels_of, read_image
from qkv.data.pixel_arrays import channels_first
from qkv.data.resize import fitted
from qkv.predict.finite import finite
from qkv.predict.runner import Runner

Bytes = NDArray[np.uint8]
AT_ONCE = 64  # images in one pass


def chances_of_images(model: Runner, images: Sequence[Bytes], where: Sequence[str]) -> Tensor:
    """Return the probability of each class for each image.

    Args:
        model: an image classifier.
        images: Shape of each: [C, H, W], from 0 to 255.
        where: the place of each image, for messages.
    """
    config, processor = model.config, model.processor
    shape = (config.channels, config.image_size, config.image_size)
    head = "classify" if "classify" in config.heads else "distilled"
    found: list[Tensor] = []
    for start in range(0, len(images), AT_ONCE):
        part = zip(images[start : start + AT_ONCE], where[start : start + AT_ONCE], strict=True)
        pixels = torch.from_numpy(np.stack([fitted(image, shape, processor, place) for image, place in part]))
        found += model.logits((processor or ImageProcessor()).numbers(pixels), head=head)
    scores = torch.stack(found).float() if found else torch.empty(0, config.num_labels)
    return finite(scores.softmax(-1))


def read_images(who: str, images: Sequence[Any]) -> tuple[list[Bytes], list[str]]:
    """Read images, and return them with the place of each; one that cannot be decoded is an error with its path."""
    if isinstance(images, str | bytes | PathLike | Mapping) or not isinstance(images, Collection):
        raise UsageError(f"{who} takes a list of images; put a single one in a list")
    found, places = list[Bytes](), list[str]()
    for number, image in enumerate(images):
        place = fspath(image) if isinstance(image, str | PathLike) else f"image {number}"
        try:
            found.append(_bytes(image, place))
        except BadRow as error:
            raise QkvError(f"{place}: {error}") from None
        places.append(place)
    return found, places


def _bytes(image: Any, place: str) -> Bytes:
    """Return the pixels of one image. Shape: [C, H, W]."""
    if isinstance(image, str | PathLike):
        return read_image(image)
    if isinstance(image, np.ndarray):
        if image.dtype != np.uint8 or image.ndim not in (2, 3):
            raise BadRow(
                f"an array of an image is uint8 [H, W], [H, W, C] or [C, H, W], got {image.dtype} {list(image.shape)}"
            )
        return channels_first(image, place)
    if hasattr(image, "convert"):
        return pixels_of(image)
    raise BadRow(f"an image is a path, a Pillow image or an array of bytes, got {show(image)}")
