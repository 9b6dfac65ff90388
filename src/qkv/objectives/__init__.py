"""What to learn: a model and a batch to losses. An objective knows a model only by its states and its heads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qkv.objectives.classify import Classify, ClassifyAny, Regress
from qkv.objectives.contrastive import CosineScore, Match
from qkv.objectives.language import MaskedToken, NextToken
from qkv.objectives.mixture import Mixture
from qkv.objectives.parts import IGNORED, Losses, Objective, weighted
from qkv.objectives.replaced import ReplacedToken
from qkv.objectives.span import AnswerSpan
from qkv.objectives.tag import Tag
from qkv.objectives.translate import Translate
from qkv.objectives.words import Cbow, Glove, SkipGram

# Frozen dataclasses of plain numbers: `common.config.from_dict` makes each from a recipe.
OBJECTIVES: dict[str, Callable[..., Any]] = {
    "next-token": NextToken,
    "masked-token": MaskedToken,
    "replaced-token": ReplacedToken,
    "translate": Translate,
    "classify": Classify,
    "classify-any": ClassifyAny,
    "regress": Regress,
    "tag": Tag,
    "answer-span": AnswerSpan,
    "match": Match,
    "cosine-score": CosineScore,
    "skip-gram": SkipGram,
    "cbow": Cbow,
    "glove": Glove,
}

__all__ = [
    "IGNORED",
    "OBJECTIVES",
    "AnswerSpan",
    "Cbow",
    "Classify",
    "ClassifyAny",
    "CosineScore",
    "Glove",
    "Losses",
    "MaskedToken",
    "Match",
    "Mixture",
    "NextToken",
    "Objective",
    "Regress",
    "ReplacedToken",
    "SkipGram",
    "Tag",
    "Translate",
    "weighted",
]
