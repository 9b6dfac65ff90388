"""Small batches of every kind that has a fixed form, with a model and an objective for each."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from qkv.common.batch import Following, Labelled, Masked, Pairs, Spans, Tokens, Translated
from qkv.models import catalogue
from qkv.models.electra import ElectraPair, build_pair
from qkv.objectives.classify import Classify
from qkv.objectives.language import MaskedToken, NextToken
from qkv.objectives.replaced import ReplacedToken
from qkv.objectives.span import AnswerSpan
from qkv.objectives.tag import Tag
from qkv.objectives.translate import Translate
from tests.contracts.entries import shrink


def tokens(lengths: list[int], seed: int = 0) -> Tokens:
    chance = torch.Generator().manual_seed(seed + sum(lengths))
    return Tokens.of([torch.randint(5, 30, (n,), generator=chance).tolist() for n in lengths])


def translated(lengths: list[int]) -> Translated:
    source, target = tokens(lengths), tokens([n + 1 for n in reversed(lengths)])
    return Translated(Pairs(source, target), target.ids.roll(-1))


def masked(lengths: list[int]) -> Masked:
    found = tokens(lengths)
    rows = torch.arange(0, len(found.ids), 3)
    return Masked(found, rows, found.ids[rows])


def answered(lengths: list[int]) -> Spans:
    return Spans(tokens(lengths), torch.tensor([n // 3 for n in lengths]), torch.tensor([n // 2 for n in lengths]))


KINDS: dict[str, tuple[str, Any, Any, dict[str, Any]]] = {
    "translated": ("transformer-base", translated, Translate(), {}),
    "following": ("gpt2", lambda n: Following(tokens(n), tokens(n).ids.roll(-1)), NextToken(), {}),
    "following twice": (
        "gpt2",
        lambda n: Following(tokens(n), tokens(n).ids.roll(-1)),
        NextToken(r_drop=1.0),
        {},
    ),
    "masked": ("bert-base", masked, MaskedToken(), {"heads": ["mlm"]}),
    "labelled": (
        "bert-base",
        lambda n: Labelled(tokens(n), torch.arange(len(n)) % 2),
        Classify(),
        {"heads": ["classify"]},
    ),
    "answered": ("bert-base", answered, AnswerSpan(), {"heads": ["span"]}),
    "read twice": ("bert-base", answered, AnswerSpan(r_drop=1.0), {"heads": ["span"]}),
    "phrases": (
        "bert-base",
        lambda n: Labelled(tokens(n), tokens(n).ids % 2),
        Tag(r_drop=1.0),
        {"heads": ["tag"], "conv_width": 3},
    ),
    "tagged": ("bert-base", lambda n: Labelled(tokens(n), tokens(n).ids % 2), Tag(), {"heads": ["tag"]}),
}


def replaced_model(objective: ReplacedToken) -> ElectraPair:
    """A generator and a discriminator: no preset is a pair."""
    sizes = [shrink(catalogue.preset(name), dropout=0.0) for name in ("electra-small-generator", "electra-small")]
    heads = ("replaced", "mlm") if objective.keep_every else ("replaced",)
    return build_pair(generator=sizes[0], discriminator=dataclasses.replace(sizes[1], heads=heads))


REPLACED = {  # they draw the best guess: the same however many rows there are
    "replaced": ReplacedToken(temperature=1e-6),
    "kept": ReplacedToken(temperature=1e-6, keep_every=2),
}
