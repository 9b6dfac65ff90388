"""Whole searches by CTranslate2: greedy or with a beam."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from qkv.common.batch import Tokens
from qkv.common.errors import UsageError
from qkv.decoding.config import DecodingConfig
from qkv.decoding.hypothesis import Hypothesis
from qkv.decoding.single import OnTokens

Ids = list[int]


class Search:
    """Sequences that CTranslate2 continues, all steps in one call. It takes and gives tokens as text.

    Args:
        runs: a Translator or a Generator.
        words: the text of each token.
        numbers: the token of each text.
        batch: sources, or prompts.
    """

    device = torch.device("cpu")

    def __init__(self, runs: Any, words: Sequence[str], numbers: Mapping[str, int], batch: Tokens) -> None:
        self._runs, self._words, self._numbers = runs, words, numbers
        self._given = [self._text(ids.tolist()) for ids in batch.ids.split(batch.layout.host_lengths)]
        self._translates = hasattr(runs, "translate_batch")
        self.first = batch.ids[batch.layout.last]

    def search(
        self,
        first: Tensor,
        *,
        end_id: int,
        limits: Sequence[int],
        config: DecodingConfig,
        prefixes: Sequence[Sequence[int]] | None,
        on_tokens: OnTokens | None,
    ) -> list[list[Hypothesis]]:
        """Decode the batch. A sequence that would go beyond its own limit is cut there."""
        del first
        _check(config)
        begun = [self._text(ids) for ids in prefixes] if prefixes and any(map(len, prefixes)) else None
        if begun and not self._translates:
            raise UsageError("CTranslate2 takes no prefix for a language model: write it at the end of the prompt")
        found = self._searched(config, end_id, max(limits, default=0), begun)
        cut = [[ids[:limit] for ids in several] for several, limit in zip(found, limits, strict=True)]
        if on_tokens is not None:
            cut = [[ids] for ids in _reported([several[0] for several in cut], end_id, on_tokens)]
        return self._hypotheses(cut, config, end_id)

    def _searched(self, config: DecodingConfig, end_id: int, most: int, begun: Any) -> list[list[Ids]]:
        options: dict[str, Any] = {
            "beam_size": config.beam,
            "num_hypotheses": config.nbest,
            "length_penalty": config.length_penalty if config.beam > 1 else 0,
            "repetition_penalty": config.repetition_penalty,
            "no_repeat_ngram_size": config.no_repeat_ngram,
            "return_end_token": True,
        }
        least = config.min_length
        if end_id >= 0:
            options["end_token"] = [end_id]
        else:  # CTranslate2 always has an end token; it comes last at the earliest
            least = most
        if self._translates:
            options |= {"max_decoding_length": most, "min_decoding_length": least, "max_input_length": 0}
            found = self._runs.translate_batch(self._given, target_prefix=begun, **options)
            texts = [one.hypotheses for one in found]
        else:
            options |= {"max_length": most, "min_length": least, "include_prompt_in_result": False}
            texts = [one.sequences for one in self._runs.generate_batch(self._given, **options)]
        return [[[self._numbers[word] for word in words] for words in several] for several in texts]

    def _hypotheses(self, found: list[list[Ids]], config: DecodingConfig, end_id: int) -> list[list[Hypothesis]]:
        """Score what was found, token by token."""
        scores = iter(self._scores([(at, ids) for at, several in enumerate(found) for ids in several], end_id))
        each = []
        for several in found:
            made = []
            for ids in several:
                each_token, ended = next(scores), bool(ids) and ids[-1] == end_id
                length = max(1, len(each_token)) ** (config.length_penalty if config.beam > 1 else 0)
                made.append(Hypothesis(ids[: len(ids) - ended], each_token, sum(each_token) / length, ended))
            each.append(sorted(made, key=lambda one: -one.score))
        return each

    def _scores(self, said: list[tuple[int, Ids]], end_id: int) -> list[list[float]]:
        """Return the log-probability of each token. CTranslate2 scores the end of a target by itself."""
        if not any(ids for _, ids in said):
            return [[] for _ in said]
        if self._translates:
            targets = [self._text(ids[:-1] if ids and ids[-1] == end_id else ids) for _, ids in said]
            found = self._runs.score_batch([self._given[at] for at, _ in said], targets, max_input_length=0)
        else:
            texts = [self._given[at] + self._text(ids) for at, ids in said]
            found = self._runs.score_batch(texts, max_input_length=0)
        each = [list(one.log_probs) for one in found]
        if self._translates:
            return [scores[: len(ids)] for scores, (_, ids) in zip(each, said, strict=True)]
        return [scores[len(scores) - len(ids) :] for scores, (_, ids) in zip(each, said, strict=True)]

    def _text(self, ids: Sequence[int]) -> list[str]:
        return [self._words[number] for number in ids]


def _check(config: DecodingConfig) -> None:
    """Raise an error for settings that CTranslate2 lacks or applies differently."""
    if config.sample:
        raise UsageError("samples of CTranslate2 depend on the batch: use temperature 0 or a beam")
    if config.no_repeat_ngram and config.beam > 1:
        raise UsageError("CTranslate2 applies no_repeat_ngram differently in beam search: use a beam of 1")
    if config.forbidden:
        raise UsageError("CTranslate2 does not support forbidden words: use the folder that the export was made from")


def _reported(found: list[Ids], end_id: int, on_tokens: OnTokens) -> list[Ids]:
    """Report all tokens step by step, and cut the sequences that are stopped."""
    kept: list[Ids] = [[] for _ in found]
    going = set(range(len(found)))
    for step in range(max(map(len, found), default=0)):
        going = {number for number in going if step < len(found[number])}
        for number in going:
            kept[number].append(found[number][step])
        told = [(number, kept[number][-1]) for number in sorted(going) if kept[number][-1] != end_id]
        going -= set(on_tokens(told) or ()) if told else set()
    return kept
