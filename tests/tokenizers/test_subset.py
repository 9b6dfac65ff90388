"""A tokenizer with fewer tokens encodes the texts that it was cut down to as before."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qkv.tokenizers.subset import subset
from qkv.tokenizers.text import TextTokenizer
from qkv.tokenizers.training import TokenizerConfig, train_tokenizer

TEXTS = [
    "the cat sat on the mat, and the dog saw the cat.",
    "a small dog runs; two small cats sleep in the sun!",
    "lower lowest newer newest wider widest: lowering the newest window",
    "the theory of the other mother gathers further weather",
] * 3
KINDS = ["wordpiece", "bpe", "byte-bpe", "unigram", "char", "word"]
WORDS = sorted({word for text in TEXTS for word in text.split()})
MADE = {
    kind: train_tokenizer(
        TEXTS,
        TokenizerConfig(
            kind=kind, vocab_size=400 if kind == "byte-bpe" else 150, min_frequency=1, specials=family, lowercase=False
        ),
    )
    for kind, family in zip(KINDS, ["bert", "translate", "gpt", "t5", "translate", "translate"], strict=True)
}
texts = st.lists(st.sampled_from([*WORDS, "zebra", "über", "\U0001f40d", "thethe", "  "]), max_size=12).map(" ".join)


def names(tokenizer: TextTokenizer, text: str) -> list[str | None]:
    return [tokenizer.token_of(number) for number in tokenizer.encode([text]).ids[0]]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(given_texts=st.lists(texts, max_size=4), other=texts)
def test_texts_with_kept_tokens_keep_them(kind, given_texts, other):
    whole = MADE[kind]
    smaller, kept = subset(whole, given_texts)
    assert smaller.vocab_size == len(kept) == len(set(kept))
    assert [whole.token_of(number) for number in kept] == [smaller.token_of(new) for new in range(len(kept))]
    for text in (*given_texts, other):
        old = whole.encode([text]).ids[0]
        if set(old) <= set(kept):  # true of each given text
            assert [kept[new] for new in smaller.encode([text]).ids[0]] == old
            assert smaller.decode(smaller.encode([text]).ids[0]) == whole.decode(old)
        else:
            assert text == other
    assert {role: whole.token_of(number) for role, number in whole.specials.items()} == {
        role: smaller.token_of(number) for role, number in smaller.specials.items()
    }


@pytest.mark.parametrize("kind", KINDS)
def test_it_becomes_smaller_and_knows_the_letters(kind):
    smaller, kept = subset(MADE[kind], ["the cat sat"])
    if kind != "char":
        assert len(kept) < MADE[kind].vocab_size
    if kind not in ("char", "word"):
        unknown = smaller.specials.get("unk")
        assert unknown not in smaller.encode(["hat ches"]).ids[0]  # other words, of the same letters
    assert MADE[kind].vocab_size > 0
    again, same = subset(smaller, ["the cat sat"])
    assert same == list(range(smaller.vocab_size))
    assert again.fingerprint == smaller.fingerprint


def test_pairs_and_settings_have_the_new_numbers(tmp_path):
    transformers = pytest.importorskip("transformers")
    whole = MADE["wordpiece"]
    whole = TextTokenizer(
        whole._inner, {"added_tokens_decoder": {"4": {"content": "[MASK]", "special": True}}, "model_max_length": 64}
    )
    smaller, _ = subset(whole, ["lower lowest"])
    smaller.save(tmp_path)
    assert json.loads((tmp_path / "tokenizer_config.json").read_text())["added_tokens_decoder"] == {
        "4": {"content": "[MASK]", "special": True}
    }
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    pair = theirs("lower", "lowest")["input_ids"]
    assert pair == smaller.encode(["lower"], ["lowest"]).ids[0]
    assert theirs.mask_token_id == smaller.specials["mask"]


def test_moved_special_tokens_are_renumbered():
    """Byte-level BPE may have its special tokens last, and RoBERTa's template names their numbers."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {letter: number for number, letter in enumerate([*letters, "ab", "abc", "cd", "bcd"])}
    inner = Tokenizer(models.BPE(vocab, [("a", "b"), ("ab", "c"), ("c", "d"), ("b", "cd")]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.add_special_tokens(["<s>", "</s>"])
    ends = [(token, inner.token_to_id(token)) for token in ("</s>", "<s>")]
    inner.post_processor = processors.RobertaProcessing(*ends)
    whole = TextTokenizer(inner)
    smaller, kept = subset(whole, ["abc"])
    assert [smaller.token_of(number) for number in smaller.encode(["abc"]).ids[0]] == ["<s>", "abc", "</s>"]
    assert len(kept) == 256 + 2 + 2
    assert whole.encode(["bcd"]).ids[0][1:-1] == [vocab["bcd"]]
    assert names(smaller, "bcd") == ["<s>", "b", "c", "d", "</s>"]
