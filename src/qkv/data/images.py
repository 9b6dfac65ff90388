"""Images and their classes: one folder per class, a pair of IDX files (MNIST), an npz file, or the Hub."""

from __future__ import annotations

import glob
import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qkv.common.errors import UsageError
from qkv.data.bad_rows import BadRow, BadRows, check_policy, sift
from qkv.data.examples import LabelledImage
from qkv.data.files import Paths, expand
from qkv.data.hub import hub_rows, is_hub
from qkv.data.labelled import sort_labels
from qkv.data.limits import PIXELS
from qkv.data.optional import need
from qkv.data.pixel_arrays import idx_rows, npz_rows

Rows = Iterator[tuple[str, tuple[Any, str] | BadRow]]

ENDINGS = (".png", ".jpg", ".jpeg")
FORMATS = ("PNG", "JPEG")  # Pillow tells a format by content: without a list, an EPS named .png would run Ghostscript
GREY = ("1", "L", "LA")  # Pillow's modes with one channel
TOO_MANY = f"the image has more than {PIXELS:,} pixels, the limit for one image"
DEEP = ("I", "I;16", "I;16B", "F")  # more than 8 bits: Pillow clips instead of scaling


def images(paths: Paths, *, bad: str = "stop", skipped: BadRows | None = None) -> Iterator[LabelledImage]:
    """Read images.

    Args:
        paths: a folder that has one folder of PNG or JPEG files per class; the image file of an IDX pair, or both
            files; or an npz file with `images` and `labels` (or `x` and `y`).
        bad: stop at an image that cannot be read, or skip it.
        skipped: counts skipped images.
    """
    check_policy(bad)
    names = expand(paths)
    if len(names) == 1 and (is_hub(names[0]) or os.path.isdir(names[0])):
        rows = _from_hub(names[0]) if is_hub(names[0]) else _from_folder(names[0])
    elif len(names) == 1 and names[0].endswith(".npz"):
        rows = npz_rows(names[0])
    elif len(names) <= 2:
        rows = idx_rows(names[0], names[1] if len(names) == 2 else _labels_beside(names[0]))
    else:
        raise UsageError(f"images take a folder, an IDX pair or an npz file, got {len(names)} files")
    return sift(rows, lambda where, row: LabelledImage(row[0], row[1], where), bad, skipped)


def find_images(names: Sequence[str]) -> list[str]:
    """Return the image files that paths, folders (with the folders inside them) and patterns name, in order."""
    found: list[str] = []
    for name in names:
        if os.path.isfile(name):
            found.append(name)
        elif os.path.isdir(name):
            inside = sorted(str(file) for file in Path(name).rglob("*") if file.suffix.lower() in ENDINGS)
            if not inside:
                raise UsageError(f"{name} contains no images ({', '.join(ENDINGS)})")
            found += inside
        else:
            matches = sorted(file for file in glob.glob(name, recursive=True) if os.path.isfile(file))
            if not matches:
                what = "no file matches" if glob.has_magic(name) else "there is no file or folder"
                raise UsageError(f"{what} {name}")
            found += matches
    return found


def read_image(path: str | os.PathLike[str]) -> NDArray[np.uint8]:
    """Read a PNG or JPEG file; raise `BadRow` if it cannot be decoded. Shape: [C, H, W]."""
    image = need("PIL.Image", f"reading {os.fspath(path)}", "pillow")
    if not os.path.exists(path):
        raise BadRow("there is no such file")
    found = _opened(image, Path(path), "")
    if isinstance(found, BadRow):
        raise found
    return found[0]


def pixels_of(image: Any) -> NDArray[np.uint8]:
    """Return the pixels of a Pillow image; raise `BadRow` if it cannot be decoded. Shape: [C, H, W]."""
    found = _converted(image, "")
    if isinstance(found, BadRow):
        raise found
    return found[0]


def _from_folder(folder: str) -> Rows:
    classes = sort_labels(entry.name for entry in os.scandir(folder) if entry.is_dir() and entry.name[0] != ".")
    if not classes:
        raise UsageError(f"{folder} contains no folders; put the images of each class into a folder of its own")
    image = need("PIL.Image", f"reading the images of {folder}", "pillow")
    for name in classes:
        for file in sorted(Path(folder, name).iterdir()):
            if file.suffix.lower() in ENDINGS and file.is_file():
                yield str(file), _opened(image, file, name)


def _opened(image: Any, file: Path, label: str) -> tuple[NDArray[np.uint8], str] | BadRow:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", image.DecompressionBombWarning)  # _pixels has a lower limit
            with image.open(file, formats=FORMATS) as opened:
                return _converted(opened, label)
    except image.DecompressionBombError:
        return BadRow(TOO_MANY)
    except Exception as error:
        return _unreadable(error)


def _converted(opened: Any, label: str) -> tuple[NDArray[np.uint8], str] | BadRow:
    try:
        return _pixels(opened), label
    except Exception as error:
        return _unreadable(error)


def _unreadable(error: Exception) -> BadRow:
    """Return the reason as a bad row; Pillow's decoders raise a dozen types of errors."""
    return error if isinstance(error, BadRow) else BadRow(f"not an image that can be read: {error}")


def _pixels(opened: Any) -> NDArray[np.uint8]:
    """Return one channel for grey images and three for all others. Shape: [C, H, W]."""
    if opened.width * opened.height > PIXELS:
        raise BadRow(TOO_MANY)
    if opened.mode in DEEP:
        raise ValueError(f"mode {opened.mode} has more than 8 bits per channel")
    pixels = np.asarray(opened.convert("L" if opened.mode in GREY else "RGB"), dtype=np.uint8)
    return np.array(np.atleast_3d(pixels).transpose(2, 0, 1), order="C")  # a copy: Pillow's own is read-only


def _from_hub(path: str) -> Rows:
    for where, row in hub_rows(path):
        image = row.get("image", row.get("img"))
        label = row.get("label", row.get("fine_label"))
        if hasattr(image, "convert") and label is not None:
            yield where, _converted(image, str(label))
        else:
            yield where, BadRow(f"the row has no image or no label (its columns: {', '.join(row)})")


def _labels_beside(images: str) -> str:
    """Return the label file of an image file, following the names of MNIST."""
    folder, name = os.path.split(images)
    labels = name.replace("images", "labels").replace("idx3", "idx1")
    if labels == name:
        raise UsageError(f"{images}: an IDX file needs its labels; give both files, images first")
    return os.path.join(folder, labels)
