"""A batch as a tree: dataclasses and dicts, with tensors and layouts as leaves."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import TypeVar

from torch import Tensor

from qkv.common.ragged import Ragged

T = TypeVar("T")
Leaf = Tensor | Ragged


def mapped(batch: T, change: Callable[[Leaf], Leaf]) -> T:
    """Return the same tree with every leaf changed."""
    if isinstance(batch, Tensor | Ragged):
        return change(batch)  # type: ignore[return-value]
    if dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        fields = {f.name: mapped(getattr(batch, f.name), change) for f in dataclasses.fields(batch) if f.init}
        return dataclasses.replace(batch, **fields)
    if isinstance(batch, dict):
        return {name: mapped(part, change) for name, part in batch.items()}  # type: ignore[return-value]
    return batch


def leaves(batch: object) -> Iterator[Leaf]:
    """Yield every leaf, in the order of the fields."""
    if isinstance(batch, Tensor | Ragged):
        yield batch
    elif dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        for field in dataclasses.fields(batch):
            yield from leaves(getattr(batch, field.name))
    elif isinstance(batch, dict):
        for part in batch.values():
            yield from leaves(part)
