import json

import pytest
import torch

import qkv
from qkv.checkpoints.folder import Folder
from qkv.common.errors import UsageError
from qkv.models import catalogue
from qkv.predict import Model
from qkv.predict.token_words import token_words
from tests.predict.conftest import make_translator
from tests.predict.readers import NER, POS, SIZES, make_reader
from tests.tokenizers.conftest import train

LABELS = ("bad", "good", "so so")
TEXT = "the cat sat on the mat."
CONTEXT = "The dog ran home because it was snowing. The cats stayed on the mat."


def odds(model, ids, index):
    chances = model.logits([ids], head="classify")[0].double().softmax(-1)
    return float((chances[index] / (1 - chances[index])).log())


def make_gpt(*heads, labels=()):
    tokenizer = train("byte-bpe", specials="gpt", min_frequency=1)
    numbers = {"vocab_size": tokenizer.vocab_size, "max_length": 40, "num_labels": len(labels) or 2, "num_layers": 2}
    config = catalogue.preset("gpt2", heads=list(heads), **numbers, **SIZES)
    torch.manual_seed(3)
    module = catalogue.build(config).eval()
    return Model(Folder(config, module, tokenizer, labels), device="cpu")


@pytest.fixture(scope="module")
def classifier():
    return make_reader("pool", "classify", labels=LABELS)


def test_the_words_behind_a_label(classifier):
    said = classifier.classify([TEXT])[0]
    found = classifier.explain(TEXT, steps=64)
    assert (len(found), found.count) == (1, 1)
    (one,) = found
    assert (one.verb, one.answer) == ("classify", said.label)
    assert one.probability == pytest.approx(said.score, abs=1e-5)
    assert [word.text for word in one.words] == ["the", "cat", "sat", "on", "the", "mat", "."]
    assert all(TEXT[word.start : word.end] == word.text for word in one.words)
    (ids,) = classifier.encode([TEXT]).ids
    index = LABELS.index(said.label)
    assert one.score == pytest.approx(odds(classifier, ids, index), abs=1e-4)
    assert abs(one.gap) < 0.05 * max(1.0, abs(one.score - one.baseline))
    for word in one.words:  # the text without the word, encoded again
        (less,) = classifier.encode([TEXT[: word.start] + TEXT[word.end :]]).ids
        assert word.left_out == pytest.approx(one.score - odds(classifier, less, index), abs=1e-4)
    mask = classifier.tokenizer.specials["mask"]
    blank = [ids[0], *[mask] * (len(ids) - 2), ids[-1]]
    assert one.baseline == pytest.approx(odds(classifier, blank, index), abs=1e-4)
    json.dumps(found.to_dict())


def test_another_label_and_several_texts(classifier):
    texts = [TEXT, "a dog", "dogs"]
    found = classifier.explain(texts, of="so so")
    assert [one.answer for one in found] == ["so so"] * 3
    assert [one.number for one in found] == [0, 1, 2]
    for text, one in zip(texts, found, strict=True):
        alone = classifier.explain(text, of="so so")[0]
        assert [w.left_out for w in one.words] == pytest.approx([w.left_out for w in alone.words], abs=1e-4)
        assert [w.gradient for w in one.words] == pytest.approx([w.gradient for w in alone.words], abs=2e-2)


def test_explaining_changes_no_bit(classifier):
    (ids,) = classifier.encode([TEXT]).ids
    before = classifier.logits([ids], head="classify")[0]
    classifier.explain(TEXT)
    classifier.heads([TEXT])
    classifier.layers([TEXT])
    assert torch.equal(classifier.logits([ids], head="classify")[0], before)
    assert all(parameter.grad is None for parameter in classifier.module.parameters())


def test_pairs_numbers_and_several_labels():
    pair = make_reader("pool", "classify", labels=LABELS).explain(TEXT, "a dog ran")[0]
    assert [word.text for word in pair.words if word.side == 1] == ["a", "dog", "ran"]
    assert pair.texts == (TEXT, "a dog ran")
    number = make_reader("pool", "regress").explain([TEXT, "a dog"])
    assert [one.scale for one in number] == ["number"] * 2
    assert number[0].score == pytest.approx(make_reader("pool", "regress").classify([TEXT])[0], abs=1e-4)
    model = make_reader("pool", "classify", labels=LABELS, multi_label=True, threshold=0.3)
    said = {label.label for label in model.classify([TEXT])[0]}
    assert {one.answer for one in model.explain(TEXT)} == (said or {model.classify([TEXT], every=True)[0][0].label})


def test_the_words_behind_a_tag():
    model = make_reader("tag", labels=NER)
    entities = model.tag([TEXT])[0]
    found = model.explain(TEXT)
    assert [(one.place, one.answer) for one in found] == [((e.start, e.end), f"{e.text}: {e.label}") for e in entities]
    words = make_reader("tag", labels=POS)
    found = words.explain(TEXT)
    assert [one.answer for one in found] == [f"{word.text}: {word.label}" for word in words.tag([TEXT])[0]]
    label = words.tag([TEXT])[0][0].label
    assert {one.answer.split(": ")[1] for one in words.explain(TEXT, of=label)} == {label}
    with pytest.raises(UsageError, match="unknown tag"):
        words.explain(TEXT, of="ADJ")


def test_the_words_behind_an_answer():
    model = make_reader("span", max_length=30)
    question = "where did the dog run"
    said = model.answer([question], CONTEXT, no_answer=False)[0]
    one = model.explain(question, CONTEXT)[0]
    assert (one.answer, one.place, one.probability) == (said.text, (said.start, said.end), said.score)
    assert {word.side for word in one.words} == {0, 1}
    assert all((question, CONTEXT)[w.side][w.start : w.end] == w.text for w in one.words)
    other = model.explain(question, CONTEXT, of="The cats")[0]
    assert (other.answer, other.place) == ("The cats", (41, 49))
    with pytest.raises(UsageError, match="not in the context"):
        model.explain(question, CONTEXT, of="a unicorn")
    with pytest.raises(UsageError, match="needs a context"):
        model.explain(question)


def test_the_words_behind_a_fill_in():
    model = make_reader("mlm")
    text = "the [MASK] sat on the [MASK]"
    found = model.explain(text)
    best = [choices[0] for choices in model.fill([text])[0]]
    assert [(one.answer, pytest.approx(one.probability)) for one in found] == [(b.word, b.score) for b in best]
    assert [text[slice(*one.place)] for one in found] == ["[MASK]", "[MASK]"]
    assert "[MASK]" in [word.text for word in found[0].words]
    assert model.explain(text, of="dog")[0].answer == "dog"
    with pytest.raises(UsageError, match="no mask"):
        model.explain(TEXT)
    with pytest.raises(UsageError, match="not one token"):
        model.explain(text, of="antidisestablishmentarianism dog")


@pytest.mark.parametrize("preset", ["transformer-tiny", "t5-small", "rnn-small"])
def test_the_words_behind_a_translation(preset):
    model = make_translator(preset)
    text = "the small cat sees a dog"
    said = model.translate([text], scores=True)[0]
    one = model.explain(text)[0]
    assert (one.verb, one.answer, one.scale) == ("translate", said.text, "log-probability")
    assert one.score == pytest.approx(sum(said.token_scores), abs=1e-3)
    assert [word.text for word in one.words] == text.split()
    forced = model.explain(text, of="le chat")[0]
    assert forced.answer == "le chat"
    (ids,) = model.encode([text]).ids
    (wanted,) = model.encode(["le chat"]).ids
    logits = model.logits([ids], [[model.config.start_id, *wanted[:-1]]])[0].log_softmax(-1)
    expected = sum(float(row[token]) for row, token in zip(logits, wanted, strict=True))
    assert forced.score == pytest.approx(expected, abs=1e-3)


def test_sentences_of_a_text_are_translated_and_explained_one_by_one():
    model = make_translator("transformer-tiny")
    text = "The cat sees a dog. The dog sleeps. The cat runs."
    found = model.explain(text)
    assert [one.number for one in found] == [0, 0, 0]
    assert [one.words[1].text for one in found] == ["cat", "dog", "cat"]
    for one in found:
        assert all(text[word.start : word.end] == word.text for word in one.words)
    with pytest.raises(UsageError, match="3 parts"):
        model.explain(text, of="le chat")


def test_each_word_of_a_translation():
    model = make_translator("transformer-tiny")
    text = "the small cat sees a dog"
    whole = model.explain(text, of="le petit chat voit", steps=24)[0]
    found = model.explain(text, of="le petit chat voit", each=True, steps=24)
    assert [one.answer for one in found] == ["le", "petit", "chat", "voit"]
    (ids,) = model.encode([text]).ids
    (wanted,) = model.encode(["le petit chat voit"]).ids
    end = float(model.logits([ids], [[model.config.start_id, *wanted[:-1]]])[0][-1].log_softmax(-1)[wanted[-1]])
    assert sum(one.score for one in found) + end == pytest.approx(whole.score, abs=1e-3)
    with pytest.raises(UsageError, match="only translations"):
        make_reader("mlm").explain("the [MASK]", each=True)


def test_causal_models_explain_labels_and_the_next_word():
    one = make_gpt("classify", labels=LABELS).explain(TEXT)[0]
    assert one.verb == "classify"
    assert one.score == pytest.approx(
        odds(make_gpt("classify", labels=LABELS), make_gpt("classify").encode([TEXT]).ids[0], LABELS.index(one.answer)),
        abs=1e-3,
    )
    model = make_gpt("lm")
    one = model.explain("the cat sat")[0]
    (ids,) = model.encode(["the cat sat"]).ids
    assert one.verb == "next"
    assert one.probability == pytest.approx(float(model.logits([ids])[0][-1].softmax(-1).max()), abs=1e-5)
    assert [word.text for word in model.explain("cat")[0].words] == ["cat"]  # an only word is blanked out


def test_bad_input_is_one_sentence(classifier, bert_folder):
    for wrong, said in (
        ({"of": "great"}, "unknown label"),
        ({"verb": "tag"}, "unknown verb"),
        ({"steps": 0}, "steps must be from 1"),
        ({"pairs": ["a", "b"]}, "numbers must be equal"),
    ):
        with pytest.raises(UsageError, match=said):
            classifier.explain([TEXT], **wrong)
    with pytest.raises(UsageError, match="list of texts"):
        classifier.explain([1])
    vectors = qkv.build("bert-tiny", vocab_size=20, dim=16, num_heads=2, device="cpu")
    with pytest.raises(UsageError, match="gives no answers"):
        vectors.explain(TEXT)
    assert len(classifier.explain([])) == 0
    assert classifier.explain("")[0].words == ()


def test_a_text_that_is_too_long_is_cut_with_a_warning():
    model = make_reader("pool", "classify", labels=LABELS, max_length=12)
    with pytest.warns(UserWarning, match="cut to 12 tokens"):
        one = model.explain("cat " * 30)[0]
    assert len(one.words) == 10
    with pytest.warns(UserWarning, match="cut to 12 tokens"):
        assert one.answer == model.classify(["cat " * 30])[0].label


def test_words_of_tokens():
    text = "I don't [MASK]  it."
    spans = [(0, 1), (2, 5), (5, 6), (6, 7), (8, 14), (16, 18), (18, 19)]
    words, of = token_words(text, spans)
    assert [text[a:b] for a, b in words] == ["I", "don't", "[MASK]", "it", "."]
    assert of == [0, 1, 1, 1, 2, 3, 4]
    assert token_words("a b", [(0, 1), (1, 2)]) == ([(0, 1)], [0, -1])  # b has no token
    assert token_words(" ", [(0, 1)]) == ([], [-1])
