"""Token classification: names, parts of speech."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from qkv.common.batch import Labelled
from qkv.common.protocols import Scored
from qkv.objectives.r_drop import CrossEntropy


@dataclass(frozen=True, kw_only=True)
class Tag(CrossEntropy):
    """One class for each token; the later pieces of a word and special tokens are ignored."""

    part: ClassVar[str] = "tag"

    def targets(self, batch: Labelled) -> Tensor:
        """Return the tags. Shape: [T]."""
        return batch.labels

    def logits(self, model: Scored, batch: Labelled, twice: bool) -> Tensor:
        """Compute the logits of each row. Shape: [T or 2T, C]."""
        return model.logits(model(batch.inputs.twice() if twice else batch.inputs), "tag")
