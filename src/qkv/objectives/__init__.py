"""Objectives: from a model and a batch to losses. They use a model only through its hidden states and its heads."""

from __future__ import annotations

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

__all__ = [
    "IGNORED",
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
