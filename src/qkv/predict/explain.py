"""Explain answers: how much each word adds to one, by integrated gradients and by leaving the word out.

texts ─► cases (an answer and how it is scored) ─┬─► the same input without each word, in ragged batches ─► left_out
                                                 └─► points of a path from a blank input ─► gradient
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from qkv.common.errors import UsageError, unknown
from qkv.insight.answer_scores import Answer
from qkv.insight.explanation import Explanation, Explanations, WordEffect
from qkv.insight.integrated_gradients import baseline_states, path_gradients, points
from qkv.predict.batching import batches, pack
from qkv.predict.explain_cases import BUILDERS, Case, by_word
from qkv.predict.finite import finite
from qkv.predict.runner import Runner
from qkv.predict.texts import check_texts
from qkv.predict.verbs import verbs

STEPS = 24  # points of the integral at first: enough for 12 of 12 movie reviews; four times as many where they are not
MOST_STEPS = 384
EXACT = 0.05  # how large a gap may be, as a share of the change of the score
Progress = Callable[[int], None]


@dataclass(frozen=True)
class _Variant:
    """An input that is run: a text, or what is left of it, and the answer that it is scored for."""

    ids: list[int]
    segments: list[int]
    answer: Answer


def explain(
    model: Runner,
    texts: Sequence[str],
    pairs: Sequence[str] | None = None,
    *,
    of: str | None = None,
    verb: str | None = None,
    steps: int | None = None,
    each: bool = False,
    progress: Progress | None = None,
) -> Explanations:
    """Explain the answer to each text; see `Model.explain`."""
    model.check_layers("explain")
    check_texts("explain", texts)
    if pairs is not None and len(check_texts("explain", pairs)) != len(texts):
        raise UsageError(f"{len(texts)} texts and {len(pairs)} second texts: the numbers must be equal")
    if steps is not None and not 1 <= steps <= 4096:
        raise UsageError(f"steps must be from 1 to 4096, got {steps}")
    cases = list(BUILDERS[_verb(model, verb)](model, texts, pairs, of))
    if each:
        cases = [part for case in cases for part in by_word(model, case)]
    found = _explained(model, cases, steps) if cases else []
    if progress is not None:
        progress(len(texts))
    return Explanations(tuple(found), len(texts))


def explainable(model: Runner) -> list[str]:
    """Return the verbs whose answers can be explained, the one that is explained by default first."""
    heads = getattr(model.config, "heads", ())
    if model.tokenizer is None or model.family in ("vit", "word2vec") or model.exported:
        return []
    follows = "lm" in heads and getattr(model.module, "decoder", None) is None
    return [*(verb for verb in verbs(model) if verb in BUILDERS), *(["next"] if follows else [])]


def _verb(model: Runner, asked: str | None) -> str:
    able = explainable(model)
    if not able:
        raise UsageError(
            f"this {model.family} gives no answers that words could explain: a model that can classify, tag, answer, "
            "fill, translate or continue a text is needed"
        )
    if asked is not None and asked not in able:
        raise unknown("verb of this model", asked, able)
    return asked or able[0]


def _explained(model: Runner, cases: Sequence[Case], steps: int | None) -> list[Explanation]:
    blank = _blank(model)
    whole = [_Variant(case.read.ids, case.read.segments, case.answer) for case in cases]
    less = [_without(case, word, blank) for case in cases for word in range(len(case.read.words))]
    scores = iter(_scores(model, [*whole, *less]))
    full = list(islice(scores, len(cases)))
    left_out = [[score - next(scores) for _ in case.read.words] for case, score in zip(cases, full, strict=True)]
    bases = _baseline_scores(model, cases, whole)
    gradients, counts = _gradients(model, cases, whole, [f - b for f, b in zip(full, bases, strict=True)], steps)
    rows = zip(cases, full, bases, gradients, left_out, counts, strict=True)
    return [_explanation(*row) for row in rows]


def _explanation(
    case: Case, score: float, baseline: float, gradient: list[float], left_out: list[float], steps: int
) -> Explanation:
    read = case.read
    words = tuple(
        WordEffect(read.texts[side][start:end], start, end, side, by_gradient, by_leaving)
        for (side, start, end), by_gradient, by_leaving in zip(read.words, gradient, left_out, strict=True)
    )
    return Explanation(
        number=read.number,
        texts=read.texts,
        verb=case.verb,
        answer=case.said,
        place=case.place,
        probability=case.chance,
        score=score,
        baseline=baseline,
        scale=case.answer.scale,
        words=words,
        steps=steps,
    )


def _blank(model: Runner) -> int | None:
    """Return the token that stands for no word: the mask, else the padding, else None for a row of zeros.

    With en-de and en-fr, the ranks of gradients and of leaving out agree if it is padding, which also starts their
    targets (correlations 0.6 and 0.7), and not if it is zeros or the unknown token (0.0). For a sentiment classifier
    from MiniLM, all of these agree about as well (0.4).
    """
    specials = model.tokenizer.specials if model.tokenizer else {}
    return specials.get("mask", specials.get("pad"))


def _without(case: Case, word: int, blank: int | None) -> _Variant:
    """Leave a word out. Tokens whose own states are scored are blanked out instead, and so is an only word."""
    read, answer = case.read, case.answer
    own = [row for row, of in enumerate(read.word_of) if of == word]
    stay = set(own) if len(own) == len(read.ids) else set(own) & set(answer.reads)
    gone = set(own) - stay
    kept = [row for row in range(len(read.ids)) if row not in gone]
    fill = _filler(blank)
    return _Variant(
        ids=[fill if row in stay else read.ids[row] for row in kept],
        segments=[read.segments[row] for row in kept],
        answer=answer.moved({row: place for place, row in enumerate(kept)}),
    )


def _filler(blank: int | None) -> int:
    return 0 if blank is None else blank


def _baseline_ids(case: Case, blank: int | None) -> list[int]:
    """Return the start of the path: words blanked out (-1 is a row of zeros), the rest as it is."""
    gap = -1 if blank is None else blank
    return [gap if word >= 0 else token for token, word in zip(case.read.ids, case.read.word_of, strict=True)]


def _in_batches(model: Runner, variants: Sequence[_Variant]) -> Iterable[tuple[list[int], Any]]:
    """Yield batches of variants with their numbers, longest first, each within the token budget."""
    ids = [variant.ids for variant in variants]
    targets = [variant.answer.target for variant in variants]
    target_ids = None if targets[0] is None else [target or [] for target in targets]
    segments = [variant.segments for variant in variants] if getattr(model.config, "num_segments", 0) > 1 else None
    sizes = [len(i) + len(t or ()) for i, t in zip(ids, targets, strict=True)]
    for rows in batches(sizes, model.device):
        yield rows, pack(rows, ids, target_ids, segments, model.device)


@torch.no_grad()
def _scores(model: Runner, variants: Sequence[_Variant]) -> list[float]:
    """Score the answer of each variant."""
    found: dict[int, float] = {}
    for rows, batch in _in_batches(model, variants):
        answers = [variants[row].answer for row in rows]
        states = model.module(batch) if answers[0].target is not None else model.module.encoder_states(batch)
        found |= zip(rows, finite(answers[0].scores(model.module, states, answers)).tolist(), strict=True)
    return [found[row] for row in range(len(variants))]


def _baseline_scores(model: Runner, cases: Sequence[Case], whole: Sequence[_Variant]) -> list[float]:
    blank, found = _blank(model), dict[int, float]()
    for rows, batch in _in_batches(model, whole):
        answers = [whole[row].answer for row in rows]
        base = _flat([_baseline_ids(cases[row], blank) for row in rows], model.device)
        with torch.no_grad():
            scores = answers[0].scores(model.module, baseline_states(model.module, batch, base), answers)
        found |= zip(rows, finite(scores).tolist(), strict=True)
    return [found[row] for row in range(len(whole))]


def _gradients(
    model: Runner, cases: Sequence[Case], whole: Sequence[_Variant], changes: Sequence[float], steps: int | None
) -> tuple[list[list[float]], list[int]]:
    """Return the effect of each word of each case, with as many points as the completeness check needs."""
    found: dict[int, list[float]] = {}
    counts: dict[int, int] = {}
    open_, count = list(range(len(cases))), steps or STEPS
    while open_:
        sums = _path(model, [cases[i] for i in open_], [whole[i] for i in open_], count)
        for i, effects in zip(open_, sums, strict=True):
            found[i], counts[i] = effects, count
        if steps is not None or count >= MOST_STEPS:
            break
        open_ = [i for i in open_ if abs(sum(found[i]) - changes[i]) > EXACT * max(abs(changes[i]), 1.0)]
        count *= 4
    return [found[i] for i in range(len(cases))], [counts[i] for i in range(len(cases))]


def _path(model: Runner, cases: Sequence[Case], whole: Sequence[_Variant], steps: int) -> list[list[float]]:
    """Integrate over the path of each case; the points of all cases share batches."""
    blank, at = _blank(model), points(steps)
    bases = [_baseline_ids(case, blank) for case in cases]
    sums = [torch.zeros(len(case.read.words) + 1, dtype=torch.float64) for case in cases]
    for rows, batch in _in_batches(model, [variant for variant in whole for _ in at]):
        of = [row // steps for row in rows]
        answers = [whole[i].answer for i in of]

        def score(hidden: Any, answers: list[Answer] = answers) -> Tensor:
            return answers[0].scores(model.module, hidden, answers)

        base = _flat([bases[i] for i in of], model.device)
        slopes = path_gradients(model.module, batch, base, [at[row % steps] for row in rows], score)
        for i, part in zip(of, slopes.cpu().split([len(whole[i].ids) for i in of]), strict=True):
            sums[i].index_add_(0, torch.tensor(cases[i].read.word_of) % len(sums[i]), part)
    return [finite(one[:-1]).tolist() for one in sums]  # the last one gathers special tokens


def _flat(rows: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    return torch.tensor([token for row in rows for token in row], device=device)
