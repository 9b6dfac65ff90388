"""The Hugging Face format of each model family."""

from __future__ import annotations

from qkv.checkpoints.hf import bert, gpt2, marian, t5, vit
from qkv.checkpoints.hf.rules import Format

FORMATS: dict[str, Format] = {
    "bert": bert.FORMAT,
    "gpt": gpt2.FORMAT,
    "t5": t5.FORMAT,
    "transformer": marian.FORMAT,
    "vit": vit.FORMAT,
}
