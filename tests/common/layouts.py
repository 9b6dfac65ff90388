"""Layouts that `Ragged.of` does not make."""

from itertools import accumulate

import torch

from qkv.common.ragged import Ragged


def spaced(lengths, spare, *, pitch=None):
    """Sequences one after the other, each with some spare rows behind it; with `pitch`, all equally far apart."""
    offsets = [0, *accumulate(length + room for length, room in zip(lengths, spare, strict=True))]
    return Ragged(
        offsets=torch.tensor(offsets, dtype=torch.int32),
        lengths=torch.tensor(lengths, dtype=torch.int32),
        max_length=max(lengths),
        num_rows=offsets[-1],
        pitch=pitch,
        packed=False,
    )
