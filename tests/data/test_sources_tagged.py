"""CoNLL columns; conversions between schemes against encoders written here."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.common.errors import QkvError, UsageError
from qkv.data.bad_rows import BadRows
from qkv.data.examples import Tagged
from qkv.data.iob import detect_scheme, spans_of, to_iob2
from qkv.data.tagged import tagged
from tests.data.messages import message

# A sentence as a list of pieces: (None, words outside) or (label, words of a name).
PIECES = st.lists(st.tuples(st.sampled_from([None, "A", "B-x", "LOC"]), st.integers(1, 4)), max_size=8)


def encode(pieces, scheme):
    """Write tags piece by piece, each scheme by its own definition."""
    tags, last = [], None
    for label, size in pieces:
        if label is None:
            tags += ["O"] * size
        elif scheme == "IOB2":
            tags += [f"B-{label}"] + [f"I-{label}"] * (size - 1)
        elif scheme == "IOB1":
            tags += [("B-" if label == last else "I-") + label] + [f"I-{label}"] * (size - 1)
        elif size == 1:
            tags += [f"{'S' if scheme == 'BIOES' else 'U'}-{label}"]
        else:
            end = "E" if scheme == "BIOES" else "L"
            tags += [f"B-{label}"] + [f"I-{label}"] * (size - 2) + [f"{end}-{label}"]
        last = label
    return tags


def spans(pieces):
    found, at = [], 0
    for label, size in pieces:
        if label is not None:
            found.append((label, at, at + size - 1))
        at += size
    return found


@given(PIECES, st.sampled_from(["IOB1", "IOB2", "BIOES", "BILOU"]))
def test_every_scheme_becomes_iob2_and_its_spans(pieces, scheme):
    read = to_iob2(encode(pieces, scheme), "BIOES" if scheme == "BILOU" else scheme)
    assert list(read) == encode(pieces, "IOB2")
    assert spans_of(read) == spans(pieces)
    assert to_iob2(read, "IOB2") == to_iob2(read, "IOB1") == read


@given(st.lists(PIECES, max_size=4), st.sampled_from(["IOB1", "IOB2", "BIOES", "BILOU"]))
def test_the_detected_scheme_reads_what_was_written(sentences, scheme):
    detected = detect_scheme([encode(pieces, scheme) for pieces in sentences])
    for pieces in sentences:
        assert list(to_iob2(encode(pieces, scheme), detected)) == encode(pieces, "IOB2")


@given(st.lists(st.sampled_from(["O", "B-A", "I-A", "B-B", "I-B"]), max_size=10))
def test_loose_tags_read_as_iob1_have_the_same_spans(tags):
    assert spans_of(to_iob2(tags, "IOB1")) == spans_of(tags)


@given(st.lists(st.sampled_from(["O", "B-A", "I-A", "E-A", "S-A", "I-B", "E-B"]), max_size=6))
def test_only_sound_bioes_is_read(tags):
    try:
        read = to_iob2(tags, "BIOES")
    except QkvError:
        return
    pieces = [(None, 1)] * len(tags)
    for label, first, last in reversed(spans_of(read)):
        pieces[first : last + 1] = [(label, last - first + 1)]
    assert encode(pieces, "BIOES") == tags


@pytest.mark.parametrize(
    ("sentences", "scheme"),
    [
        ([["NN", "VB", "."]], "plain"),
        ([["B", "M", "E", "S"]], "plain"),
        ([["S-VP", "NN"]], "plain"),
        ([["O", "O"]], "plain"),
        ([], "plain"),
        ([["O"], ["O", "I-A"]], "IOB1"),
        ([["B-A", "I-B"]], "IOB1"),
        ([["B-A", "I-A"], ["O"]], "IOB2"),
        ([["B-A"], ["S-A"]], "BIOES"),
        ([["U-A", "O"]], "BIOES"),
        ([["O", "B-A", "X"]], "IOB2"),
    ],
)
def test_detection(sentences, scheme):
    assert detect_scheme(sentences) == scheme


def test_plain_tags_pass_unchanged():
    assert to_iob2(["NN", "-LRB-", "O", "I-x"], "plain") == ("NN", "-LRB-", "O", "I-x")


@pytest.mark.parametrize(
    ("tags", "scheme", "reason"),
    [
        (["O", "I-A"], "IOB2", "the tag 'I-A' of word 2 continues no entity, which IOB2 does not allow"),
        (["O", "E-A"], "BIOES", "the tag 'E-A' of word 2 continues no entity, which BIOES does not allow"),
        (["B-A", "O"], "BIOES", "the entity 'A' up to word 1 has no end tag, which BIOES does not allow"),
        (["B-A", "I-A"], "BIOES", "the entity 'A' up to word 2 has no end tag, which BIOES does not allow"),
        (["S-A"], "IOB1", "the tag 'S-A' of word 1 is not IOB1 (allowed: O, B-NAME, I-NAME)"),
        (["O", "I-"], "IOB2", "the tag 'I-' of word 2 is not IOB2 (allowed: O, B-NAME, I-NAME)"),
    ],
)
def test_tags_that_a_scheme_does_not_allow(tags, scheme, reason):
    with pytest.raises(QkvError) as caught:
        to_iob2(tags, scheme)
    assert str(caught.value) == reason


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(text):
        (tmp_path / "a.conll").write_text(text)
        return "a.conll"

    return write


CONLL = """-DOCSTART- -X- O O

EU NNP I-NP I-ORG
\u00a0 VBZ I-VP O
# NN I-NP I-MISC


Peter NNP I-NP I-PER
Mary NNP B-NP B-PER
-DOCSTART- -X- O O
Next NN I-NP O"""


def test_conll_columns(write):
    path = write(CONLL)
    assert list(tagged(path)) == [
        Tagged(("EU", "\u00a0", "#"), ("B-ORG", "O", "B-MISC"), "a.conll:3"),
        Tagged(("Peter", "Mary"), ("B-PER", "B-PER"), "a.conll:8"),
        Tagged(("Next",), ("O",), "a.conll:11"),
    ]
    assert next(tagged(path, tag=1)).tags == ("NNP", "VBZ", "NN")
    assert next(tagged(path, tag=2)).tags == ("B-NP", "B-VP", "B-NP")
    assert next(tagged(path, scheme="plain")).tags == ("I-ORG", "O", "I-MISC")


def test_tabs_and_comments(write):
    path = write("# sent_id = 1\n# text = New York\n1\tNew York\tPROPN\n2\t#\tSYM\n\n1\tis\tVERB\n")
    assert list(tagged(path, word=1)) == [
        Tagged(("New York", "#"), ("PROPN", "SYM"), "a.conll:3"),
        Tagged(("is",), ("VERB",), "a.conll:6"),
    ]


@pytest.mark.parametrize(
    ("bad_line", "reason"),
    [
        ("b", "a.conll:5: 1 column where the first line has 2"),
        ("b O O", "a.conll:5: 3 columns where the first line has 2"),
        ("b FOO", "a.conll:4: the tag 'FOO' of word 2 is not IOB2 (allowed: O, B-NAME, I-NAME)"),
        ("b\t", "a.conll:5: the word or the tag is empty"),
    ],
)
def test_a_bad_sentence_stops_with_its_place_or_is_counted(write, bad_line, reason):
    path = write(f"a B-X\na O\n\nc O\n{bad_line}\nd O\n\ne O\n")
    assert message(tagged(path)) == reason
    skipped = BadRows()
    assert [example.words for example in tagged(path, bad="skip", skipped=skipped)] == [("a", "a"), ("e",)]
    assert skipped.reasons == [reason]


def test_columns_that_are_not_there(write):
    path = write("a O\n")
    expected = "a.conll:1: the file has 2 columns, but data.text is #0 and data.label is #3"
    assert message(tagged(path, tag=3)) == expected
    assert message(tagged(write("word\n"))).startswith("a.conll:1: the file has 1 column, but data.text is #0")
    assert "columns of CoNLL files are numbers" in message(tagged(path, tag="ner"))


def test_wrong_arguments_are_said_before_anything_is_read():
    with pytest.raises(UsageError, match=r"unknown scheme 'IOB3'; did you mean 'IOB"):
        tagged("a", scheme="IOB3")
    with pytest.raises(UsageError, match="unknown scheme"):
        to_iob2([], "iob")
    with pytest.raises(UsageError, match="unknown policy"):
        tagged("a", bad="x")


def test_rows_with_two_lists(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [
        ({"tokens": ["Ada", "ran"], "ner_tags": ["B-PER", "O"]}, None),
        ({"tokens": ["Ada", "ran"], "ner_tags": ["B-PER"]}, "2 words, but 1 tags"),
        ({"tokens": ["Ada", None], "ner_tags": ["B-PER", "O"]}, "a word is empty or not a string"),
        ({"tokens": ["Ada", " "], "ner_tags": ["B-PER", "O"]}, "a word is empty or not a string"),
        ({"tokens": ["Ada"], "ner_tags": [""]}, "a tag is empty or not a name"),
        ({"tokens": [], "ner_tags": []}, "the words and the tags must be two lists that are not empty"),
        ({"tokens": ["Ada"]}, "the row has no column 'ner_tags' (its columns: tokens)"),
        ({"tokens": ["Bob"], "ner_tags": ["B-PER"]}, None),
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps(row) for row, _ in rows))
    skipped = BadRows(keep=9)
    found = list(tagged("a.jsonl", bad="skip", skipped=skipped))
    assert found == [
        Tagged(("Ada", "ran"), ("B-PER", "O"), "a.jsonl:1"),
        Tagged(("Bob",), ("B-PER",), "a.jsonl:8"),
    ]
    assert skipped.reasons == [f"a.jsonl:{i}: {reason}" for i, (_, reason) in enumerate(rows, 1) if reason]
    assert message(tagged("a.jsonl")) == "a.jsonl:2: 2 words, but 1 tags"
