"""Augmentation of images as tensor operations on the device of the batch.

    bytes ─► crop, flip, rotate, shear, shift (one sampling) ─► colours ─► Mixup or CutMix ─► erasing ─► normalised

Each operation is a pure function of the pixels and of numbers from 0 to 1, the draws, of which every image has a row.
The loader makes the draws from the seed of the batch, so a resumed run sees the same images, and a GPU sees what a CPU
sees. Every image has its own operations: nothing loops over the images of a batch.
"""

from __future__ import annotations

from qkv.nn.augment.pipeline import Augment, Mixed

__all__ = ["Augment", "Mixed"]
