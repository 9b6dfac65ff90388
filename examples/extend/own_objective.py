"""Add your own objective: the focal loss (Lin et al. 2017), which gives easy examples less weight.

Run it: python examples/extend/own_objective.py
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import qkv
from qkv.common.batch import Labelled
from qkv.common.outputs import LossOutput
from qkv.objectives.parts import Losses, count_targets


@dataclass(frozen=True, kw_only=True)
class Focal:
    """(1 - p)^gamma · -log p, where p is the probability of the correct class.

    Attributes:
        gamma: how strongly to reduce the weight of easy examples; 0 is cross-entropy.
    """

    gamma: float = 2.0

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each part of the loss."""
        return {"focal": 1.0}

    def counts(self, batch: Labelled) -> dict[str, Tensor]:
        """The number of targets of each part."""
        return {"focal": count_targets(batch.labels)}

    def __call__(self, model: Any, batch: Labelled) -> Losses:
        """Return each part as a sum and a count, so that the loss does not depend on the micro-batches of a step."""
        logits = model.logits(model.states_for(batch.inputs, "classify"), "classify").float()
        asked = batch.labels >= 0  # a static shape adds padding sequences without a label
        log_p = logits.log_softmax(-1).gather(-1, batch.labels.clamp_min(0).unsqueeze(-1)).squeeze(-1)
        losses = -((1 - log_p.exp()) ** self.gamma) * log_p
        return {"focal": LossOutput(losses.masked_fill(~asked, 0).sum(), asked.sum())}


def main() -> None:
    """Train a small classifier with the focal loss."""
    with tempfile.TemporaryDirectory() as place:
        table = Path(place) / "reviews.tsv"
        rows = [f"{'good' if n % 2 else 'bad'} film number {n}\t{'pos' if n % 2 else 'neg'}" for n in range(200)]
        table.write_text("\n".join(["text\tlabel", *rows]) + "\n")
        changes = {"data.train": str(table), "model.preset": "bert-tiny", "out": f"{place}/run", "optim.lr": 5e-3}
        sizes = {
            "model.set": {"dim": 32, "num_heads": 2, "ff_dim": 64},
            "tokenizer.vocab_size": 200,
            "train.tokens": 256,
        }
        losses: list[float] = []
        qkv.train(
            "classify",
            objective=Focal(gamma=1.0),
            callbacks=[lambda _, values: losses.append(values["loss"]) if "loss" in values else None],
            changes={**changes, **sizes, "train.epochs": 10},
            device="cpu",
        )
        model = qkv.load(f"{place}/run", device="cpu")
        answers = [label.label for label in model.classify(["good film number 300", "bad film number 301"])]
        print(f"focal loss {losses[0]:.3f} -> {losses[-1]:.3f}; {answers}")


if __name__ == "__main__":
    torch.manual_seed(0)
    main()
