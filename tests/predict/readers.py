"""Tiny models that classify, tag, answer and fill, with tokenizers of every kind."""

from functools import lru_cache

import torch

from qkv.checkpoints.folder import Folder
from qkv.models import catalogue
from qkv.predict import Model
from tests.tokenizers.conftest import train

NER = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
POS = ("NOUN", "VERB", "DET")
SIZES = {"dim": 16, "num_heads": 2, "ff_dim": 32}


@lru_cache
def make_reader(*heads, kind="wordpiece", labels=(), max_length=40, plain=False, **facts):
    """Build a BERT with large weights, which has opinions; a plain one looks at each token by itself.

    What else its folder tells (multi_label, threshold, no_answer) is named as there.
    """
    tokenizer = train(kind, specials="bert", min_frequency=1, lowercase=kind == "wordpiece")
    numbers = {"vocab_size": tokenizer.vocab_size, "max_length": max_length, "num_labels": len(labels) or 2}
    shape = {"num_layers": 1, "position": "none"} if plain else {"num_layers": 2}
    config = catalogue.preset("bert-tiny", heads=list(heads), **numbers, **shape, **SIZES)
    torch.manual_seed(3)
    module = catalogue.build(config).eval()
    for name, parameter in module.named_parameters():
        if parameter.dim() > 1:  # large weights mix tokens until all are alike: good for classes, bad for tags
            torch.nn.init.normal_(parameter, std=0.1 if "stack" in name and "tag" in heads else 0.5)
    if plain:
        torch.nn.init.zeros_(module.stack.blocks[0].attention.part.out.weight)
    return Model(Folder(config, module, tokenizer, labels, **facts), device="cpu")
