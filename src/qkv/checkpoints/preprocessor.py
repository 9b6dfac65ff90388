"""Read and write `preprocessor_config.json`, in which `transformers` keeps how images become numbers.

Folders without it mean what they always meant here: 0 … 255 becomes -1 … 1, and images have the model's size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qkv.checkpoints.weights import read_json
from qkv.common.errors import QkvError, show
from qkv.common.pixels import BICUBIC, BILINEAR, ImageProcessor

FILE = "preprocessor_config.json"
LARGEST = 1 << 13  # pixels on a side
RESAMPLES = range(6)  # Pillow's
# What a file leaves out, `transformers` takes from its class.
BASIC = {"image_mean": 0.5, "image_std": 0.5, "size": {"height": 224, "width": 224}, "resample": BILINEAR}
OF_DEIT = {
    **BASIC,
    "size": {"height": 256, "width": 256},
    "resample": BICUBIC,
    "do_center_crop": True,
    "crop_size": 224,
}


def read_processor(folder: Path, channels: int) -> ImageProcessor | None:
    """Read how images of a model with so many channels become numbers, or None if the folder does not say."""
    file = folder / FILE
    if not file.is_file():
        return None
    raw = read_json(file)
    kind = raw.get("image_processor_type", raw.get("feature_extractor_type", ""))
    try:
        found = _processor({**(OF_DEIT if str(kind).startswith("DeiT") else BASIC), **raw})
        if {len(found.mean), len(found.std)} - {1, channels}:
            raise ValueError(f"image_mean and image_std must have 1 or {channels} numbers, as the model has channels")
        return found
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise QkvError(f"{file} is invalid: {error}") from None


def processor_json(processor: ImageProcessor) -> dict[str, Any]:
    """Return the contents of the file."""
    found: dict[str, Any] = {
        "image_processor_type": "ViTImageProcessor",
        "do_resize": bool(processor.size),
        "resample": processor.resample,
        "do_rescale": True,
        "rescale_factor": processor.rescale,
        "do_normalize": True,
        "image_mean": list(processor.mean),
        "image_std": list(processor.std),
    }
    if processor.size:
        found["size"] = _named(processor.size)
    if processor.crop:
        found |= {"do_center_crop": True, "crop_size": _named(processor.crop)}
    return found


def _processor(raw: Mapping[str, Any]) -> ImageProcessor:
    normalised = bool(raw.get("do_normalize", True))
    resample = raw["resample"]
    if isinstance(resample, bool) or resample not in RESAMPLES:
        raise ValueError(f"resample must be one of Pillow's numbers, 0 to 5, got {show(resample)}")
    mean, std = _numbers(raw, "image_mean"), _numbers(raw, "image_std")
    if len(mean) != len(std) and 1 not in (len(mean), len(std)):
        raise ValueError(f"image_mean has {len(mean)} numbers and image_std {len(std)}")
    if min(std) <= 0:
        raise ValueError(f"image_std must be above 0, got {min(std):g}")
    factor = _number(raw.get("rescale_factor", 1 / 255), "rescale_factor")
    return ImageProcessor(
        mean=mean if normalised else (0.0,),
        std=std if normalised else (1.0,),
        rescale=factor if raw.get("do_rescale", True) else 1.0,
        size=_size(raw["size"], "size") if raw.get("do_resize", True) else (),
        crop=_size(raw["crop_size"], "crop_size", square=True) if raw.get("do_center_crop") else (),
        resample=int(resample),
    )


def _size(raw: Any, name: str, *, square: bool = False) -> tuple[int, ...]:
    """Read a size: {"height", "width"}, {"shortest_edge"}, or one number."""
    if isinstance(raw, Mapping):
        both = raw.keys() >= {"height", "width"}
        found = (raw["height"], raw["width"]) if both else (raw["shortest_edge"],)
    else:
        found = (raw, raw)
    if any(isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= LARGEST for n in found):
        raise ValueError(f"{name} must be whole numbers from 1 to {LARGEST}, got {show(raw)}")
    return found * 2 if square and len(found) == 1 else found


def _numbers(raw: Mapping[str, Any], name: str) -> tuple[float, ...]:
    values = raw[name] if isinstance(raw[name], list | tuple) else [raw[name]]
    if not values:
        raise ValueError(f"{name} is empty")
    return tuple(_number(value, name) for value in values)


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} takes finite numbers, got {show(value)}")
    return float(value)


def _named(size: tuple[int, ...]) -> dict[str, int]:
    return dict(zip(("height", "width"), size, strict=True)) if len(size) == 2 else {"shortest_edge": size[0]}
