"""How likely a model finds tokens, each given those before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from qkv.common.outputs import Hidden
from qkv.predict.batching import Ids
from qkv.predict.runner import Runner

ROWS = 256  # tokens whose logits are held in memory at a time


def log_probs(model: Runner, ids: Ids, target_ids: Ids | None = None) -> list[Tensor]:
    """Return log p of each token but the first of every sequence; with `target_ids`, of each target."""
    return _measured(
        model, ids, target_ids, lambda logits, wanted: -F.cross_entropy(logits, wanted, reduction="none").double()
    )


def likeliest(model: Runner, ids: Ids, target_ids: Ids | None = None, *, top: int) -> list[Tensor]:
    """Return the most likely tokens in the place of each token but the first, and their probabilities.

    Shape of each: [L - 1, top, 2].
    """

    def measure(logits: Tensor, wanted: Tensor) -> Tensor:
        del wanted
        best = logits.softmax(-1).topk(min(top, logits.shape[-1]))
        return torch.stack([best.indices.double(), best.values.double()], -1)

    return _measured(model, ids, target_ids, measure)


def _measured(
    model: Runner, ids: Ids, target_ids: Ids | None, measure: Callable[[Tensor, Tensor], Tensor]
) -> list[Tensor]:
    """Run the model, and measure the logits of each row against the token that follows it."""
    wanted: list[Tensor] = []

    def states(batch: Any) -> Hidden:
        wanted.append((batch if target_ids is None else batch.target).ids.roll(-1))
        return model.module(batch)

    def finish(hidden: Hidden) -> list[Tensor]:
        rows = zip(hidden.states.split(ROWS), wanted.pop().split(ROWS), strict=True)
        scores = ((model.module.logits(Hidden(some, hidden.layout), "lm").float(), right) for some, right in rows)
        found = torch.cat([measure(logits, right) for logits, right in scores])
        return [one[:-1] for one in hidden.layout.split(found)]

    return model.run(ids, states, finish, target_ids=target_ids)
