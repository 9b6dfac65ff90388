"""Beam search (Graves 2012; Sutskever et al. 2014): the best few partial hypotheses of each sequence, side by side.

    rows of a source       best 2 · beam continuations
    a ──► a x, a y, a END     ┌─ a x    -1.2 ──► next row 0
    b ──► b x, b z, b END ──► ├─ b END  -1.4 ──► finished, if among the best `beam`
                              ├─ a y    -1.9 ──► next row 1
                              └─ ...

The rules (what finishes, what continues, when to stop) are in `rules.py`. The search knows a model only as a `Stepper`,
which holds everything but the last token of each row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from qkv.common.protocols import Stepper
from qkv.decoding.beam_state import DEAD, Beam, Candidate, Node
from qkv.decoding.hypothesis import Hypothesis
from qkv.decoding.logits_processors import History, LogitsProcessor
from qkv.decoding.rules import BeamRules
from qkv.decoding.topk import logsumexp, topk


def beam_search(
    stepper: Stepper,
    ids: Tensor,
    *,
    limits: Sequence[int],
    processors: Sequence[LogitsProcessor],
    history: History,
    rules: BeamRules,
) -> list[list[Hypothesis]]:
    """Decode each sequence to its n best hypotheses; a finished sequence leaves the batch at once."""
    beams = [Beam(limit, rules) for limit in limits]
    running, length = beams, 0
    going = [[Candidate(0, beam.rows[0])] if beam.limit else [] for beam in beams]
    while any(going):
        order = _advance(running, going)
        running = [beam for beam, goes in zip(running, going, strict=True) if goes]
        rows = torch.tensor(order, device=stepper.device)
        stepper.reorder(rows)
        if length:
            ids = torch.tensor([node.token for beam in running for node in beam.rows], device=stepper.device)
        else:
            ids = ids[rows]
        if processors:
            history = history.then(rows, ids) if length else history.select(rows)
        length += 1
        chosen = _best(stepper, ids, processors, history, rules.num_candidates)
        found = _candidates(*chosen, running, rules.num_candidates)
        going = [beam.take(candidates, length) for beam, candidates in zip(running, found, strict=True)]
    return [beam.finished or [Hypothesis.empty()] for beam in beams]


def _advance(running: list[Beam], going: list[list[Candidate]]) -> list[int]:
    """Give each beam its next rows, the same number for all; returns the row that each of them continues."""
    width, widest = len(running[0].rows), max(map(len, going))
    order = []
    for place, (beam, goes) in enumerate(zip(running, going, strict=True)):
        if goes:
            goes = goes + [DEAD] * (widest - len(goes))
            beam.rows = [node for _, node in goes]
            order += [place * width + row for row, _ in goes]
    return order


def _best(
    stepper: Stepper, ids: Tensor, processors: Sequence[LogitsProcessor], history: History, count: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Find the best `count` tokens of each row: the scores that rank them, the tokens, and their log-probabilities.

    Shape: [R, count] each.
    """
    if not processors and (chosen := stepper.best(ids, count)) is not None:
        return *chosen, chosen[0]
    logits = stepper.step(ids).float()
    log_probs = scores = logits.sub_(logsumexp(logits))
    for processor in processors:
        scores = processor(scores, history)
    values, tokens = topk(scores, min(count, logits.shape[1]))
    return values, tokens, log_probs.gather(1, tokens)


def _candidates(
    values: Tensor, tokens: Tensor, log_probs: Tensor, running: list[Beam], count: int
) -> list[list[Candidate]]:
    """Find the best `count` continuations of each beam, best first: they are among the best of its rows."""
    before = torch.tensor([[node.total] for beam in running for node in beam.rows], device=values.device)
    totals = (before + values).view(len(running), -1)
    best_totals, place = totals.topk(min(count, totals.shape[1]))
    table = [
        (place // tokens.shape[1]).tolist(),
        tokens.view_as(totals).gather(1, place).tolist(),
        log_probs.view_as(totals).gather(1, place).tolist(),
        best_totals.tolist(),
    ]
    return [_of_beam(beam, *columns) for beam, *columns in zip(running, *table, strict=True)]


def _of_beam(
    beam: Beam, rows: list[int], tokens: list[int], log_probs: list[float], totals: list[float]
) -> list[Candidate]:
    return [
        Candidate(row, Node(token, beam.rows[row], log_prob, total))
        for row, token, log_prob, total in zip(rows, tokens, log_probs, totals, strict=True)
        if total > -math.inf
    ]
