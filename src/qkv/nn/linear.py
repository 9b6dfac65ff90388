"""Products with weights, in one place.

Every part of `nn/` and `models/` multiplies by calling a `Linear`, or a `TableProduct` where the weights belong to
somebody else (a token table); nobody reads their weights to multiply by hand. So a quantised or sharded product stands
in for each of them by answering the same calls: see `replace_products`.

A kernel that needs the weights themselves (small_batch_decode.py) looks whether the product is this `Linear` and not
another, and leaves the layer to the ordinary path otherwise.
"""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn


class Linear(nn.Linear):
    """torch's linear layer, which can also compute some of its columns."""

    def part(self, x: Tensor, start: int, stop: int) -> Tensor:
        """Compute columns start ... stop - 1 of the product. Shape: [T, D] -> [T, stop - start]."""
        return F.linear(x, self.weight[start:stop], None if self.bias is None else self.bias[start:stop])


class TableProduct(nn.Module):
    """A product with a table that another part owns. It holds no weights of its own."""

    def forward(self, x: Tensor, table: Tensor, bias: Tensor | None = None) -> Tensor:
        """Shape: [T, D], [V, D], [V] -> [T, V]."""
        return F.linear(x, table, bias)


def replace_products(model: nn.Module, make: Callable[[str, Linear | TableProduct], nn.Module]) -> None:
    """Put `make(name, product)` in the place of every product with weights.

    What stands there answers the calls of what it replaces: `product(x)` and `product.part(x, start, stop)` for a
    `Linear`, `product(x, table, bias)` for a `TableProduct`. Recurrent cells and patch convolutions are torch's own and
    stay.
    """
    found = {name: module for name, module in model.named_modules() if isinstance(module, Linear | TableProduct)}
    for name, module in found.items():
        model.set_submodule(name, make(name, module))
