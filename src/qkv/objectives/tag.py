"""A label for each token: names, parts of speech."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from qkv.common.batch import Labelled
from qkv.common.protocols import Scored
from qkv.objectives.entropy import cross_entropy
from qkv.objectives.parts import Losses, number_asked


@dataclass(frozen=True, kw_only=True)
class Tag:
    """One class for each token; the later pieces of a word and the special tokens are not asked for."""

    @property
    def weights(self) -> dict[str, float]:
        """One part."""
        return {"tag": 1.0}

    def counts(self, batch: Labelled) -> dict[str, Tensor]:
        """Count the targets."""
        return {"tag": number_asked(batch.labels)}

    def __call__(self, model: Scored, batch: Labelled) -> Losses:
        """Score every row."""
        return {"tag": cross_entropy(model.logits(model(batch.inputs), "tag"), batch.labels)}
