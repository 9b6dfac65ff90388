"""Words for masks: those that the whole head says, in any company, in texts of any length."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from qkv import predict
from qkv.common.errors import UsageError
from qkv.predict import Model

from .readers import make_reader

TEXTS = ["the [MASK] sat on the [MASK]", "[MASK]", "two dogs [MASK] in the snow", "[MASK][MASK] a café"]


def filler(**changes):
    return make_reader("mlm", **changes)


@pytest.mark.parametrize("kind", ["wordpiece", "byte-bpe", "bpe"])
def test_the_words_are_the_likeliest_of_the_head(kind, monkeypatch):
    model = filler(kind=kind)
    mask = model.tokenizer.specials["mask"]
    for budget in (2048, 8):
        monkeypatch.setitem(predict.TOKENS_PER_BATCH, "cpu", budget)
        for text, found in zip(TEXTS, model.fill(TEXTS, top=3), strict=True):
            (ids,) = model.tokenizer.encode([text]).ids
            rows = [row for row, token in enumerate(ids) if token == mask]
            assert len(found) == len(rows) == text.count("[MASK]")
            chances = model.logits([ids])[0].softmax(-1)[rows]
            for row, choices in zip(chances, found, strict=True):
                best = row.topk(3)
                assert [choice.score for choice in choices] == pytest.approx(best.values.tolist(), abs=1e-6)
                tokens = [model.tokenizer.token_of(i) for i in best.indices.tolist()]
                words = [token.replace("Ġ", "").replace("▁", "") for token in tokens]
                assert [c.word for c, word in zip(choices, words, strict=True) if word.isascii()] == [
                    word for word in words if word.isascii()
                ]


def test_no_text_has_more_words_than_there_are():
    model = filler()
    ((choices,),) = model.fill(["[MASK]"], top=10_000)
    assert len(choices) == model.tokenizer.vocab_size
    assert sum(choice.score for choice in choices) == pytest.approx(1)
    assert all(choice.word for choice in choices)
    assert "[PAD]" in {choice.word for choice in choices}  # special tokens are written as the vocabulary does


@given(st.lists(st.sampled_from(["[MASK]", "the", "cat", "snow."]), max_size=60).filter(lambda w: "[MASK]" in w))
def test_windows_lose_nothing(words):
    whole = filler(plain=True, max_length=300).fill([" ".join(words)], top=2)[0]
    for length in (3, 6, 20):
        found = filler(plain=True, max_length=length).fill([" ".join(words)], top=2)[0]
        assert len(found) == len(whole) == words.count("[MASK]")
        for one, other in zip(found, whole, strict=True):
            assert [c.word for c in one] == [c.word for c in other]
            assert [c.score for c in one] == pytest.approx([c.score for c in other], abs=1e-5)


def test_a_long_text_is_read_around_its_masks():
    model = filler(max_length=12)
    text = "the cat sat on the mat and the dog ran home " * 3 + "[MASK] snow " + "the cat sat " * 5
    ((choices,),) = model.fill([text])
    ((window,),) = model.tokenizer.encode_spans([text])
    place = window.ids.index(model.tokenizer.specials["mask"]) - 1
    room, shared = 10, 2
    parts = [
        range(s, min(s + room, len(window.ids) - 2)) for s in range(0, len(window.ids) - 2 - shared, room - shared)
    ]
    best = max((part for part in parts if place in part), key=lambda p: min(place - p[0], p[-1] - place))
    ids = [window.ids[0], *(window.ids[1 + i] for i in best), window.ids[-1]]
    chances = model.logits([ids])[0].softmax(-1)[1 + best.index(place)]
    assert [choice.score for choice in choices] == pytest.approx(chances.topk(5).values.tolist(), abs=1e-6)


def test_other_spellings_of_the_mask():
    model = filler()
    assert model.fill(["the <mask> sat"]) == model.fill(["the [MASK] sat"])
    with torch.no_grad():
        assert model.fill([]) == []


def test_wrong_use():
    model = filler()
    with pytest.raises(UsageError, match=r"no mask in 'the cat': write \[MASK\] where you want a word"):
        model.fill(["[MASK]", "the cat"])
    with pytest.raises(UsageError, match="no mask in ''"):
        model.fill([""])
    with pytest.raises(UsageError, match="top must be at least 1, got 0"):
        model.fill(["[MASK]"], top=0)
    with pytest.raises(UsageError, match="list of texts"):
        model.fill("[MASK]")
    with pytest.raises(UsageError, match="this bert cannot fill: it has no head for that"):
        make_reader("tag").fill(["[MASK]"])


def test_a_tokenizer_without_a_mask():
    from qkv.checkpoints.folder import Folder
    from tests.tokenizers.conftest import train

    model = filler()
    maskless = Folder(model.config, model.module, train("bpe", vocab_size=300))
    with pytest.raises(UsageError, match="tokenizer has no mask token"):
        Model(maskless, device="cpu").fill(["[MASK]"])
