"""Images stored as arrays: IDX (the files of MNIST) and npz. Images are read one at a time, labels all at once.

Arrays are writable, as torch requires. IDX is big-endian: two zero bytes, the type (8: unsigned byte), the
number of dimensions, their sizes, the data.
"""

from __future__ import annotations

import math
import struct
import zipfile
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from qkv.common.errors import QkvError
from qkv.data.archives import BROKEN, list_members
from qkv.data.files import open_binary
from qkv.data.limits import LABELS, PIXELS, too_large

Pixels = Iterator[tuple[str, tuple[NDArray[np.uint8], str]]]

UNSIGNED_BYTE = 8
KEYS = (("images", "labels"), ("x", "y"))


def idx_rows(images: str, labels: str) -> Pixels:
    """Yield the place, the pixels and the label of each image of an IDX pair."""
    with open_binary(labels) as stream:
        (count,) = _idx_header(stream, labels, 1)
        if count > LABELS:
            raise too_large(labels, "set of labels", LABELS)
        classes = _exactly(stream, count, labels)
    with open_binary(images) as stream:
        total, height, width = _idx_header(stream, images, 3)
        if total != count:
            raise QkvError(f"{images} has {total} images, {labels} has {count} labels; the numbers must be equal")
        _check_pixels(images, height, width)
        for number, label in enumerate(classes, 1):
            pixels = np.frombuffer(bytearray(_exactly(stream, height * width, images)), np.uint8)
            yield f"{images}:{number}", (pixels.reshape(1, height, width), str(label))


def npz_rows(path: str) -> Pixels:
    """Yield the place, the pixels and the label of each image of an npz file. Nothing is unpickled."""
    members = list_members(path)
    keys = next((pair for pair in KEYS if {f"{key}.npy" for key in pair} <= set(members)), None)
    if keys is None:
        there = ", ".join(member.removesuffix(".npy") for member in members)
        raise QkvError(f"{path} must contain the arrays images and labels, or x and y (it contains: {there})")
    try:
        with zipfile.ZipFile(path) as archive:
            with archive.open(f"{keys[1]}.npy") as stream:
                labels = _npy_labels(stream, path)
            with archive.open(f"{keys[0]}.npy") as stream:
                for number, pixels in enumerate(_npy_images(stream, path, len(labels)), 1):
                    yield f"{path}:{number}", (pixels, str(labels[number - 1].item()))
    except (*BROKEN, EOFError, SyntaxError, TypeError, MemoryError) as error:  # numpy evaluates the header's text
        raise QkvError(f"{path} cannot be read: {error or 'it needs too much memory'}") from None


def _npy_labels(stream: IO[bytes], path: str) -> NDArray[Any]:
    shape, _, dtype = _npy_header(stream)
    size = math.prod(shape) * dtype.itemsize
    if dtype.hasobject or dtype.itemsize == 0:
        raise QkvError(f"{path}: labels are {dtype}, not numbers or texts")
    if size > LABELS:
        raise too_large(path, "set of labels", LABELS)
    return np.frombuffer(_exactly(stream, size, path), dtype)


def _npy_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = npy.read_magic(stream)
    return (npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0)(stream)


def _check_pixels(path: str, *sizes: int) -> None:
    """Raise if one image is too large for memory."""
    if math.prod(sizes) > 3 * PIXELS:  # a channel for each colour
        shape = " x ".join(map(str, sizes))
        raise QkvError(f"{path}: an image of {shape} has more than {PIXELS:,} pixels, the limit for one image")


def _npy_images(stream: IO[bytes], path: str, count: int) -> Iterator[NDArray[np.uint8]]:
    shape, fortran, dtype = _npy_header(stream)
    if dtype != np.uint8 or fortran or len(shape) not in (3, 4):
        order = "Fortran" if fortran else "C"
        raise QkvError(
            f"{path}: images are {dtype} {list(shape)} in {order} order, not uint8 [N, H, W] or [N, H, W, C]"
        )
    if shape[0] != count:
        raise QkvError(f"{path} has {shape[0]} images and {count} labels; the numbers must be equal")
    _check_pixels(path, *shape[1:])
    for _ in range(count):
        pixels = np.frombuffer(bytearray(_exactly(stream, math.prod(shape[1:]), path)), np.uint8)
        yield channels_first(pixels.reshape(shape[1:]), path)


def channels_first(pixels: NDArray[np.uint8], path: str) -> NDArray[np.uint8]:
    """Return an image as [C, H, W]; its channels are the last or the first axis, of size 1 or 3."""
    if pixels.ndim == 2:
        return pixels[None]
    last, first = pixels.shape[-1] in (1, 3), pixels.shape[0] in (1, 3)
    if not last and not first:
        raise QkvError(f"{path}: an image of shape {list(pixels.shape)} has no axis of 1 or 3 channels")
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)) if last else pixels


def _idx_header(stream: Any, path: str, dims: int) -> tuple[int, ...]:
    zeros, kind, found = struct.unpack(">HBB", _exactly(stream, 4, path))
    if zeros != 0 or kind != UNSIGNED_BYTE or found != dims:
        raise QkvError(f"{path} is not an IDX file of unsigned bytes with {dims} dimensions")
    return struct.unpack(f">{dims}I", _exactly(stream, 4 * dims, path))


def _exactly(stream: Any, size: int, path: str) -> bytes:
    data: bytes = stream.read(size)
    if len(data) != size:
        raise QkvError(f"{path} is truncated: {size} bytes are needed, {len(data)} are left")
    return data
