"""Choose the layers that a model misses least: drop the one whose absence costs least, measure again, drop the next.

Removing one layer at a time and measuring anew is the greedy variant of Sajjad et al. (2023), On the Effect of Dropping
Layers of Pre-trained Transformer Models. Without examples to measure on, the top layers go, which they found best among
the choices that need no data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from qkv.common.errors import system_errors
from qkv.compression.layers import check_layers, drop_layers, stacks
from qkv.data.config import DataConfig
from qkv.exams.importance import loss_on
from qkv.predict import Model


def top_layers(model: Model, name: str, count: int) -> list[int]:
    """Return the last layers of a stack."""
    check_layers(model.contents, name, count)
    depth = stacks(model.contents)[name].depth
    return list(range(depth - count, depth))


@system_errors()
def least_layers(
    model: Model,
    name: str,
    count: int,
    paths: Sequence[str],
    data: DataConfig | None,
    *,
    examples: int,
    given: Sequence[Any] | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[int]:
    """Return the layers whose absence adds least to the loss of the task that scores the model.

    Args:
        model: the model.
        name: the stack: "stack", or "encoder" or "decoder".
        count: how many layers to choose.
        paths: files with the correct answers.
        data: how to read the files, as in `evaluate`.
        examples: how many examples to read from the start of the files.
        given: the examples, instead of those in `paths`.
        progress: called with 1 for each layer that is tried.
    """
    check_layers(model.contents, name, count)
    loss, batches, _ = loss_on(model, paths, data, examples, given)
    chosen: list[int] = []
    for _ in range(count):
        left = [layer for layer in range(stacks(model.contents)[name].depth) if layer not in chosen]
        costs = {}
        for layer in left:
            costs[layer] = _mean(drop_layers(model.contents, name, [*chosen, layer]).model, batches, loss)
            if progress is not None:
                progress(1)
        chosen.append(min(left, key=lambda layer: (costs[layer], -layer)))  # of equals, the highest
    return sorted(chosen)


@torch.inference_mode()
def _mean(module: nn.Module, batches: Sequence[Any], loss: Callable[[nn.Module, Any], tuple[Tensor, int]]) -> float:
    found = [loss(module, batch) for batch in batches]
    return sum(float(total) for total, _ in found) / max(1, sum(count for _, count in found))
