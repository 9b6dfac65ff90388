"""BPE-dropout: the library's and the one with a seed."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from qkv.common.errors import UsageError
from qkv.tokenizers.text import TextTokenizer

from .conftest import CORPUS, train

TEXTS = CORPUS[:7]


@pytest.mark.parametrize("kind", ["bpe", "byte-bpe"])
def test_without_dropout_nothing_changes(kind):
    ours = train(kind)
    assert ours.encode(TEXTS, dropout=0.0) == ours.encode(TEXTS) == ours.encode(TEXTS, dropout=0.0, seed=3)
    assert ours.encode(TEXTS, dropout=1e-9, seed=3) == ours.encode(TEXTS)  # our merges are the library's


@given(st.text(max_size=20))
def test_our_merges_are_the_library_s_on_any_text(text):
    for ours in (train("bpe"), train("byte-bpe")):
        assert ours.encode([text], dropout=1e-12, seed=0) == ours.encode([text])


@pytest.mark.parametrize("seed", [None, 5])
@pytest.mark.parametrize("kind", ["bpe", "byte-bpe"])
def test_dropout_changes_tokens_but_not_the_text_and_is_forgotten(kind, seed):
    ours = train(kind, normalize="none", specials="bert")
    before = ours.encode(TEXTS, TEXTS)
    found = ours.encode(TEXTS, TEXTS, dropout=0.5, seed=seed)
    assert found != before
    for ids, segments, plain in zip(found.ids, found.segments, before.ids, strict=True):
        assert ours.decode(ids) == ours.decode(plain)
        assert len(ids) == len(segments) > len(plain)
        assert [i for i in ids if i < 5] == [i for i in plain if i < 5]
        assert segments == sorted(segments)
    assert ours.encode(TEXTS, TEXTS) == before


@pytest.mark.parametrize("seed", [None, 5])
def test_all_merges_dropped_leave_characters(seed):
    ours = train("bpe")
    tokens = [ours.token_of(i) for i in ours.encode(["the cat"], dropout=1.0, seed=seed).ids[0]]
    assert tokens == [*"▁the▁cat", "</s>"]


def test_a_seed_repeats_and_another_differs():
    ours = train("bpe")
    assert ours.encode(TEXTS, dropout=0.3, seed=1) == ours.encode(TEXTS, dropout=0.3, seed=1)
    assert ours.encode(TEXTS, dropout=0.3, seed=1) != ours.encode(TEXTS, dropout=0.3, seed=2)


def test_words_split_as_often_as_in_the_library():
    ours = TextTokenizer(Tokenizer(models.BPE({t: i for i, t in enumerate(["a", "b", "c", "ab", "bc", "abc"])}, [
        ("a", "b"), ("b", "c"), ("ab", "c"),
    ])))  # fmt: skip
    n = 4000
    library = Counter(map(tuple, ours.encode(["abc"] * n, dropout=0.3).ids))
    seeded = Counter(map(tuple, ours.encode(["abc"] * n, dropout=0.3, seed=0).ids))
    # a+b is taken with 0.7; else b+c with 0.7; else nothing is. After a+b, ab+c is taken with 0.7.
    exact = {(5,): 0.49, (3, 2): 0.21, (0, 4): 0.21, (0, 1, 2): 0.09}
    for split, share in exact.items():
        assert seeded[split] / n == pytest.approx(share, abs=0.03)
        assert library[split] / n == pytest.approx(share, abs=0.03)


@pytest.mark.parametrize("seed", [None, 5])
def test_dropout_is_cut_too(seed):
    ours = train("bpe", specials="bert")
    found = ours.encode(TEXTS, TEXTS, dropout=0.5, max_length=9, seed=seed)
    assert {len(ids) for ids in found.ids} == {9}
    assert all(ids[0] == 2 and ids[-1] == 3 and ids.count(3) == 2 for ids in found.ids)


@pytest.mark.parametrize("seed", [None, 5])
def test_special_tokens_and_unknown_characters_stay(seed):
    ours = train("bpe", specials="bert")
    found = ours.encode(["the [MASK] cat Ω"], dropout=0.9, seed=seed).ids[0]
    assert found.count(4) == 1
    assert found.count(1) == 1


def test_a_file_that_asks_for_dropout_does_not_get_it():
    inner = Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")], dropout=0.9))
    assert set(map(tuple, TextTokenizer(inner).encode(["ab"] * 50).ids)) == {(2,)}


@pytest.mark.parametrize("kind", ["wordpiece", "unigram", "char", "word"])
def test_other_kinds_have_no_merges(kind):
    with pytest.raises(UsageError, match="dropout is for BPE"):
        train(kind).encode(["the"], dropout=0.1)


@pytest.mark.parametrize("dropout", [-0.1, 1.1])
def test_dropout_is_a_probability(dropout):
    with pytest.raises(UsageError, match="from 0 to 1"):
        train("bpe").encode(["the"], dropout=dropout)


def test_seeds_are_for_bpe_without_suffixes():
    inner = Tokenizer(models.BPE({"a": 0, "a</w>": 1}, [], end_of_word_suffix="</w>"))
    with pytest.raises(UsageError, match="leave the seed out"):
        TextTokenizer(inner).encode(["a"], dropout=0.1, seed=1)
