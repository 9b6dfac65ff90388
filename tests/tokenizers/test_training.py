"""Trained tokenizers: what they hold, what they give back, that every run gives the same, and what is refused."""

import json
import os
import subprocess
import sys
import unicodedata
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from qkv.common.errors import UsageError
from qkv.tokenizers.kinds import KINDS
from qkv.tokenizers.special import FAMILIES
from qkv.tokenizers.text import TextTokenizer
from qkv.tokenizers.training import TokenizerConfig, train_tokenizer

from .conftest import CORPUS, train

LETTERS = "".join(sorted(set("".join(CORPUS))))
UNICODE = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


def tokens_of(tokenizer, ids):
    return [tokenizer.token_of(i) for i in ids]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_come_first_and_size_is_kept(kind, family):
    ours = train(kind, specials=family)
    wanted = {
        "translate": ["<pad>", "</s>", "<unk>"],
        "bert": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
        "gpt": ["<|endoftext|>"] if kind == "byte-bpe" else ["<|endoftext|>", "<unk>"],
        "t5": ["<pad>", "</s>", "<unk>"],
    }[family]
    assert [ours.id_of(token) for token in wanted] == list(range(len(wanted)))
    assert (ours.id_of("<unk>") is None) == (family == "bert" or (family == "gpt" and kind == "byte-bpe"))
    assert ours.vocab_size <= 450


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "char"])
@pytest.mark.parametrize("family", FAMILIES)
def test_vocab_size_is_reached_with_all_included(kind, family):
    random = Random(0)
    parts = ["ka", "to", "mi", "re", "su", "no", "la", "pe", "di", "vo"]
    words = ["".join(random.choices(parts, k=random.randint(1, 4))) for _ in range(800)]
    texts = [" ".join(random.choices(words, k=8)) for _ in range(400)]
    ours = train_tokenizer(texts, TokenizerConfig(kind=kind, vocab_size=420, specials=family))
    # Unigram's own training drops pieces that nothing needs.
    assert 280 < ours.vocab_size <= 420 if kind == "unigram" else ours.vocab_size == 420
    assert [ours.id_of(ours.token_of(i)) for i in range(ours.vocab_size)] == list(range(ours.vocab_size))


@pytest.mark.parametrize("kind", KINDS)
def test_t5_s_sentinels_end_the_vocabulary_in_its_order(kind):
    ours = train(kind, specials="t5")
    last = ours.vocab_size - 1
    assert ours.id_of("<extra_id_0>") == last
    assert ours.id_of("<extra_id_99>") == last - 99
    assert ours.sentinels == list(range(last, last - 100, -1))
    assert "extra_id" not in ours.decode(ours.encode(["the <extra_id_5> cat"]).ids[0])


def test_templates_by_family():
    ours = train("bpe")
    assert ours.encode(["the"]).ids[0][-1] == 1
    assert ours.encode(["the"], ["cat"]).ids[0].count(1) == 2
    bert = train("bpe", specials="bert")
    found = bert.encode(["the"], ["cat"])
    assert [i for i in found.ids[0] if i < 5] == [2, 3, 3]
    assert found.segments[0][found.ids[0].index(3)] == 0
    assert found.segments[0][found.ids[0].index(3) + 1 :] == [1] * (len(found.ids[0]) - found.ids[0].index(3) - 1)
    gpt = train("byte-bpe", specials="gpt")
    assert 0 not in gpt.encode(["the cat"]).ids[0]
    assert gpt.encode([""]).ids == [[]]


@given(UNICODE)
def test_bytes_give_back_any_text(text):
    ours = train("byte-bpe", normalize="none")
    assert ours.decode(ours.encode([text]).ids[0]) == text


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@given(st.text(LETTERS, max_size=30))
def test_marked_kinds_give_back_known_characters(kind, text):
    ours = train(kind, normalize="nfc")
    assert ours.decode(ours.encode([text]).ids[0]) == unicodedata.normalize("NFC", text).removeprefix(" ")


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char"])
def test_normal_forms_are_those_of_python(kind, corpus):
    wide = "Ｔｈｅ ｃａｔ ﬁt ² cafe\u0301"  # noqa: RUF001
    for form in ("nfc", "nfkc"):
        ours = train(kind, normalize=form, min_frequency=1)
        wanted = unicodedata.normalize(form.upper(), wide)
        known = "".join(c for c in wanted if c == " " or ours.id_of(c) is not None)
        assert ours.decode(ours.encode([wide]).ids[0]) == known
    assert "é" in known
    for text in corpus:
        assert ours.decode(ours.encode([text]).ids[0]) == unicodedata.normalize("NFKC", text)


@given(st.text(LETTERS, max_size=30))
def test_characters_give_back_known_characters(text):
    ours = train("char", normalize="none", min_frequency=1)
    assert ours.decode(ours.encode([text]).ids[0]) == text
    assert len(ours.encode([text]).ids[0]) == len(text) + 1


@pytest.mark.parametrize("kind", KINDS)
def test_lowercase(kind):
    ours = train(kind, lowercase=True, min_frequency=1)
    assert ours.encode(["THE CAT SAT"]) == ours.encode(["the cat sat"])
    assert ours.decode(ours.encode(["THE CAT SAT"]).ids[0]) == "the cat sat"
    assert ours.id_of("</s>") == 1


def test_words_and_pieces_by_hand():
    word = train("word", min_frequency=1)
    assert word.decode(word.encode(["the dog, zebra"]).ids[0]) == "the dog ,"  # the unknown word is left out
    assert word.encode(["the zebra"]).ids[0] == [word.id_of("the"), 2, 1]
    assert word.encode(["中日"]).ids[0] == [word.id_of("中"), word.id_of("日"), 1]
    piece = train("wordpiece", vocab_size=160)
    assert tokens_of(piece, piece.encode(["thez"]).ids[0])[:1] == ["<unk>"]
    assert all(t.startswith("##") for t in tokens_of(piece, piece.encode(["dmat"]).ids[0])[1:-1])


def test_text_that_is_already_split_keeps_its_words_and_line_ends():
    text = "the <unk> 's u.s. rate rose N %\n the rate fell\n"
    ours = train_tokenizer([text], TokenizerConfig(kind="whitespace", specials="gpt", min_frequency=1))
    (ids,) = ours.encode([text]).ids
    assert [ours.token_of(i) for i in ids] == [
        "the", "<unk>", "'s", "u.s.", "rate", "rose", "N", "%", "\n", "the", "rate", "fell", "\n",
    ]  # fmt: skip
    assert ids[1] == ours.specials["unk"]  # the text has the special token itself,
    assert ours.vocab_size == len({*ids}) + 1  # which is numbered once
    assert ours.decode(ids[:4]) == "the 's u.s."


def test_punctuation_and_words_are_apart_but_keep_their_space():
    ours = train("bpe", min_frequency=1)
    found = tokens_of(ours, ours.encode(["the cat, « the » mat."]).ids[0])
    assert "".join(found[:-1]) == "▁the▁cat,▁«▁the▁»▁mat."
    assert {",", "▁«", "▁»", "."} <= set(found)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "byte-bpe"])
def test_a_mask_takes_the_space_before_it_and_no_more(kind):
    ours = train(kind, specials="bert", min_frequency=1)
    ids = ours.encode(["the [MASK], on the [MASK] mat [MASK]."]).ids[0]
    plain = ours.encode(["the, on the mat."]).ids[0]
    assert [i for i in ids if i != ours.specials["mask"]] == plain
    assert ids.count(4) == 3


SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
from tests.tokenizers.conftest import train
from qkv.tokenizers.kinds import KINDS
print([(kind, train(kind, specials=family).fingerprint) for kind in KINDS for family in ("translate", "bert")])
"""


def test_every_run_gives_the_same_whatever_the_threads():
    # Each process draws its own seed for the library's hash tables, which is what makes runs differ.
    root = str(Path(__file__).parents[2])
    found = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT, root], env=os.environ | more, capture_output=True, text=True, check=True
        ).stdout
        for more in ({"RAYON_NUM_THREADS": "1"}, {"RAYON_NUM_THREADS": "4"}, {"TOKENIZERS_PARALLELISM": "false"})
    }
    assert len(found) == 1
    assert train("unigram").fingerprint in found.pop()


def test_texts_may_be_read_only_once(corpus):
    for kind in KINDS:
        config = TokenizerConfig(kind=kind, vocab_size=450)
        assert train_tokenizer(iter(corpus), config).fingerprint == train(kind).fingerprint


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", KINDS)
def test_transformers_reads_the_folder_and_agrees(tmp_path, corpus, kind, family):
    ours = train(kind, specials=family)
    ours.save(tmp_path)
    assert TextTokenizer.find(tmp_path).fingerprint == ours.fingerprint
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    for text in [*corpus[:7], "  two  spaces ", "the [MASK] <extra_id_3> </s>", ""]:
        ids = ours.encode([text]).ids[0]
        assert ids == theirs(text)["input_ids"], repr(text)
        assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True)
    found = ours.encode(["the cat"], ["a dog"])
    wanted = theirs("the cat", "a dog")
    assert found.ids[0] == wanted["input_ids"]
    if family == "bert":  # transformers must be told to give segments
        assert found.segments[0] == wanted["token_type_ids"]
    names = {"pad": "pad_token_id", "unk": "unk_token_id", "mask": "mask_token_id", "end": "eos_token_id"}
    for role, name in names.items():
        if family != "bert" or role != "end":  # BERT's [SEP] ends a text without being its eos
            assert ours.named.get(role) == getattr(theirs, name)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("texts", [[], ["", " \n\t "], iter(())], ids=["none", "blank", "iterator"])
def test_nothing_to_train_on(kind, texts):
    with pytest.raises(UsageError, match="no texts"):
        train_tokenizer(texts, TokenizerConfig(kind=kind))


@pytest.mark.parametrize("kind", ["bpe", "byte-bpe", "wordpiece", "unigram"])
@pytest.mark.parametrize("family", ["translate", "t5"])
def test_the_least_vocab_size_is_named_and_is_enough(kind, family):
    small = {"kind": kind, "specials": family, "normalize": "none"}
    texts = [*CORPUS, "".join(map(chr, range(600, 700)))]
    with pytest.raises(UsageError, match=r"vocab_size 110 is too small: .* need at least \d+") as caught:
        train_tokenizer(texts, TokenizerConfig(vocab_size=110, **small))
    least = int(str(caught.value).split(" at least ")[1].split()[0])
    assert train_tokenizer(texts, TokenizerConfig(vocab_size=least, **small)).vocab_size <= least
    with pytest.raises(UsageError, match=f"need at least {least}"):
        train_tokenizer(texts, TokenizerConfig(vocab_size=least - 1, **small))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "bpee"}, "unknown kind of a tokenizer .* did you mean 'bpe'"),
        ({"normalize": "nfd"}, "unknown normalize .*'nfd'"),
        ({"specials": "bart"}, "unknown specials .*'bart'"),
        ({"min_frequency": 0}, "min_frequency is 0"),
        ({"vocab_size": -1}, "vocab_size -1 is too small"),
        ({"specials": "t5", "vocab_size": 103}, "vocab_size 103 is too small"),
        ({"kind": "word", "min_frequency": 99}, "nothing to learn"),
    ],
    ids=str,
)
def test_bad_configs(changes, message):
    with pytest.raises(UsageError, match=message):
        train_tokenizer(CORPUS, TokenizerConfig(**changes))


@pytest.mark.parametrize(
    ("texts", "message"),
    [("one text", "not one"), ([b"bytes"], "text 0 is of type bytes"), (["ok", "a\udc80"], "text 1 .*surrogate")],
)
def test_bad_texts(texts, message):
    for kind in KINDS:
        with pytest.raises(UsageError, match=message):
            train_tokenizer(texts, TokenizerConfig(kind=kind))


def test_control_characters_alone_are_nothing_to_learn_from():
    with pytest.raises(UsageError, match="nothing to learn"):
        train_tokenizer(["\x00\x07"], TokenizerConfig(kind="wordpiece"))


def test_unigram_scores_are_probabilities():
    state = json.loads(train("unigram").files()["tokenizer.json"])["model"]
    scores = [score for piece, score in state["vocab"][3:]]
    assert sum(2.718281828459045**score for score in scores) == pytest.approx(1, abs=1e-3)
    assert scores == sorted(scores, reverse=True)
