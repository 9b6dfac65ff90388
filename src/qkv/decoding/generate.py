"""The entry point to every search: a stepper and a config in, hypotheses out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from qkv.common.cuda.static_shape import up
from qkv.common.errors import UsageError
from qkv.common.protocols import Stepper
from qkv.decoding.beam import beam_search
from qkv.decoding.config import DecodingConfig
from qkv.decoding.hypothesis import Hypothesis
from qkv.decoding.logits_processors import (
    Forbidden,
    ForcedPrefix,
    History,
    LogitsProcessor,
    MinLength,
    MinP,
    NoRepeat,
    RepetitionPenalty,
    Temperature,
    TopK,
    TopP,
)
from qkv.decoding.recorded import recorded_search
from qkv.decoding.rules import BeamRules, StopCondition
from qkv.decoding.samplers import GreedySampler, RandomSampler
from qkv.decoding.single import OnTokens, single_search

Ids = Sequence[Sequence[int]]
ROUND = 64  # the limits of recorded searches are multiples of this
WARPERS = (Temperature, TopK, TopP, MinP)  # they look at no earlier token, so they can be recorded


@runtime_checkable
class Searcher(Protocol):
    """What takes all steps by itself."""

    def search(
        self,
        first: Tensor,
        *,
        end_id: int,
        limits: Sequence[int],
        config: DecodingConfig,
        prefixes: Ids | None,
        on_tokens: OnTokens | None,
    ) -> list[list[Hypothesis]]:
        """Decode a batch, as `generate` does."""


@torch.inference_mode()
def generate(
    stepper: Stepper | Searcher,
    first: Tensor,
    *,
    end_id: int,
    max_lengths: Sequence[int],
    config: DecodingConfig | None = None,
    prefixes: Ids | None = None,
    prompts: Ids | None = None,
    seeds: Sequence[int] | None = None,
    on_tokens: OnTokens | None = None,
) -> list[list[Hypothesis]]:
    """Decode a batch; returns the hypotheses of each sequence, best first.

    Args:
        stepper: a model that has read its sources or prompts.
        first: the first token that each sequence reads. Shape: [B].
        end_id: the token that ends a sequence, -1 for none; returned ids do not include it.
        max_lengths: the most tokens of each sequence; at its limit a sequence stops, with or without the end token.
        config: which search, and its settings.
        prefixes: tokens that each sequence must begin with; they are part of its answer.
        prompts: earlier tokens, which count for repetition and forbidden words but are not returned.
        seeds: the seed of each sequence; `config.seed` and the numbers after it if None.
        on_tokens: called with the (sequence, token) pairs of each step as they come; the sequences that it returns, if
            any, stop there. A recorded search calls it for a few steps at a time. A beam cannot stream, because it may
            still change its mind, nor can several samples of one sequence.
    """
    config = config or DecodingConfig()
    _check_sizes(len(first), max_lengths=max_lengths, prefixes=prefixes, prompts=prompts, seeds=seeds)
    if on_tokens is not None and (config.beam > 1 or config.nbest > 1):
        raise UsageError("tokens can be streamed only with beam 1 and nbest 1")
    limits = [most if config.max_length is None else min(most, config.max_length) for most in max_lengths]
    _check_prefixes(prefixes or [], limits)
    if isinstance(stepper, Searcher):
        return stepper.search(
            first, end_id=end_id, limits=limits, config=config, prefixes=prefixes, on_tokens=on_tokens
        )
    processors = processors_of(config, end_id=end_id, prefixes=prefixes, device=stepper.device)
    rules = BeamRules(config, StopCondition(end_id))
    copies = config.nbest if config.sample else 1
    limits = [limit for limit in limits for _ in range(copies)]
    random = RandomSampler(_seeds(config, len(first), seeds), limits, stepper.device) if config.sample else None
    if limits and all(isinstance(processor, WARPERS) for processor in processors):
        longest = up(max(limits), ROUND)
        if (fixed := stepper.fixed(max(config.beam, copies), longest)) is not None:
            found = recorded_search(
                fixed,
                first.repeat_interleave(copies),
                limits=limits,
                longest=longest,
                rules=rules,
                warpers=processors,
                drawn=None if random is None else random.drawn,
                on_tokens=on_tokens,
            )
            return _grouped(found, copies)
    history = History.of(prompts or [[]] * len(first), stepper.device)
    if config.beam > 1:
        return beam_search(stepper, first, limits=limits, processors=processors, history=history, rules=rules)
    if random is not None:
        rows = torch.arange(len(first), device=stepper.device).repeat_interleave(copies)
        stepper.reorder(rows)
        first, history = first[rows], history.select(rows)
    single = single_search(
        stepper,
        first,
        limits=limits,
        processors=processors,
        history=history,
        sampler=random or GreedySampler(),
        stop=rules.stop,
        on_tokens=on_tokens,
    )
    return _grouped([[one] for one in single], copies)


def _grouped(found: list[list[Hypothesis]], copies: int) -> list[list[Hypothesis]]:
    """Put the samples of each sequence together, best first."""
    if copies == 1:
        return found
    each = [found[at : at + copies] for at in range(0, len(found), copies)]
    return [sorted((one for (one,) in several), key=lambda hypothesis: -hypothesis.score) for several in each]


def _check_sizes(batch: int, **given: Sequence[object] | None) -> None:
    for name, values in given.items():
        if values is not None and len(values) != batch:
            raise UsageError(f"{batch} sequences and {len(values)} {name}: there must be as many of each")


def _check_prefixes(prefixes: Ids, limits: Sequence[int]) -> None:
    for number, (prefix, limit) in enumerate(zip(prefixes, limits, strict=True) if prefixes else []):
        if len(prefix) > limit:
            raise UsageError(f"prefix {number} has {len(prefix)} tokens, more than the max_length of {limit}")
        if min(prefix, default=0) < 0:
            raise UsageError(f"prefix {number} holds token {min(prefix)}, but a vocabulary begins at 0")


def _seeds(config: DecodingConfig, batch: int, seeds: Sequence[int] | None) -> list[int]:
    """One seed for each sample of each sequence; those of one sequence are far apart, so that neighbours differ."""
    given = range(config.seed, config.seed + batch) if seeds is None else seeds
    return [seed + (draw << 64) for seed in given for draw in range(config.nbest)]


def processors_of(
    config: DecodingConfig, *, end_id: int, prefixes: Ids | None = None, device: torch.device | str | None = None
) -> list[LogitsProcessor]:
    """List the processors that have an effect, in the order of `transformers`: constraints, then warpers."""
    processors: list[tuple[bool, Callable[[], LogitsProcessor]]] = [
        (config.repetition_penalty != 1, lambda: RepetitionPenalty(config.repetition_penalty)),
        (config.no_repeat_ngram > 0, lambda: NoRepeat(config.no_repeat_ngram)),
        (bool(config.forbidden), lambda: Forbidden(config.forbidden, device)),
        (config.min_length > 0 and end_id >= 0, lambda: MinLength(config.min_length, end_id)),
        (config.temperature != 1, lambda: Temperature(config.temperature)),
        (config.top_k > 0, lambda: TopK(config.top_k)),
        (config.top_p < 1, lambda: TopP(config.top_p)),
        (config.min_p > 0, lambda: MinP(config.min_p)),
    ]
    found = [make() for needed, make in processors if needed]
    return [ForcedPrefix(prefixes, found, device)] if prefixes and any(map(len, prefixes)) else found
