"""Linear layers: the only place where models multiply by their weights.

Every part of `nn/` and `models/` multiplies by calling a `Linear`, or a `TableProduct` if another part owns the weights
(a token table). No part reads these weights to multiply by hand, so you can replace each product with a quantised or
sharded one that has the same interface: see `replace_products`.

A kernel that reads the weights itself (small_batch_decode.py) runs only if the product is exactly this `Linear`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ALIGNED = 64  # scores in a row of a padded product


class Linear(nn.Linear):
    """torch's linear layer, with a method to compute only some of its outputs."""

    def part(self, x: Tensor, start: int, stop: int) -> Tensor:
        """Compute outputs start ... stop - 1. Shape: [T, D] -> [T, stop - start]."""
        return F.linear(x, self.weight[start:stop], None if self.bias is None else self.bias[start:stop])


class TableProduct(nn.Module):
    """A product with a table that another module owns; it has no weights of its own.

    On a GPU, rows of scores that do not begin at multiples of 16 bytes make the matrix product several times as slow
    (GPT-2's 50,257 words). In training, the table is padded, and the scores are a view without the padding.
    """

    def forward(self, x: Tensor, table: Tensor, bias: Tensor | None = None) -> Tensor:
        """Shape: [T, D], [V, D], [V] -> [T, V]."""
        lacking = -len(table) % ALIGNED
        if not (lacking and x.is_cuda and torch.is_grad_enabled()):
            return F.linear(x, table, bias)
        padded = None if bias is None else F.pad(bias, (0, lacking))
        return F.linear(x, F.pad(table, (0, 0, 0, lacking)), padded)[:, : len(table)]


def replace_products(model: nn.Module, make: Callable[[str, Linear | TableProduct], nn.Module]) -> None:
    """Replace every `Linear` and `TableProduct` with `make(name, product)`.

    The replacement must support the same calls: `product(x)` and `product.part(x, start, stop)` for a `Linear`,
    `product(x, table, bias)` for a `TableProduct`. Recurrent cells and patch convolutions are not replaced.
    """
    found = {name: module for name, module in model.named_modules() if isinstance(module, Linear | TableProduct)}
    for name, module in found.items():
        model.set_submodule(name, make(name, module))
