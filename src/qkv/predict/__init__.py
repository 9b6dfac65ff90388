"""`qkv.load(folder)`: an object with the verbs its model supports."""

from __future__ import annotations

from qkv.predict.batching import TOKENS_PER_BATCH
from qkv.predict.facts import describe
from qkv.predict.loading import build, find, info, load, save
from qkv.predict.model import Model
from qkv.predict.translation import Translation

__all__ = ["TOKENS_PER_BATCH", "Model", "Translation", "build", "describe", "find", "info", "load", "save"]
