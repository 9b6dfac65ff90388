"""`qkv.load(folder)`: an object with the verbs its model supports."""

from __future__ import annotations

from qkv.insight.explanation import Explanation, Explanations
from qkv.insight.look import Look
from qkv.predict.answer import Answer
from qkv.predict.batching import TOKENS_PER_BATCH
from qkv.predict.classify import Label
from qkv.predict.facts import describe
from qkv.predict.fill import Choice
from qkv.predict.generated import Generated
from qkv.predict.loading import build, find, info, load, names_image_model, save
from qkv.predict.model import Model
from qkv.predict.score import Likelihood
from qkv.predict.tag import Entity
from qkv.predict.translation import Translation

__all__ = [
    "TOKENS_PER_BATCH",
    "Answer",
    "Choice",
    "Entity",
    "Explanation",
    "Explanations",
    "Generated",
    "Label",
    "Likelihood",
    "Look",
    "Model",
    "Translation",
    "build",
    "describe",
    "find",
    "info",
    "load",
    "names_image_model",
    "save",
]
