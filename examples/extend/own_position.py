"""Add your own position scheme: a learned logarithmic bias by distance (KERPLE, Chi et al. 2022).

Run it: python examples/extend/own_position.py
"""

from __future__ import annotations

import torch
from torch import nn

import qkv
from qkv.models.position import POSITIONS, PositionScheme
from qkv.nn.kernels import Bias
from qkv.nn.positions import BiasPlacement, NoPosition, Place, Placement


class LogarithmicPosition(NoPosition):
    """-r₁ · log(1 + r₂ · distance) for each head; both parameters are learned and stay positive."""

    adds_bias = True

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.r1, self.r2 = (nn.Parameter(torch.zeros(num_heads)) for _ in range(2))

    def place(self, place: Place, num_layers: int) -> list[Placement]:
        """Return the same bias for every layer: a table over distances for each head."""
        longest = max(place.keys.max_length - 1, 0)
        distance = torch.arange(-longest, longest + 1, device=self.r1.device).abs()
        r1, r2 = (nn.functional.softplus(r).unsqueeze(-1) for r in (self.r1, self.r2))
        return [BiasPlacement(Bias(-r1 * torch.log1p(r2 * distance)))] * num_layers


# One line makes it available as `position` in every family.
POSITIONS["logarithmic"] = PositionScheme(attended=lambda _, sizes: LogarithmicPosition(sizes.num_heads))


def main() -> None:
    """Build a BERT and a GPT with this position scheme."""
    sizes = {"vocab_size": 100, "dim": 32, "num_layers": 2, "num_heads": 4, "ff_dim": 64, "device": "cpu"}
    for preset in ("bert-tiny", "gpt2"):
        model = qkv.build(preset, position="logarithmic", **sizes)
        here, there = model.hidden([[5, 6, 7]])[0], model.hidden([[6, 5, 7]])[0]
        print(f"{preset}: swapping two tokens changes the third state by {float((here[2] - there[2]).norm()):.3f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    main()
