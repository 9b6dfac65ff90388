"""A stack whose work the CPU engine does: whether it may do so now, and its weights, packed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from qkv.native import library
from qkv.nn import kernels
from qkv.nn.feedforward import ACTIVATIONS
from qkv.nn.gates import has_gates
from qkv.nn.stack import Stack
from qkv.nn.tap import recorders

T = TypeVar("T")
NAMES = {function: name for name, function in ACTIVATIONS.items() if name in library.ACTIVATIONS}


class Packed(Generic[T]):
    """Parts of a model and a packed copy of their weights.

    Args:
        pack: packs the weights as they are now.
        stack: the layers.
        others: further modules whose work the engine does.
    """

    def __init__(self, pack: Callable[[], T], stack: Stack, others: Callable[[], Sequence[Any]] = tuple) -> None:
        self._pack, self._stack, self._others = pack, stack, others
        self._modules = [*stack.modules(), *others()]
        self._parts = self._find_parts()
        self._found: T | None = None
        self._versions: list[tuple[Tensor, int]] = []  # parameters and their versions

    def forget(self) -> None:
        """Drop the packed weights: fused optimizers change weights without counting a version."""
        self._found = None

    def usable(self) -> bool:
        """Whether nobody watches, and the parts are those that the model was built with."""
        unwatched = (
            not recorders()
            and not has_gates()
            and not any(m._forward_hooks or m._forward_pre_hooks for m in self._modules)
        )
        parts = self._find_parts()
        same = len(parts) == len(self._parts) and all(old is new for old, new in zip(self._parts, parts, strict=True))
        automatic = all(getattr(part, "kernel", kernels.automatic) is kernels.automatic for part in parts)
        return unwatched and same and automatic

    def current(self) -> T:
        """Return the packed weights; they are packed again if somebody has changed the model's."""
        now = [(p, p._version) for part in self._parts for p in part._parameters.values() if p is not None]
        old = self._versions
        same = len(old) == len(now) and all(p is q and v == w for (p, v), (q, w) in zip(old, now, strict=True))
        found = self._found
        if found is None or not same:
            found = self._found = self._pack()
            self._versions = now
        return found

    def _find_parts(self) -> list[Any]:
        """List the modules whose work the engine does, as they are now."""
        found: list[Any] = [self._stack.norm, *self._others()]
        for block in self._stack.blocks:
            for sublayer in block._modules.values():  # asked before each pass, so without nn.Module's own iterators
                if sublayer is not None:
                    inside: dict[str, Any] = sublayer._modules
                    found += [inside["part"], *inside["part"]._modules.values(), inside["norm"]]
        return found


def plain(x: Tensor) -> bool:
    """Whether a tensor is one that the engine takes."""
    return not x.is_cuda and x.dtype == torch.float32 and len(x) > 0


def has_norms(block: Any) -> bool:
    """Whether all norms of a layer are LayerNorms with a bias."""
    parts = (block.attention, block.feedforward, block.cross)
    return all(type(part.norm) is nn.LayerNorm and part.norm.bias is not None for part in parts if part is not None)
