"""Language modelling: the next token, or the masked ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from qkv.common.batch import Following, Masked
from qkv.common.errors import UsageError
from qkv.common.outputs import LossOutput
from qkv.common.protocols import Scored
from qkv.objectives.entropy import cross_entropy
from qkv.objectives.parts import Losses, Soft, count_targets
from qkv.objectives.r_drop import CrossEntropy
from qkv.objectives.soft import soft_classes

Masks = tuple[Tensor, Tensor | None]  # the logits of the masked rows, and of the pairs


@dataclass(frozen=True, kw_only=True)
class NextToken(CrossEntropy):
    """Predict the next token (Radford et al. 2018, equation 1)."""

    part: ClassVar[str] = "lm"

    def targets(self, batch: Following) -> Tensor:
        """Return the next tokens. Shape: [T]."""
        return batch.wanted

    def logits(self, model: Scored, batch: Following, twice: bool) -> Tensor:
        """Compute the logits of every row. Shape: [T or 2T, V]."""
        return model.logits(model(batch.tokens.twice() if twice else batch.tokens), "lm")


@dataclass(frozen=True, kw_only=True)
class MaskedToken:
    """Predict masked tokens and, optionally, whether the second sentence follows the first (Devlin et al. 2019).

    Attributes:
        next_sentence: add next-sentence prediction, as in BERT. RoBERTa and ELECTRA do without it.
    """

    next_sentence: bool = False

    @property
    def weights(self) -> dict[str, float]:
        """The paper adds the two means as they are."""
        return {"mlm": 1.0, "nsp": 1.0} if self.next_sentence else {"mlm": 1.0}

    def counts(self, batch: Masked) -> dict[str, Tensor]:
        """Count masked tokens, and pairs."""
        found = {"mlm": count_targets(batch.wanted)}
        if self.next_sentence:
            found["nsp"] = count_targets(self._pairs(batch))
        return found

    def __call__(self, model: Scored, batch: Masked) -> Losses:
        """Score the masked rows only: the vocabulary is the widest layer, and 85 % of the rows are not masked."""
        return self.losses(self.said(model, batch), batch)

    def said(self, model: Scored, batch: Masked) -> Masks:
        """Compute the logits of the masked rows, and of the pairs. Shape: [M, V], [B, 2]."""
        if not self.next_sentence:
            return model.head("mlm")(model.states_at(batch.tokens, batch.rows), model.table), None
        hidden = model(batch.tokens)
        return model.head("mlm")(hidden.states[batch.rows], model.table), model.logits(hidden, "nsp")

    def losses(self, said: Masks, batch: Masked) -> Losses:
        """Compute the cross-entropies."""
        tokens, pairs = said
        found = {"mlm": cross_entropy(tokens, batch.wanted)}
        return found if pairs is None else found | {"nsp": cross_entropy(pairs, self._pairs(batch))}

    def soft(self, said: Masks, taught: Masks, batch: Masked, how: Soft) -> LossOutput:
        """Compare the tokens that may stand behind each mask."""
        return soft_classes(said[0], taught[0], batch.wanted, how)

    def _pairs(self, batch: Masked) -> Tensor:
        if batch.pairs is None:
            raise UsageError("next_sentence needs pairs of sentences, and the batch has none")
        return batch.pairs
