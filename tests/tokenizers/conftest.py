"""One small corpus, and the tokenizers that are trained on it, each once."""

from functools import lru_cache

import pytest

from qkv.tokenizers.training import TokenizerConfig, train_tokenizer

CORPUS = [
    "The cat sat on the mat, and the dog ran home.",
    "Two dogs play in the snow; the cats don't.",
    "Der Hund lief nach Hause, weil es schneite.",
    "Le chat était assis « là » : où ça ?",
    "A naïve café owner paid 1,234.56 € for (old) tea!",
    "tabs\tand\nnew lines",
    "中文 and 日本語",
] * 4


@lru_cache
def train(kind, vocab_size=450, **changes):
    return train_tokenizer(CORPUS, TokenizerConfig(kind=kind, vocab_size=vocab_size, **changes))


@pytest.fixture(scope="session")
def trained():
    """Train a tokenizer on the corpus, or give the one that is there already."""
    return train


@pytest.fixture(scope="session")
def corpus():
    return list(CORPUS)
