"""Causal language modelling: predict the next token (Radford et al. 2018)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from qkv.common.batch import Following
from qkv.common.errors import UsageError
from qkv.data.config import DataConfig
from qkv.data.store import Store
from qkv.evaluation.score import Score
from qkv.objectives.language import NextToken
from qkv.objectives.parts import IGNORED
from qkv.tasks.base import Array, Collate, Context, has_decoder, has_head
from qkv.tasks.causal_rules import RULES
from qkv.tasks.exam import Exam
from qkv.tasks.facts import Rule
from qkv.tasks.language import WindowTask
from qkv.tasks.longer import perplexities
from qkv.tasks.perplexity import score_text


class CausalTask(WindowTask):
    """Every token of a window is a target, except the first token of each document."""

    distilled_by: ClassVar[str] = "tune-gpt"
    Settings: ClassVar[type[Any]] = NextToken
    specials: ClassVar[str] = "gpt"
    heads: ClassVar[tuple[str, ...]] = ("lm",)
    slides: ClassVar[bool] = True
    rules: ClassVar[Mapping[str, Rule]] = RULES

    def check_model(self, model: nn.Module, context: Context) -> None:
        """Refuse a model that does not continue a text."""
        super().check_model(model, context)
        check_causal(model)

    def folder_facts(self, context: Context) -> dict[str, Any]:
        """Generate by default as the model that this one starts from."""
        return super().folder_facts(context) | {"generation": context.generation}

    def ended(self, ids: list[int], context: Context) -> list[int]:
        """Append the end token, since GPT's tokenizer adds no special tokens itself."""
        end = context.text.specials.get("end")
        return ids if end is None or ids[-1:] == [end] else [*ids, end]

    def collate(self, store: Store, context: Context) -> Collate:
        """The target of each token is the next token; the last token of a piece has none."""
        windows = self.windows(store, context)

        def make(rows: Array, rng: np.random.Generator) -> Following:
            flat, lengths = windows.gather(rows)
            wanted = np.append(flat[1:], IGNORED).astype(np.int64)
            wanted[np.cumsum(lengths) - 1] = IGNORED
            tokens = self.placed(flat, lengths, windows, context, rng)
            return Following(tokens, torch.from_numpy(wanted))

        return make

    @classmethod
    def can_score(cls, model: Any) -> bool:
        """Whether the model is a decoder that predicts the next token."""
        return has_head(model, "lm") and not has_decoder(model)

    @classmethod
    def default_data(cls, model: Any) -> DataConfig:
        """A language model reads the longest windows it supports."""
        return DataConfig(max_length=model.config.max_length)

    def score(self, exam: Exam) -> list[Score]:
        """Return the perplexity per token, word and byte."""
        return score_text(self, exam)

    def score_longer(self, exam: Exam, times: Sequence[int]) -> list[Score | None]:
        """Return the perplexity in windows longer than in training."""
        return perplexities(self, exam, times)


def check_causal(model: nn.Module) -> None:
    """Raise an error for an encoder-decoder, which reads a source and not the beginning of a text."""
    if getattr(model, "decoder", None) is not None:
        raise UsageError("this task needs a model that continues a text, such as a GPT, not an encoder-decoder")
