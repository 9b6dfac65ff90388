"""Hugging Face's names for activations."""

from __future__ import annotations

from qkv.checkpoints.hf.rules import Unwritable
from qkv.common.errors import QkvError

# Their name to ours. If several map to the same one, we write the first.
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
    """Return our name for an activation in config.json."""
    if theirs not in NAMES:
        raise QkvError(f"the activation {theirs!r} is not supported (allowed: {', '.join(NAMES)})")
    return NAMES[theirs]


def theirs_of(ours: str) -> str:
    """Return the name to write to config.json."""
    for theirs, name in NAMES.items():
        if name == ours:
            return theirs
    raise Unwritable(f"Hugging Face has no activation {ours}")
