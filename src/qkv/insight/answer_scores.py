"""The score of one answer: the number whose causes an explanation looks for.

A probability near 1 hardly moves whatever you change, so classes, words and spans are scored by their log-odds,
log p / (1 - p), and a translation, whose tokens are many, by the sum of their log-probabilities.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self

import torch
from torch import Tensor

from qkv.common.outputs import Hidden
from qkv.common.ragged import Ragged
from qkv.models.skeleton import Headed


class Answer(Protocol):
    """What is scored in one sequence."""

    scale: ClassVar[str]

    @property
    def reads(self) -> tuple[int, ...]:
        """The tokens whose own states are scored; a text without them would have no such answer."""
        ...

    def moved(self, place: Mapping[int, int]) -> Self:
        """Return the same answer after tokens were left out; `place` has the new place of each token."""
        ...

    @property
    def target(self) -> list[int] | None:
        """What a decoder reads, or None."""
        ...

    @staticmethod
    def scores(model: Headed, hidden: Hidden, answers: Sequence[Any]) -> Tensor:
        """Score an answer of each sequence of a batch; all answers are of one kind. Shape: [B]."""
        ...


@dataclass(frozen=True)
class _OfSequence:
    """Base of answers of a whole sequence."""

    reads: ClassVar[tuple[int, ...]] = ()
    target: ClassVar[list[int] | None] = None

    def moved(self, place: Mapping[int, int]) -> Self:
        """Nothing moves."""
        del place
        return self


@dataclass(frozen=True)
class LabelAnswer(_OfSequence):
    """A class; with `several`, the model gives any number of them.

    Attributes:
        index: its number.
        several: whether each class has a probability of its own.
    """

    index: int
    several: bool = False
    scale: ClassVar[str] = "log-odds"

    @staticmethod
    def scores(model: Headed, hidden: Hidden, answers: Sequence[LabelAnswer]) -> Tensor:
        """Shape: [B]."""
        logits = model.logits(hidden, "classify").float()
        index = torch.tensor([answer.index for answer in answers], device=logits.device)
        if answers[0].several or logits.shape[-1] == 1:
            return logits.gather(1, index.unsqueeze(1)).squeeze(1)
        return log_odds(logits, index)


@dataclass(frozen=True)
class NumberAnswer(_OfSequence):
    """The number that a model of regression predicts."""

    scale: ClassVar[str] = "number"

    @staticmethod
    def scores(model: Headed, hidden: Hidden, answers: Sequence[NumberAnswer]) -> Tensor:
        """Shape: [B]."""
        del answers
        return model.logits(hidden, "regress").float()


@dataclass(frozen=True)
class TokenAnswer:
    """A tag of a token, or the word at a mask or after a text.

    Attributes:
        head: tag, mlm or lm.
        row: the token, or None for the last one, whatever is left out.
        index: the tag or word.
    """

    head: str
    row: int | None
    index: int
    scale: ClassVar[str] = "log-odds"
    target: ClassVar[list[int] | None] = None

    @property
    def reads(self) -> tuple[int, ...]:
        """The token."""
        return () if self.row is None else (self.row,)

    def moved(self, place: Mapping[int, int]) -> Self:
        """Follow the token."""
        return self if self.row is None else replace(self, row=place[self.row])

    @staticmethod
    def scores(model: Headed, hidden: Hidden, answers: Sequence[TokenAnswer]) -> Tensor:
        """Shape: [B]."""
        offsets, device = hidden.layout.offsets.tolist(), hidden.states.device
        rows = [
            end - 1 if answer.row is None else start + answer.row
            for answer, start, end in zip(answers, offsets, offsets[1:], strict=False)
        ]
        read = Hidden(hidden.states[torch.tensor(rows, device=device)], Ragged.of([1] * len(rows), device))
        logits = model.logits(read, answers[0].head).float()
        return log_odds(logits, torch.tensor([answer.index for answer in answers], device=device))


@dataclass(frozen=True)
class SpanAnswer:
    """An answer in a context: the sum of the log-odds of its first and its last token.

    Attributes:
        first: its first token.
        last: its last token.
    """

    first: int
    last: int
    scale: ClassVar[str] = "log-odds of start and end"
    target: ClassVar[list[int] | None] = None

    @property
    def reads(self) -> tuple[int, ...]:
        """Both tokens."""
        return self.first, self.last

    def moved(self, place: Mapping[int, int]) -> Self:
        """Follow the tokens."""
        return replace(self, first=place[self.first], last=place[self.last])

    @staticmethod
    def scores(model: Headed, hidden: Hidden, answers: Sequence[SpanAnswer]) -> Tensor:
        """Shape: [B]."""
        found = []
        for answer, logits in zip(answers, hidden.layout.split(model.logits(hidden, "span").float()), strict=True):
            index = torch.tensor([answer.first, answer.last], device=logits.device)
            found.append(log_odds(logits.T, index).sum())
        return torch.stack(found)


@dataclass(frozen=True)
class TranslationAnswer(_OfSequence):
    """A translation.

    Attributes:
        ids: its tokens, including the end.
        start_id: the token that starts it.
        only: the places of the tokens that are scored, such as those of one word; None for all.
    """

    ids: tuple[int, ...]
    start_id: int
    only: tuple[int, ...] | None = None
    scale: ClassVar[str] = "log-probability"

    @property
    def target(self) -> list[int]:  # type: ignore[override]
        """The tokens, one place later."""
        return [self.start_id, *self.ids[:-1]]

    @staticmethod
    def scores(model: Headed, hidden: Hidden, answers: Sequence[TranslationAnswer]) -> Tensor:
        """Shape: [B]."""
        ids = torch.tensor([i for answer in answers for i in answer.ids], device=hidden.states.device)
        each = model.logits(hidden, "lm").float().log_softmax(-1).gather(1, ids.unsqueeze(1)).squeeze(1)
        counted = [float(a.only is None or place in a.only) for a in answers for place in range(len(a.ids))]
        each = each * torch.tensor(counted, device=each.device)
        return each.new_zeros(len(answers)).index_add(0, hidden.layout.sequence_of, each)


def log_odds(logits_BC: Tensor, index_B: Tensor) -> Tensor:
    """Return log p / (1 - p) of one class of each row, without rounding where p is near 1. Shape: [B]."""
    own = logits_BC.gather(1, index_B.unsqueeze(1)).squeeze(1)
    return own - logits_BC.scatter(1, index_B.unsqueeze(1), -torch.inf).logsumexp(1)
