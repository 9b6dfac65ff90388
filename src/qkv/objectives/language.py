"""Language modelling: the next token, or the masked ones."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from qkv.common.batch import Following, Masked
from qkv.common.errors import UsageError
from qkv.common.outputs import LossOutput
from qkv.common.protocols import Scored
from qkv.objectives.entropy import cross_entropy
from qkv.objectives.parts import Losses, count_targets


@dataclass(frozen=True, kw_only=True)
class NextToken:
    """Predict the next token (Radford et al. 2018, equation 1)."""

    @property
    def weights(self) -> dict[str, float]:
        """One part."""
        return {"lm": 1.0}

    def counts(self, batch: Following) -> dict[str, Tensor]:
        """Count the targets."""
        return {"lm": count_targets(batch.wanted)}

    def __call__(self, model: Scored, batch: Following) -> Losses:
        """Score every row."""
        return {"lm": cross_entropy(model.logits(model(batch.tokens), "lm"), batch.wanted)}


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
        if not self.next_sentence:
            return {"mlm": self._hidden_tokens(model, model.states_at(batch.tokens, batch.rows), batch)}
        hidden = model(batch.tokens)
        return {
            "mlm": self._hidden_tokens(model, hidden.states[batch.rows], batch),
            "nsp": cross_entropy(model.logits(hidden, "nsp"), self._pairs(batch)),
        }

    def _hidden_tokens(self, model: Scored, states: Tensor, batch: Masked) -> LossOutput:
        return cross_entropy(model.head("mlm")(states, model.table), batch.wanted)

    def _pairs(self, batch: Masked) -> Tensor:
        if batch.pairs is None:
            raise UsageError("next_sentence needs pairs of sentences, and the batch has none")
        return batch.pairs
