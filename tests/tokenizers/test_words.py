"""Words given as words, and where words begin among tokens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from qkv.common.errors import UsageError
from qkv.tokenizers.kinds import KINDS
from qkv.tokenizers.text import TextTokenizer

from .conftest import train

WORDS = ["The", "cats", "sat", "on", "mat", ",", "café", "x"]


def words_of(ours, ids):
    """Join tokens into words by their beginnings."""
    words = []
    for token, start in zip(ids, ours.word_starts(ids), strict=True):
        words += [[]] * start
        words[-1] = [*words[-1], token]
    return [ours.decode(word).strip() for word in words]


def test_words_are_those_of_transformers():
    for ours in (train("wordpiece", specials="bert"), train("bpe", specials="bert"), train("unigram", specials="bert")):
        theirs = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(ours.files()["tokenizer.json"].decode()))
        found = ours.encode_words([WORDS, ["a"], []])
        wanted = theirs([WORDS, ["a"], []], is_split_into_words=True, return_token_type_ids=True)
        assert found.ids == wanted["input_ids"]
        assert found.segments == wanted["token_type_ids"]
        assert found.words == [[-1 if w is None else w for w in wanted.word_ids(i)] for i in range(3)]


@pytest.mark.parametrize("kind", KINDS)
def test_words_give_the_ids_of_their_text(kind):
    ours = train(kind, min_frequency=1)
    words = ["The", "cat", "sat", "dogs", "snow"]
    found = ours.encode_words([words])
    assert found.ids == ours.encode([" ".join(words)]).ids
    assert sorted(set(found.words[0])) == [-1, 0, 1, 2, 3, 4]
    assert found.words[0][:-1] == sorted(found.words[0][:-1])


def test_a_word_without_tokens_is_a_number_that_is_skipped():
    found = train("wordpiece").encode_words([["the", "\x00\x07", "", "cat"], ["\x00"]])
    assert sorted(set(found.words[0])) == [-1, 0, 3]
    assert found.words[1] == [-1]
    assert found.ids[1] == [1]


def test_words_are_cut_before_the_last_special_token():
    ours = train("bpe", specials="bert")
    found = ours.encode_words([["the"] * 9, ["the"]], max_length=5)
    assert found.words == [[-1, 0, 1, 2, -1], [-1, 0, -1]]
    assert [len(ids) for ids in found.ids] == [5, 3]
    with pytest.raises(UsageError, match="max_length 1 is too small: the special tokens alone take 2"):
        ours.encode_words([["the"]], max_length=1)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=6), max_size=6))
def test_any_words(words):
    for kind in KINDS:
        found = train(kind, specials="bert").encode_words([words])
        inside = found.words[0][1:-1]
        assert found.words[0][0] == found.words[0][-1] == -1
        assert inside == sorted(inside)
        assert set(inside) <= set(range(len(words)))


def test_a_text_is_not_a_list_of_words():
    with pytest.raises(UsageError, match="list of words"):
        train("bpe").encode_words(["the cat"])


@pytest.mark.parametrize("kind", ["bpe", "unigram", "byte-bpe"])
def test_words_begin_at_spaces(kind):
    ours = train(kind, vocab_size=380, specials="gpt")
    text = "The cats don't play, say (two) dogs."
    assert words_of(ours, ours.encode([text]).ids[0]) == text.split()


@pytest.mark.parametrize("kind", ["bpe", "unigram", "byte-bpe", "char"])
def test_words_begin_after_lines_and_tabs(kind):
    ours = train(kind, vocab_size=380, specials="gpt", min_frequency=1)
    found = words_of(ours, ours.encode(["tabs\tand\nlines"]).ids[0])
    assert [word for word in found if word] == ["tabs", "and", "lines"]


def test_word_pieces_begin_words_unless_marked(wordpiece):
    ours = TextTokenizer(wordpiece())
    ids = ours.encode(["The dogs runed."], ["cats"]).ids[0]
    tokens = [ours.token_of(i) for i in ids]
    assert tokens == ["[CLS]", "the", "dog", "##s", "run", "##ed", ".", "[SEP]", "cat", "##s", "[SEP]"]
    assert ours.word_starts(ids) == [True, True, True, False, True, False, True, True, True, False, True]


def test_whole_words_begin_words():
    ours = train("word", min_frequency=1)
    assert all(ours.word_starts(ours.encode(["the cat, zebra"]).ids[0]))


def test_a_word_begins_after_a_special_token_even_in_its_middle(wordpiece):
    assert TextTokenizer(wordpiece()).word_starts([2, 12, 3]) == [True, True, True]


def test_an_unknown_character_stays_in_its_word():
    ours = train("bpe")
    ids = ours.encode(["caΩt the"]).ids[0]
    starts = ours.word_starts(ids)
    assert ids[starts.index(True, 1)] == ours.id_of("▁the")
    assert 2 in ids[1 : starts.index(True, 1)]


def test_endings_mark_words_too():
    inner = Tokenizer(models.BPE({"a": 0, "b</w>": 1, "c</w>": 2}, [], end_of_word_suffix="</w>"))
    assert TextTokenizer(inner).word_starts([0, 1, 2, 0, 1]) == [True, False, True, True, False]


def test_added_words_of_a_byte_level_file():
    inner = Tokenizer(models.BPE({"Ġ": 0, "a": 1, "Ċ": 2}, []))
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    inner.add_special_tokens([AddedToken("<s>")])
    ours = TextTokenizer(inner)
    assert ours.word_starts(ours.encode(["a a\na<s>a"]).ids[0]) == [True, True, False, True, True, True, True]


def test_ids_outside_the_vocabulary():
    ours = train("bpe")
    assert ours.word_starts([]) == []
    for bad in (-1, ours.vocab_size):
        with pytest.raises(UsageError, match="ids must be from 0 to"):
            ours.word_starts([bad])
