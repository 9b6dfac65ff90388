"""Translating: scores against the model's own, order and white space, long texts, what is refused."""

import warnings

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from qkv.common.errors import UsageError
from qkv.data.sentences import split_sentences
from qkv.predict import TOKENS_PER_BATCH, translation
from qkv.predict.translation import cut_texts

TEXTS = ["The small cat sleeps.", "Two dogs play in the garden.", "I see a red house.", "We eat."]
TOGETHER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
ANY = st.text(max_size=60) | st.lists(
    st.sampled_from(["The cat. ", "Dr. B. ", "a ", "\n", "  ", "\x00", "👩‍👩‍👧", "שלום", "。", "x" * 30]), max_size=12
).map("".join)


def test_scores_are_the_model_s_own(translator):
    found = translator.translate(TEXTS, scores=True, beam=3, length_penalty=0.7, max_length=12)
    start, end = translator.config.start_id, translator.config.end_id
    for text, one in zip(TEXTS, found, strict=True):
        ids = [translator.tokenizer.id_of(token) for token in one.tokens]
        source = translator.encode([text]).ids
        logits = translator.logits(source, [[start, *ids[:-1]]])[0]
        wanted = logits.log_softmax(-1)[range(len(ids)), ids]
        torch.testing.assert_close(torch.tensor(one.token_scores), wanted, rtol=1e-3, atol=1e-3)
        assert one.score == pytest.approx(sum(one.token_scores) / len(ids) ** 0.7, abs=1e-3)
        assert one.text == translator.tokenizer.decode([i for i in ids if i != end])


def test_a_beam_of_one_takes_the_likeliest_token(translator):
    for text, one in zip(TEXTS, translator.translate(TEXTS, scores=True, beam=1, max_length=8), strict=True):
        ids = [translator.tokenizer.id_of(token) for token in one.tokens]
        logits = translator.logits(translator.encode([text]).ids, [[translator.config.start_id, *ids[:-1]]])[0]
        assert logits.argmax(-1).tolist() == ids


def test_company_and_order_do_not_matter(translator, monkeypatch):
    options = {"beam": 2, "max_length": 10}
    together = translator.translate(TEXTS, **options)
    assert len(set(together)) > 1  # the sources are read
    assert [translator.translate([text], **options)[0] for text in TEXTS] == together
    assert translator.translate(TEXTS[::-1], **options) == together[::-1]
    monkeypatch.setitem(TOKENS_PER_BATCH, "cpu", 20)
    assert translator.translate(TEXTS, **options) == together
    assert list(translator.translate_stream(iter(TEXTS), chunk=3, **options)) == together


def test_n_best_are_different_and_best_first(translator):
    for one in translator.translate(TEXTS, nbest=3, beam=4, max_length=8):
        several = [one, *one.others]
        assert len(several) == 3
        assert len({tuple(each.tokens) for each in several}) == 3
        assert [each.score for each in several] == sorted((each.score for each in several), reverse=True)


def test_draws_follow_the_seed_and_the_text_not_the_batch(translator):
    options = {"sample": True, "seed": 4, "max_length": 8}
    drawn = translator.translate(TEXTS, **options)
    assert translator.translate(TEXTS, **options) == drawn
    assert list(translator.translate_stream(TEXTS, chunk=2, **options)) == drawn
    assert translator.translate(TEXTS, **options | {"seed": 5}) != drawn


def test_a_prefix_begins_the_translation(translator):
    for text in translator.translate(TEXTS, prefix="Le petit", max_length=9):
        assert text.startswith("Le petit")
    each = ["Le chat", "", "Deux", " "]
    free = translator.translate(TEXTS, max_length=9)
    found = translator.translate(TEXTS, prefix=each, max_length=9)
    assert found[0].startswith("Le chat")
    assert found[2].startswith("Deux")
    assert (found[1], found[3]) == (free[1], free[3])


def test_forbidden_words_are_not_said(transformer):
    free = transformer.translate(TEXTS, scores=True, max_length=8)
    said = {token for one in free for token in one.tokens if token.startswith("▁") and len(token) > 1}
    words = [token.removeprefix("▁") for token in said]
    assert words
    held = transformer.translate(TEXTS, scores=True, max_length=8, forbidden=words)
    assert not said & {token for one in held for token in one.tokens}


@pytest.mark.parametrize("text", ["", " ", "\t \u00a0\n", "\n\n"])
def test_white_space_stays(transformer, text):
    assert transformer.translate([text]) == [text]
    assert transformer.translate([text], scores=True)[0].tokens == []


@TOGETHER
@given(text=ANY)
def test_an_echo_gives_every_text_back(bytewise, echo, text):
    assume("<" not in text)  # a special token that somebody writes is special
    assert bytewise.translate([text, "a", text]) == [text, "a", text]


@TOGETHER
@given(text=ANY, limit=st.integers(4, 30))
def test_pieces_fit_and_are_the_text_again(transformer, monkeypatch, text, limit):
    monkeypatch.setattr(translation, "LONG", 10)
    with warnings.catch_warnings(action="ignore"):
        (found,) = cut_texts(transformer.tokenizer, [text], limit)
    assert "".join(piece.text + piece.space for piece in found) == text
    assert all(len(piece.ids) <= limit for piece in found)
    assert all(piece.text == piece.text.strip() and not piece.space.strip() for piece in found)


def test_a_long_text_is_read_sentence_by_sentence(translator):
    text = "".join(f" {sentence}" for sentence in TEXTS * 5) + " "
    assert len(translator.encode([text]).ids[0]) > translation.LONG
    alone = [sentence for sentence, _ in split_sentences(text) if sentence]
    wanted = "".join(f" {said}" for said in translator.translate(alone, max_length=9)) + " "
    assert translator.translate([text], max_length=9) == [wanted]


def test_lines_of_a_text_stay_lines(transformer, echo):
    assert transformer.translate(["The cat\n\n sleeps.\n"]) == ["The cat\n\n sleeps.\n"]


def test_more_than_two_sentences_are_read_one_by_one(transformer):
    two, three = (cut_texts(transformer.tokenizer, [" The cat." * n], None)[0] for n in (2, 3))
    assert [(piece.text, piece.space) for piece in two] == [("", " "), ("The cat. The cat.", "")]
    assert [(piece.text, piece.space) for piece in three] == [("", " "), *[("The cat.", " ")] * 2, ("The cat.", "")]


def test_a_sentence_that_is_too_long_is_cut_aloud(transformer, echo):
    text = " ".join(["dog"] * 400) + "."
    with pytest.warns(UserWarning, match=r"1 sentence is longer than 256 tokens: translated in parts"):
        assert transformer.translate([text, "A cat."]) == [text, "A cat."]


def test_surrogates_become_marks(bytewise, echo):
    assert bytewise.translate(["a \ud800 b", "\udc00", "\ud83d\ude00"]) == ["a \ufffd b", "\ufffd", "\ufffd\ufffd"]


def test_progress_counts_every_text_once(transformer):
    done = []
    transformer.translate([*TEXTS, "", " ".join(TEXTS * 5)], progress=done.append, max_length=4)
    assert sum(done) == len(TEXTS) + 2


def test_a_stream_holds_no_more_than_a_chunk(transformer):
    taken = []
    texts = (taken.append(i) or text for i, text in enumerate(TEXTS * 10))
    found = transformer.translate_stream(texts, chunk=3, max_length=2, beam=1)
    assert taken == []
    next(found)
    assert len(taken) == 3
    assert len(list(found)) == 39


def test_alignment_and_scores_of_several_sentences_are_joined(transformer, echo, monkeypatch):
    monkeypatch.setattr("qkv.predict.translate.align", lambda _, said, prefix: [[(0, 0), (1, 1)] for _ in said])
    one, other = transformer.translate(["We eat.\nI see it. ", "  "], alignments=True)
    assert one.alignment == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert one.pharaoh == "0-0 1-1 2-2 3-3"
    assert one.score == -2.0
    assert len(one.tokens) == len(one.token_scores)
    assert other.alignment == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"beam": 0}, "beam must be at least 1, got 0"),
        ({"beam": 4000}, r"a beam of 4000 is larger than the vocabulary of \d+ tokens"),
        ({"beam": 2, "nbest": 3}, "nbest 3 is more than the beam of 2"),
        ({"prefix": "кот"}, "the prefix 'кот' has no tokens in the vocabulary"),
        ({"prefix": "\ud800"}, "has no tokens in the vocabulary"),
        ({"prefix": ["a"]}, "4 texts and 1 prefixes"),
        ({"prefix": "le chat " * 40, "max_length": 5}, "tokens, more than the max_length of 5"),
        ({"forbidden": ["кот"]}, "the forbidden word 'кот' has no tokens in the vocabulary"),
        ({"forbidden": [" "]}, "a forbidden word is empty"),
        ({"forbidden": "chat"}, "a list of words"),
        ({"beems": 2}, "did you mean 'beam'"),
        ({"temperature": 0.5}, "changes nothing without sample"),
    ],
    ids=str,
)
def test_what_cannot_be_is_said(transformer, options, said):
    with pytest.raises(UsageError, match=said):
        transformer.translate(TEXTS, **options)


def test_only_translators_translate_lists_of_texts(gpt, transformer):
    with pytest.raises(UsageError, match="this gpt is not a translator"):
        gpt.translate(["x"])
    with pytest.raises(UsageError, match="takes a list of texts"):
        transformer.translate("x")
    with pytest.raises(UsageError, match="chunk must be at least 1, got 0"):
        list(transformer.translate_stream(["x"], chunk=0))
