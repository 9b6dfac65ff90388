"""A line of megabytes costs the memory of what the model reads of it."""

import pytest

import qkv
from qkv.common.errors import Shortened
from qkv.tokenizers.text import TextTokenizer


def test_only_the_start_of_a_long_text_is_encoded(bert_folder, monkeypatch):
    encoded = []
    real = TextTokenizer._encode
    monkeypatch.setattr(
        TextTokenizer, "_encode", lambda self, inputs: encoded.extend(map(len, inputs)) or real(self, inputs)
    )
    model = qkv.load(bert_folder)
    with pytest.warns(Shortened, match="1 of 2 texts were cut to 12 tokens"):
        long, short = model.embed(["the cat sat on a mat . " * 50_000, "the dogs"])
    assert sum(encoded) < 300_000  # of 2.3 million characters
    with pytest.warns(Shortened):
        assert model.embed(["the cat sat on a mat . " * 50])[0] == pytest.approx(long)
    assert model.embed(["the dogs"])[0] == pytest.approx(short)
