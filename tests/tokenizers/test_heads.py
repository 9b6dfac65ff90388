"""Texts that are much longer than what is kept of them are not encoded whole."""

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from qkv.common.errors import QkvError
from qkv.tokenizers.heads import SHORT, head
from qkv.tokenizers.text import TextTokenizer

LONG = "the cat sat on a mat. " * 6_000
SPACES = " " * 100_000


class Spy:
    """A tokenizer that counts the characters it encodes."""

    def __init__(self, inner):
        self.inner, self.characters = inner, 0

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def encode_batch(self, inputs, **options):
        self.characters += sum(len(text) if isinstance(text, str) else sum(map(len, text)) for text in inputs)
        return self.inner.encode_batch(inputs, **options)


@pytest.fixture
def spy(wordpiece):
    return Spy(wordpiece())


@pytest.mark.parametrize(
    ("texts", "pairs"),
    [
        ([LONG, "the cat"], None),
        ([SPACES + LONG], None),
        (["x" * 200_000 + " the cat"], None),
        ([LONG, "a dog", LONG], ["the mat", LONG, SPACES + LONG]),
    ],
)
@pytest.mark.parametrize("max_length", [8, 512])
def test_the_tokens_are_those_of_the_whole_text(spy, monkeypatch, texts, pairs, max_length):
    found = TextTokenizer(spy).encode(texts, pairs, max_length=max_length)
    monkeypatch.setattr("qkv.tokenizers.heads.SHORT", 1 << 30)
    assert found == TextTokenizer(spy).encode(texts, pairs, max_length=max_length)


def test_only_the_head_of_a_long_text_is_encoded(spy):
    tokenizer = TextTokenizer(spy)
    tokenizer.encode([LONG * 60], max_length=512)
    assert spy.characters < SHORT + 1000
    spy.characters = 0
    tokenizer.encode(["the cat"], [LONG * 60], max_length=512)
    assert spy.characters < SHORT + 1000


def test_a_head_ends_between_words():
    assert head(LONG, 8).endswith(("the", "cat", "sat", "on", "a", "mat."))
    assert head("x" * 100_000, 8) == "x" * SHORT
    assert head("short", 8) == "short"
    assert len(head(LONG, 5_000)) >= 80_000


def test_a_text_that_a_tokenizer_cannot_encode_is_refused():
    inner = Tokenizer(models.WordLevel({"a": 0}, unk_token="missing"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = TextTokenizer(inner)
    for encode in (tokenizer.encode, tokenizer.encode_spans, lambda texts: tokenizer.encode_words([texts])):
        with pytest.raises(QkvError, match="the tokenizer cannot encode the text: WordLevel error"):
            encode(["a b"])


def test_a_panic_of_the_library_is_our_error(tmp_path):
    (tmp_path / "vocab.json").write_text('{"a": 0, "b": 1, "": 2}')
    (tmp_path / "merges.txt").write_text("#version: 0.2\na b\n")
    with pytest.raises(QkvError, match="is damaged"):
        TextTokenizer.find(tmp_path)


def test_an_interruption_is_not_our_error(monkeypatch, tmp_path):
    def interrupted(path):
        raise KeyboardInterrupt

    (tmp_path / "tokenizer.json").write_text("{}")
    monkeypatch.setattr("qkv.tokenizers.loading.Tokenizer", type("T", (), {"from_file": staticmethod(interrupted)}))
    with pytest.raises(KeyboardInterrupt):
        TextTokenizer.find(tmp_path)
