"""Tiny language models with tokenizers."""

from __future__ import annotations

from typing import Any

import torch

from qkv.checkpoints.folder import Folder
from qkv.data.phrasebook import phrasebook
from qkv.models import catalogue
from qkv.predict import Model
from qkv.tokenizers.training import TokenizerConfig, train_tokenizer

TEXTS = [english for english, _ in phrasebook(200, 1)]
SIZES: dict[str, dict[str, Any]] = {
    "gpt2": {"dim": 32, "num_layers": 2, "num_heads": 2, "ff_dim": 64, "max_length": 48},
    "t5-small": {"dim": 32, "num_layers": 2, "num_decoder_layers": 2, "num_heads": 2, "head_dim": 16, "ff_dim": 64},
}


def writer(kind: str = "byte-bpe", preset: str = "gpt2", *, std: float = 0.3, **changes: Any) -> Model:
    """A model with opinions: large weights, so that texts differ."""
    specials = "gpt" if preset == "gpt2" else "t5"
    config = TokenizerConfig(kind=kind, vocab_size=400, specials=specials, normalize="none", min_frequency=1)
    tokenizer = train_tokenizer([*TEXTS, "Ça va, Zoë? 日本語 🙂\n"], config)
    numbers = catalogue.preset(
        preset, vocab_size=tokenizer.vocab_size, end_id=tokenizer.specials["end"], **SIZES[preset] | changes
    )
    torch.manual_seed(3)
    module = catalogue.build(numbers).eval()
    for parameter in module.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=std)
    return Model(Folder(numbers, module, tokenizer), device="cpu")
