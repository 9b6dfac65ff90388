"""Tags of words and entities of texts: exact places in any text, nothing lost in long ones."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities

from qkv.common.errors import UsageError
from qkv.predict import Entity
from qkv.predict.places import split_words
from qkv.predict.tag import has_entities, iob2, tag_words

from .readers import NER, POS, make_reader

# What moves places: composed letters, ligatures, joined emoji, odd spaces, halves of surrogate pairs.
ODD = "abThe cat.,'-\n\t \u00a0\u3000\u2028é\u0301ﬁ½İß中か\u3099\u1100\u1161\u200d😀\x00\ufffd\ud83d\ude00"
TEXT = st.text(st.sampled_from(ODD) | st.characters(), max_size=40)
KINDS = ["wordpiece", "byte-bpe", "unigram", "bpe"]
TAGS = st.lists(st.sampled_from(NER), max_size=12)
LINE = "Ada Lovelace met the cat in London, and the dogs of Mr. Babbage ran home because it was snowing in the U.S. "


def ner(**changes):
    return make_reader("tag", labels=NER, **changes)


@pytest.mark.parametrize("kind", KINDS)
@example("", False)
@example("x" * 90 + " cat", False)
@example("\ud83d\ude00 the cat", True)
@given(TEXT, st.booleans())
def test_places_are_those_in_the_original_text(kind, text, by_word):
    for model in (ner(kind=kind), ner(kind=kind, max_length=7)):
        (found,) = model.tag([text], words=by_word)
        for entity in found:
            assert text[entity.start : entity.end] == entity.text
            assert entity.text.strip() == entity.text != ""
            assert 0 < entity.score <= 1
        ends = [(entity.start, entity.end) for entity in found]
        assert all(a[1] <= b[0] for a, b in pairwise(ends))


@given(TEXT)
def test_words_hold_all_but_white_space(text):
    places = split_words(text)
    assert all(a[1] <= b[0] for a, b in pairwise(places))
    assert all(start < end and not any(map(str.isspace, text[start:end])) for start, end in places)
    covered = {i for start, end in places for i in range(start, end)}
    assert all(text[i].isspace() for i in set(range(len(text))) - covered)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Germany's Anglo-Dutch (1,234.5%) firm.", "Germany 's Anglo-Dutch ( 1,234.5 % ) firm ."),
        ("In the U.S. we don't; O\u2019Brien's “U.S.A.” did", "In the U.S. we do n't ; O\u2019Brien 's “ U.S.A. ” did"),
        ("  me@x.org\u00a0said: no!?\n", "me@x.org said : no ! ?"),
        ("東京 and Tōkyō—cafe\u0301", "東 京 and Tōkyō — cafe\u0301"),
        ("it's 'tis", "it 's ' tis"),
        ("", ""),
    ],
)
def test_words_as_treebanks_have_them(text, words):
    assert [text[start:end] for start, end in split_words(text)] == words.split()


@pytest.mark.parametrize("kind", KINDS)
@given(st.text("abc THEcat.,é", max_size=80))
def test_windows_lose_nothing(kind, text):
    """A model that looks at each token by itself says the same through windows of any size."""
    whole = ner(kind=kind, plain=True, max_length=500).tag([text])
    for length in (3, 5, 8, 30):
        assert ner(kind=kind, plain=True, max_length=length).tag([text])[0] == [Same(entity) for entity in whole[0]]


class Same:
    """Equal to an entity but for the last digits of its score."""

    def __init__(self, entity):
        self.entity = entity

    def __eq__(self, other):
        one, two = self.entity, other
        same = (one.label, one.text, one.start, one.end) == (two.label, two.text, two.start, two.end)
        return same and one.score == pytest.approx(two.score, abs=1e-4)

    def __repr__(self):
        return repr(self.entity)


def test_a_word_is_asked_where_it_has_most_company():
    model = ner(max_length=12)
    text = LINE.strip()
    ids = model.tokenizer.encode([text]).ids[0]
    room, shared = 10, 2
    best = {}
    for start in range(0, len(ids) - 2 - shared, room - shared):
        window = ids[1:-1][start : start + room]
        scores = model.logits([[ids[0], *window, ids[-1]]])[0].softmax(-1)
        for place in range(len(window)):
            company = min(place, len(window) - 1 - place)
            if company > best.get(start + place, (-1, None))[0]:
                best[start + place] = (company, scores[place + 1])
    ((window,),) = model.tokenizer.encode_spans([text])
    for word in model.tag([text], words=True)[0]:
        first = next(i for i, (start, _) in enumerate(window.spans[1:-1]) if start >= word.start)
        scores = best[first][1]
        assert (word.label, word.score) == (NER[int(scores.argmax())], pytest.approx(float(scores.max()), abs=1e-5))


@pytest.mark.parametrize("kind", KINDS)
@given(st.lists(st.text("abc THEcat.,é\x00", max_size=9), max_size=8))
def test_a_tag_for_each_word_of_a_list(kind, words):
    model = ner(kind=kind, max_length=9)
    (found,) = model.tag([words])
    text = " ".join(words)
    assert [entity.text for entity in found] == words
    assert [text[entity.start : entity.end] for entity in found] == words
    assert [(entity.label, entity.score) for entity in found] == tag_words(model, [words])[0]


def test_a_word_is_tagged_by_its_first_token():
    model = ner(max_length=60)
    words = ["the", "dogs", "ran", "homewards", "unsnowing"]
    found = model.tokenizer.encode_words([words])
    scores = model.logits(found.ids)[0].softmax(-1)
    firsts = [found.words[0].index(number) for number in range(len(words))]
    assert len(found.ids[0]) > len(words) + 2
    for entity, row in zip(model.tag([words])[0], firsts, strict=True):
        assert (entity.label, entity.score) == (NER[int(scores[row].argmax())], pytest.approx(float(scores[row].max())))
    assert model.tag([" ".join(words)], words=True)[0] == model.tag([words])[0]


@given(st.lists(TAGS, min_size=1, max_size=3))
def test_entities_are_those_of_seqeval(sentences):
    from qkv.predict.tag import _entities

    for tags in sentences:
        places = [(2 * i, 2 * i + 1) for i in range(len(tags))]
        text = "x " * len(tags)
        scores = [(i + 1) / 20 for i in range(len(tags))]
        found = _entities(text, places, list(zip(tags, scores, strict=True)))
        wanted = [
            (label, 2 * a, 2 * b + 1, pytest.approx(sum(scores[a : b + 1]) / (b - a + 1)))
            for label, a, b in get_entities(list(tags))
        ]
        assert [(e.label, e.start, e.end, e.score) for e in found] == wanted


def test_other_schemes():
    assert [iob2(tag) for tag in ("S-X", "B-X", "E-X", "U-Y", "L-Y", "O", "NN")] == [
        "B-X", "B-X", "I-X", "B-Y", "I-Y", "O", "NN",
    ]  # fmt: skip
    assert has_entities(NER)
    assert has_entities(("B-X", "I-X"))
    assert not has_entities(POS)
    assert not has_entities(("LABEL_0", "LABEL_1"))
    assert not has_entities(("NN", "B-X"))


def test_parts_of_speech_are_one_tag_for_each_word():
    model = make_reader("tag", labels=POS, max_length=12)
    (found,) = model.tag(["The cat, the dog\nran."])
    assert [word.text for word in found] == ["The", "cat", ",", "the", "dog", "ran", "."]
    assert {word.label for word in found} <= set(POS)
    assert not model.tags_entities


def test_texts_of_many_lengths_at_once_in_order():
    model = ner(max_length=16)
    texts = [LINE * 3, "", "the cat", "  ", LINE, "dogs"]
    for text, found in zip(texts, model.tag(texts), strict=True):
        assert found == [Same(entity) for entity in model.tag([text])[0]]
    assert model.tag([]) == []
    assert model.tag([""]) == [[]]
    assert model.tag([[], ["cat"]])[0] == []


def test_wrong_use():
    model = ner()
    with pytest.raises(UsageError, match="list of texts; put a single one in a list"):
        model.tag("the cat")
    with pytest.raises(UsageError, match="not a mix of both"):
        model.tag(["the cat", ["the", "cat"]])
    with pytest.raises(
        UsageError, match=r"this bert cannot tag: it has no head for that \(it can fill, embed, similar\)"
    ):
        make_reader("mlm").tag(["the cat"])
    with pytest.raises(UsageError, match="max_length 2 leaves no room: the tokens around the text take 2"):
        ner(max_length=2).tag(["the cat"])
    assert isinstance(model.tag([LINE])[0][0], Entity)
