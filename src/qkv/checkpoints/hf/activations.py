"""Hugging Face's names of activations."""

from __future__ import annotations

from qkv.checkpoints.hf.rules import Unwritable
from qkv.common.errors import QkvError

# Theirs to ours; the first of several is the one we write.
NAMES = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}


def ours_of(theirs: str) -> str:
    """Translate a name from config.json."""
    if theirs not in NAMES:
        raise QkvError(f"the activation {theirs!r} is not known (allowed: {', '.join(NAMES)})")
    return NAMES[theirs]


def theirs_of(ours: str) -> str:
    """Translate a name for config.json."""
    for theirs, name in NAMES.items():
        if name == ours:
            return theirs
    raise Unwritable(f"it has no activation {ours}")
