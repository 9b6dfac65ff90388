"""Tiny translators with tokenizers."""

import pytest
import torch

import qkv
from qkv.checkpoints.folder import Folder
from qkv.data.phrasebook import phrasebook
from qkv.models import catalogue
from qkv.predict import Model
from qkv.tokenizers.training import TokenizerConfig, train_tokenizer

SIZES = {"dim": 16, "num_layers": 2, "num_decoder_layers": 2, "num_heads": 2, "ff_dim": 32}


def make_translator(preset, kind="bpe", **changes):
    texts = [text for pair in phrasebook(200, 1) for text in pair]
    config = TokenizerConfig(kind=kind, vocab_size=300, normalize="none" if kind == "byte-bpe" else "nfkc")
    tokenizer = train_tokenizer(texts, config)
    sizes = {"dim": 16} if preset.startswith("rnn") else SIZES
    torch.manual_seed(6)
    numbers = catalogue.preset(preset, vocab_size=tokenizer.vocab_size, **(sizes | changes))
    module = catalogue.build(numbers).eval()
    for parameter in module.parameters():
        if parameter.dim() > 1:  # large weights have opinions; norms stay what they are
            torch.nn.init.normal_(parameter, std=0.5)
    return Model(Folder(numbers, module, tokenizer), device="cpu")


@pytest.fixture(scope="session", params=["transformer-tiny", "t5-small", "rnn-small"])
def translator(request):
    return make_translator(request.param)


@pytest.fixture(scope="session")
def transformer():
    return make_translator("transformer-tiny")


@pytest.fixture(scope="session")
def bytewise():
    """A translator whose tokenizer gives back every text."""
    return make_translator("transformer-tiny", kind="byte-bpe")


@pytest.fixture
def echo(monkeypatch):
    """Let translators say what they read, so that what is around the search can be seen by itself."""
    from qkv.decoding.hypothesis import Hypothesis

    def say(_model, jobs, config):
        ids = [[*job.prefix, *job.piece.ids[:-1]] for job in jobs]
        return [[Hypothesis(row, [-0.5] * (len(row) + 1), -1.0, ended=True)] * config.nbest for row in ids]

    monkeypatch.setattr("qkv.predict.translate._search", say)


@pytest.fixture(scope="session")
def gpt():
    torch.manual_seed(2)
    sizes = {"vocab_size": 30, "dim": 16, "num_layers": 1, "num_heads": 2, "ff_dim": 32}
    return qkv.build("gpt2", device="cpu", max_length=12, **sizes)
