"""RandAugment (Cubuk et al. 2020): two operations per image, chosen at random, all of one magnitude.

Geometric operations of both choices are applied first, in the same sampling as crop and flip, then the colours. Grey
images get only the geometric ones: inverting or posterising a digit says nothing about other digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from qkv.nn.augment import colour
from qkv.nn.augment.draws import Draws, among
from qkv.nn.augment.geometry import matrices

GEOMETRIC = ("identity", "rotate", "shear_x", "shear_y", "translate_x", "translate_y")
COLOURS = ("autocontrast", "equalize", "solarize", "posterize", "brightness", "contrast", "saturation", "sharpness")
HIGHEST = 10  # the magnitude at which the strengths below are reached
ROTATE, SHEAR, TRANSLATE, ENHANCE = math.radians(30), 0.3, 0.45, 0.9  # as in AutoAugment (Cubuk et al. 2019)
CHOICES = ("first", "second")


def placed(draws: Draws, magnitude: float, channels: int) -> Tensor:
    """Return the matrix of both geometric operations of each image. Shape: [B, 3, 3]."""
    first, second = (_matrix(draws, choice, magnitude, channels) for choice in CHOICES)
    return first @ second


def coloured(x: Tensor, draws: Draws, magnitude: float) -> Tensor:
    """Apply the operations on colours that each image has drawn. Shape: [B, C, H, W]."""
    if x.shape[1] == 1:
        return x
    share = magnitude / HIGHEST
    fixed: dict[str, Callable[[Tensor], Tensor]] = {
        "autocontrast": colour.autocontrast,
        "equalize": colour.equalize,
        "solarize": lambda part: colour.solarize(part, 256 * (1 - share)),
        "posterize": lambda part: colour.posterize(part, 8 - round(4 * share)),
    }
    for choice in CHOICES:
        number, sign = chosen(draws, choice, x.shape[1]), _sign(draws, choice)
        factor = (1 + sign * ENHANCE * share).view(-1, 1, 1, 1)
        for place, name in enumerate(COLOURS, len(GEOMETRIC)):
            if name in fixed:
                x = _where(number == place, x, lambda part, _, name=name: fixed[name](part), factor)  # type: ignore[misc]
            else:
                x = _where(number == place, x, getattr(colour, name), factor)
    return x


def chosen(draws: Draws, choice: str, channels: int) -> Tensor:
    """Return the number of the operation of each image, in GEOMETRIC, then COLOURS. Shape: [B]."""
    return among(draws[choice], len(GEOMETRIC) + (len(COLOURS) if channels > 1 else 0))


def _matrix(draws: Draws, choice: str, magnitude: float, channels: int) -> Tensor:
    number, strength = chosen(draws, choice, channels), _sign(draws, choice) * magnitude / HIGHEST

    def of(name: str, most: float) -> Tensor:
        return torch.where(number == GEOMETRIC.index(name), strength * most, torch.zeros_like(strength))

    angle, shear_x, shear_y = of("rotate", ROTATE), of("shear_x", SHEAR), of("shear_y", SHEAR)
    cos, sin = angle.cos(), angle.sin()
    return matrices(
        cos, shear_x - sin, shear_y + sin, cos, of("translate_x", 2 * TRANSLATE), of("translate_y", 2 * TRANSLATE)
    )


def _sign(draws: Draws, choice: str) -> Tensor:
    draw = draws[f"{choice}_sign"]
    return torch.where(draw < 0.5, -torch.ones_like(draw), torch.ones_like(draw))


def _where(mine: Tensor, x: Tensor, change: Callable[[Tensor, Tensor], Tensor], factor: Tensor) -> Tensor:
    """Change some images. On CUDA all are computed, because asking the device which ones would wait for it."""
    if x.is_cuda:
        return torch.where(mine.view(-1, 1, 1, 1), change(x, factor), x)
    rows = mine.nonzero().squeeze(1)
    return x.index_copy(0, rows, change(x[rows], factor[rows])) if len(rows) else x
