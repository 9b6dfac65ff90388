"""Rules for images: what is "auto" in the recipe image. They depend on the size, colours and number of the images.

Keys of the model have rules for training from scratch; a model to start from keeps its own numbers. RandAugment,
Mixup, CutMix, erasing and stochastic depth for colour images have the strengths of DeiT (Touvron et al. 2021, table 9).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import median
from typing import Any

from qkv.common.errors import UsageError
from qkv.models.catalogue import reads_images
from qkv.models.vit import PRESETS, ViTConfig
from qkv.tasks import finetuning
from qkv.tasks.facts import Facts, Rule

NO_IMAGES = "the task image needs a model of images: a preset of vit or convnet, or a folder of one"
SMALL = 80  # pixels on a side: below, images keep their size and patches are small
LARGEST = 224
FEW = 5000  # images: with fewer, mixing and erasing leave too little to learn from


def channels(facts: Facts) -> int:
    """3 if any image has colours, otherwise 1; a model to start from keeps its own."""
    if not reads_images(facts.config):
        raise UsageError(NO_IMAGES)
    return int(facts.config.channels) if facts.pretrained else max(shape[0] for shape in facts.shapes)


def image_size(facts: Facts) -> int:
    """The median side of the images, at most 224, as a multiple of the patches; a model to start from keeps its own."""
    if facts.pretrained:
        return int(facts.config.image_size)
    patch, side = _patch(facts), _side(facts)
    return patch * max(2, math.floor(min(side, LARGEST) / patch + 0.5))


def patch_size(facts: Facts) -> int | None:
    """4 for images of up to 40 pixels, 8 up to 80, otherwise the preset's; a model to start from keeps its own."""
    return _patch(facts) if isinstance(facts.config, ViTConfig) else None


def dim(facts: Facts) -> int | None:
    """For the preset vit-mini: 128 for grey images, 256 for colour. Other presets keep their own."""
    return _mini(facts, 128, 256)


def num_layers(facts: Facts) -> int | None:
    """For the preset vit-mini: 6 for grey images, 9 for colour. Other presets keep their own."""
    return _mini(facts, 6, 9)


def num_heads(facts: Facts) -> int | None:
    """For the preset vit-mini: 4. Other presets keep their own."""
    return _mini(facts, 4, 4)


def ff_dim(facts: Facts) -> int | None:
    """For the preset vit-mini: 256 for grey images, 512 for colour. Other presets keep their own."""
    return _mini(facts, 256, 512)


def stem(facts: Facts) -> str | None:
    """For the preset vit-mini: conv. Other presets keep their own; plain ones are folders of transformers."""
    return "conv" if _mini(facts, 1, 1) else None


def lr(facts: Facts) -> float:
    """0.001 from scratch; for a model to start from, 1e-4 · 384 / its width."""
    return finetuning.rate(1e-4)(facts) if facts.pretrained else 1e-3


def tokens(facts: Facts) -> int:
    """The number of images of a batch: a power of 2 near a sixtieth of all images, from 32 to 1,024."""
    return int(2 ** round(math.log2(min(1024, max(32, facts.examples / 60)))))


def epochs(facts: Facts) -> float:
    """From 15 to 100, as many as show 3 million grey images; to 200 and 10 million in colour; 8 for a trained model."""
    if facts.pretrained:
        return 8.0
    views, most = (10_000_000, 200) if _colour(facts) else (3_000_000, 100)
    return float(round(min(most, max(15, views / facts.examples))))


def flip(facts: Facts) -> bool:
    """True for colour images. Grey ones may be digits or letters, whose mirror images mean something else."""
    return _colour(facts)


def crop(facts: Facts) -> int:
    """A twelfth of the side for grey images, an eighth for colour; 0 above 80 pixels."""
    side = _side(facts)
    return 0 if side > SMALL else round(side / (8 if _colour(facts) else 12))


def scale(facts: Facts) -> float:
    """0.3 for images of more than 80 pixels, otherwise 1."""
    return 0.3 if _side(facts) > SMALL else 1.0


def magnitude(facts: Facts) -> float:
    """9 for colour images, 4 for grey ones."""
    return 9.0 if _colour(facts) else 4.0


def mixup(facts: Facts) -> float:
    """0.8 for colour images from scratch if there are 5,000 or more, otherwise 0."""
    return 0.8 if _mixes(facts) else 0.0


def cutmix(facts: Facts) -> float:
    """1 for colour images from scratch if there are 5,000 or more, otherwise 0."""
    return 1.0 if _mixes(facts) else 0.0


def erase(facts: Facts) -> float:
    """0.25 for colour images from scratch if there are 5,000 or more, otherwise 0."""
    return 0.25 if _mixes(facts) else 0.0


def drop_path(facts: Facts) -> float:
    """0.1 for a ViT of 9 layers or more, otherwise 0."""
    layers = (num_layers(facts) or facts.config.num_layers) if isinstance(facts.config, ViTConfig) else 0
    return 0.1 if layers >= 9 else 0.0


def _colour(facts: Facts) -> bool:
    return channels(facts) > 1 and max(shape[0] for shape in facts.shapes) > 1


def _mixes(facts: Facts) -> bool:
    return _colour(facts) and not facts.pretrained and facts.examples >= FEW


def _side(facts: Facts) -> float:
    """Return the median of the mean sides of the images."""
    if facts.pretrained:
        return float(facts.config.image_size)
    return median(value for shape, count in facts.shapes.items() for value in [math.sqrt(shape[1] * shape[2])] * count)


def _patch(facts: Facts) -> int:
    own, side = int(getattr(facts.config, "patch_size", 4)), _side(facts)
    if facts.pretrained:
        return own
    return 4 if side <= 40 else 8 if side <= SMALL else max(own, 16)


def _mini(facts: Facts, grey: Any, colour: Any) -> Any:
    if facts.pretrained or facts.config != PRESETS["vit-mini"]:
        return None
    return colour if _colour(facts) else grey


MODEL: dict[str, Callable[[Facts], Any]] = {
    "image_size": image_size,
    "patch_size": patch_size,
    "channels": channels,
    "dim": dim,
    "num_layers": num_layers,
    "num_heads": num_heads,
    "ff_dim": ff_dim,
    "patches.stem": stem,
}
AUGMENT: dict[str, Callable[[Facts], Any]] = {
    "crop": crop,
    "scale": scale,
    "flip": flip,
    "rand_augment": magnitude,
    "mixup": mixup,
    "cutmix": cutmix,
    "erase": erase,
}
RULES: dict[str, Rule] = {
    **{f"model.set.{key}": rule for key, rule in MODEL.items()},
    **{f"objective.augment.{key}": rule for key, rule in AUGMENT.items()},
    "objective.drop_path": drop_path,
    "optim.lr": lr,
    "train.tokens": tokens,
    "train.epochs": epochs,
    "train.keep_best": finetuning.keep_best,
    "data.held_out": finetuning.held_out,
}
