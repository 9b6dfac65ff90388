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
    """Apply `change` to every leaf and return the new tree."""
    if isinstance(batch, Tensor | Ragged):
        return change(batch)  # type: ignore[return-value]
    if dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        fields = {f.name: mapped(getattr(batch, f.name), change) for f in dataclasses.fields(batch) if f.init}
        return dataclasses.replace(batch, **fields)
    if isinstance(batch, dict):
        return {name: mapped(part, change) for name, part in batch.items()}  # type: ignore[return-value]
    return batch


def leaves(batch: object) -> Iterator[Leaf]:
    """Yield all leaves in field order."""
    if isinstance(batch, Tensor | Ragged):
        yield batch
    elif dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        for field in dataclasses.fields(batch):
            yield from leaves(getattr(batch, field.name))
    elif isinstance(batch, dict):
        for part in batch.values():
            yield from leaves(part)
