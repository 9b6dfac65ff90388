"""Bring an image to the channels and the size that a model takes, as image processors of `transformers` do."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from qkv.common.errors import QkvError
from qkv.common.pixels import ImageProcessor
from qkv.data.optional import need

Bytes = NDArray[np.uint8]
LUMINANCE = np.array([19595, 38470, 7471], dtype=np.uint32)  # ITU-R 601-2 in 1/65536, as Pillow rounds it


def fitted(pixels: Bytes, shape: tuple[int, int, int], processor: ImageProcessor | None, where: str) -> Bytes:
    """Return an image in the shape [C, H, W] of a model.

    Args:
        pixels: the image. Shape: [C, H, W].
        shape: what the model takes.
        processor: how to resize; None keeps the size.
        where: the place of the image, for messages.
    """
    found = with_channels(pixels, shape[0])
    if processor is not None:
        found = _cropped(_resized(found, processor, where), processor, where)
    if found.shape != shape:
        why = (
            ""
            if processor and processor.size
            else "; its folder has no preprocessor_config.json that says how to resize"
        )
        raise QkvError(f"{where}: the image has shape {pixels.shape}, but the model takes {shape}{why}")
    return found


def with_channels(pixels: Bytes, channels: int) -> Bytes:
    """Turn grey into colour by repeating it, and colour into grey by its luminance. Shape: [C, H, W]."""
    if len(pixels) == channels or {len(pixels), channels} != {1, 3}:
        return pixels
    if channels == 3:
        return np.repeat(pixels, 3, axis=0)
    weighed = np.tensordot(LUMINANCE, pixels.astype(np.uint32), axes=1) + 0x8000
    return (weighed >> 16).astype(np.uint8)[None]


def _resized(pixels: Bytes, processor: ImageProcessor, where: str) -> Bytes:
    size = _target(pixels, processor.size)
    if size == pixels.shape[1:]:
        return pixels
    image = need("PIL.Image", f"resizing {where}", "pillow")
    flat = pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)
    found: Any = image.fromarray(np.ascontiguousarray(flat)).resize(size[::-1], processor.resample)
    return np.array(np.atleast_3d(np.asarray(found)).transpose(2, 0, 1), order="C")


def _target(pixels: Bytes, size: tuple[int, ...]) -> tuple[int, int]:
    height, width = pixels.shape[1:]
    if len(size) == 2:
        return size[0], size[1]
    if not size:
        return height, width
    longer = int(size[0] * max(height, width) / min(height, width))
    return (size[0], longer) if height <= width else (longer, size[0])


def _cropped(pixels: Bytes, processor: ImageProcessor, where: str) -> Bytes:
    if not processor.crop:
        return pixels
    (height, width), (down, right) = processor.crop, pixels.shape[1:]
    if height > down or width > right:
        raise QkvError(f"{where}: an image of {down} x {right} pixels is smaller than its crop of {height} x {width}")
    top, left = (down - height) // 2, (right - width) // 2
    return np.ascontiguousarray(pixels[:, top : top + height, left : left + width])
