"""Windows and the places of tokens in the original text."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from qkv.common.errors import UsageError
from qkv.tokenizers.kinds import KINDS
from qkv.tokenizers.text import TextTokenizer

from .conftest import CORPUS, train

FORMS = ["nfc", "nfkc", "none"]
# What tokenizers get wrong: composed and decomposed letters, ligatures, wide letters, joined emoji, odd spaces.
ODD = "abThe cat.,▁Ġ\n\t \u00a0\u3000é\u0301\u0323ﬁ½İßΣ中か\u3099ｶﾞ\u1100\u1161\u11a8각\u200d\ufe0f😀\x00\ufffd\ufdfa´ﾞ"  # noqa: RUF001
TEXT = st.text(st.sampled_from(ODD) | st.characters(exclude_categories=["Cs"]), max_size=25)
QUESTION = "where did the dog run ?"
CONTEXT = "The dog ran home, because it was snowing. The cats stayed on their mat and the owner had tea."


def only(found):
    ((window,),) = found
    return window


def surface(ours, kind, token):
    written = ours.token_of(token)
    return written.removeprefix("##") if kind in ("wordpiece", "word") else written.lstrip("▁")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
@example("cafe\u0301 \u1100\u1161\u11a8 か\u3099", "ｶﾞ \ufdfa\x00 e\u0301\u0323a")
@given(TEXT, TEXT)
def test_spans_lie_in_their_text_in_order_and_leave_nothing_out(kind, form, first, second):
    ours = train(kind, specials="bert", normalize=form)
    window = only(ours.encode_spans([first], [second]))
    assert window.ids == ours.encode([first], [second]).ids[0]
    assert window.segments == ours.encode([first], [second]).segments[0]
    for side, text in enumerate((first, second)):
        spans = [span for span, of in zip(window.spans, window.sides, strict=True) if of == side]
        assert all(0 <= start <= end <= len(text) for start, end in spans)
        assert spans == sorted(spans)
        assert [end for _, end in spans] == sorted(end for _, end in spans)
        covered = {i for start, end in spans for i in range(start, end)}
        if kind not in ("wordpiece", "word"):  # those drop control characters
            assert all(text[i].isspace() or text[i] == "▁" for i in set(range(len(text))) - covered)
    specials = [span for span, of in zip(window.spans, window.sides, strict=True) if of == -1]
    assert specials == [(0, 0)] * 3


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece", "char", "word"])
@given(TEXT)
def test_without_normalisation_the_span_is_the_token(kind, text):
    ours = train(kind, normalize="none", specials="bert", min_frequency=1)
    window = only(ours.encode_spans([text]))
    for token, (start, end), side in zip(window.ids, window.spans, window.sides, strict=True):
        if side == 0 and token != ours.specials["unk"]:
            written = surface(ours, kind, token)
            assert text[start:end] == written or (not written and text[start:end] in ("", " ", "▁"))


@pytest.mark.parametrize("kind", ["bpe", "wordpiece"])
@given(st.text("abcTHE CAT dog.é", max_size=25))
def test_the_case_is_all_that_lowercase_changes(kind, text):
    ours = train(kind, normalize="none", specials="bert", lowercase=True, min_frequency=1)
    window = only(ours.encode_spans([text]))
    for token, (start, end), side in zip(window.ids, window.spans, window.sides, strict=True):
        if side == 0 and token != ours.specials["unk"] and surface(ours, kind, token):
            assert text[start:end].lower() == surface(ours, kind, token)


@given(TEXT)
def test_bytes_join_to_the_text(text):
    ours = train("byte-bpe", normalize="none", specials="gpt")
    window = only(ours.encode_spans([text]))
    for token, (start, end) in zip(window.ids, window.spans, strict=True):
        part = ours.decode([token])
        assert "\ufffd" in part or part == text[start:end] or part == " " + text[start:end]


def test_a_composed_letter_covers_its_parts():
    ours = train("bpe", normalize="nfc", min_frequency=1)
    for text, last in (("cafe\u0301 ok", 5), ("café ok", 4)):
        window = only(ours.encode_spans([text]))
        word = [span for span, side in zip(window.spans, window.sides, strict=True) if side == 0 and span[1] <= last]
        assert text[word[0][0] : word[-1][1]] == text[:last]
        assert unicodedata.normalize("NFC", text[:last]) == "café"


def test_spaces_before_words_and_marks_put_before_the_text_are_left_out():
    ours = train("bpe", min_frequency=1)
    window = only(ours.encode_spans(["the  cat"]))
    assert [(ours.token_of(i), span) for i, span in zip(window.ids, window.spans, strict=True)] == [
        ("▁the", (0, 3)), ("▁", (3, 4)), ("▁cat", (5, 8)), ("</s>", (0, 0)),
    ]  # fmt: skip
    assert only(ours.encode_spans(["Ω"])).spans == [(0, 0), (0, 1), (0, 0)]


def test_a_mask_in_the_text_has_its_place_and_side():
    ours = train("bpe", specials="bert")
    window = only(ours.encode_spans(["the [MASK] cat"], ["[SEP]"]))
    assert window.spans[window.ids.index(4)] == (4, 10)
    assert window.sides[window.ids.index(4)] == 0
    assert window.sides[-2:] == [1, -1]
    assert window.spans[-2] == (0, 5)


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram", "byte-bpe"])
@pytest.mark.parametrize("stride", [0, 1, 5])
@pytest.mark.parametrize("max_length", [25, 31, 400])
def test_windows_are_those_of_transformers(kind, stride, max_length):
    ours = train(kind, specials="bert", vocab_size=400)
    theirs = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(ours.files()["tokenizer.json"].decode()))
    options = {"stride": stride, "max_length": max_length, "return_overflowing_tokens": True}
    options |= {"return_token_type_ids": True}
    question = "where ?"
    pairs = theirs(question, CONTEXT, truncation="only_second", return_offsets_mapping=True, **options)
    (found,) = ours.encode_spans([question], [CONTEXT], max_length=max_length, stride=stride)
    assert [window.ids for window in found] == pairs["input_ids"]
    assert [window.segments for window in found] == pairs["token_type_ids"]
    assert [window.sides for window in found] == [
        [-1 if side is None else side for side in pairs.sequence_ids(i)] for i in range(len(found))
    ]
    if kind == "wordpiece":  # the others count the space before a word
        assert [window.spans for window in found] == pairs["offset_mapping"]
    alone = theirs(CONTEXT, truncation=True, **options)
    (found,) = ours.encode_spans([CONTEXT], max_length=max_length, stride=stride)
    assert [window.ids for window in found] == alone["input_ids"]


@given(st.integers(1, 12), st.integers(0, 11), st.integers(0, 40))
def test_windows_overlap_by_the_stride_and_leave_nothing_out(room, stride, length):
    ours = train("char", specials="bert", min_frequency=1)
    text = ("abcdefghij" * 4)[:length]
    max_length = room + 2
    if stride >= room and length > room:
        with pytest.raises(UsageError, match="stride"):
            ours.encode_spans([text], max_length=max_length, stride=stride)
        return
    (found,) = ours.encode_spans([text], max_length=max_length, stride=stride)
    starts = [window.spans[1][0] for window in found] if length else []
    assert starts == list(range(0, max(length - stride, 1), room - stride) if length > room else [0] * (length > 0))
    assert {i for window in found for start, end in window.spans for i in range(start, end)} == set(range(length))
    assert all(len(window.ids) <= max_length for window in found)
    assert len(found[-1].ids) > 2 + stride or len(found) == 1  # the last window brings something new


def test_a_word_longer_than_the_window_is_cut_within():
    ours = train("bpe", specials="bert")
    (found,) = ours.encode_spans(["?"], ["x" * 50], max_length=14, stride=2)
    assert len(found) > 3
    assert found[-1].spans[-2] == (49, 50)


def test_empty_sides():
    ours = train("wordpiece", specials="bert")
    assert only(ours.encode_spans([""], [""], max_length=3)).ids == [2, 3, 3]
    assert only(ours.encode_spans([""])).sides == [-1, -1]
    assert only(ours.encode_spans([QUESTION], [""])).sides[-2:] == [-1, -1]
    (found,) = ours.encode_spans([""], [CONTEXT], max_length=8)
    assert all(window.ids[:2] == [2, 3] and len(window.ids) <= 8 for window in found)
    assert ours.encode_spans([]) == ours.encode_spans([], []) == []


def test_no_room_for_the_context_is_an_error_with_the_numbers():
    ours = train("wordpiece", specials="bert")
    taken = len(ours.encode([QUESTION], [""]).ids[0])
    with pytest.raises(UsageError, match=f"max_length {taken} leaves no room: .* take {taken}"):
        ours.encode_spans([QUESTION], [CONTEXT], max_length=taken)
    with pytest.raises(UsageError, match="leaves no room"):
        ours.encode_spans([QUESTION], [""], max_length=taken - 1)
    assert len(ours.encode_spans([QUESTION], [CONTEXT], max_length=taken + 1)[0]) > 5


def test_bad_input():
    ours = train("wordpiece", specials="bert")
    with pytest.raises(UsageError, match="stride is -1"):
        ours.encode_spans(["a"], max_length=5, stride=-1)
    with pytest.raises(UsageError, match="got 1 for 2"):
        ours.encode_spans(["a", "b"], ["c"])
    for call in (ours.encode, ours.encode_spans):
        with pytest.raises(UsageError, match="not one string"):
            call("abc")


@given(st.text("ab cd", max_size=20), st.none() | st.text("ab cd", max_size=20), st.integers(0, 20))
def test_cutting_is_the_library_s(first, second, max_length):
    ours = train("char", specials="bert", min_frequency=1)
    inner = Tokenizer.from_str(ours.files()["tokenizer.json"].decode())
    pairs = None if second is None else [second]
    if max_length < 2 + (second is not None):  # the library then cuts nothing at all
        with pytest.raises(UsageError, match=f"max_length {max_length} is too small"):
            ours.encode([first], pairs, max_length=max_length)
        return
    inner.enable_truncation(max_length)
    wanted = inner.encode(first, second)
    found = ours.encode([first], pairs, max_length=max_length)
    assert found.ids == [wanted.ids]
    assert found.segments == [wanted.type_ids]


def test_windows_are_read_from_a_file_too(tmp_path):
    train("byte-bpe", specials="bert").save(tmp_path)
    found = TextTokenizer.find(tmp_path).encode_spans(CORPUS[:7])
    assert found == train("byte-bpe", specials="bert").encode_spans(CORPUS[:7])
