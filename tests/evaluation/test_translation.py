"""BLEU and chrF, one sentence at a time, against sacrebleu on the whole corpus."""

import random

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU, CHRF

from qkv.common.errors import UsageError
from qkv.evaluation.translation import Bleu, Chrf

WORD = st.sampled_from(["The", "the", "dog", "dogs,", "isn't", "3.5", "(very)", "grün", "—", "x&y", "."])
SENTENCE = st.one_of(st.lists(WORD, max_size=12).map(" ".join), st.text(max_size=20))
CORPUS = st.lists(st.tuples(SENTENCE, SENTENCE, SENTENCE), min_size=1, max_size=12)


def run(metric, corpus):
    for translation, *references in corpus:
        metric.add(translation, references)
    return metric.result()


def columns(corpus):
    translations, *references = (list(column) for column in zip(*corpus, strict=True))
    return translations, references


@pytest.mark.parametrize("lowercase", [False, True])
@given(corpus=CORPUS)
def test_bleu_agrees(corpus, lowercase):
    whole = BLEU(lowercase=lowercase)
    theirs = whole.corpus_score(*columns(corpus))
    ours = run(Bleu(lowercase=lowercase, replicas=5), corpus)
    assert ours.value == pytest.approx(theirs.score, abs=1e-9)
    assert ours.value == pytest.approx(sacrebleu.corpus_bleu(*columns(corpus), lowercase=lowercase).score, abs=1e-9)
    assert [ours.parts[f"precision-{n}"] for n in (1, 2, 3, 4)] == pytest.approx(theirs.precisions)
    assert ours.parts["brevity-penalty"] == pytest.approx(theirs.bp)
    assert ours.parts["length-ratio"] == pytest.approx(theirs.ratio)
    assert ours.signature == f"{whole.get_signature()}|ci:poisson-bootstrap-5-seed-0"


@pytest.mark.parametrize("word_order", [0, 2])
@given(corpus=CORPUS)
def test_chrf_agrees(corpus, word_order):
    whole = CHRF(word_order=word_order)
    theirs = whole.corpus_score(*columns(corpus))
    ours = run(Chrf(word_order=word_order, replicas=5), corpus)
    assert ours.value == pytest.approx(theirs.score, abs=1e-9)
    assert ours.value == pytest.approx(sacrebleu.corpus_chrf(*columns(corpus), word_order=word_order).score, abs=1e-9)
    assert ours.name == theirs.name
    assert ours.signature == f"{whole.get_signature()}|ci:poisson-bootstrap-5-seed-0"


@pytest.mark.parametrize("tokenize", ["none", "char", "intl", "zh"])
def test_other_tokenizers_agree(tokenize):
    corpus = [("The dogs, isn't it 3.5?", "The dog isn't 3.5!"), ("a b c d e f", "a b c d f e")]
    ours = run(Bleu(tokenize=tokenize), corpus)
    theirs = sacrebleu.corpus_bleu(*columns(corpus), tokenize=tokenize)
    assert ours.value == pytest.approx(theirs.score, abs=1e-9)
    assert f"tok:{tokenize}" in ours.signature


def test_case():
    corpus = [("the dog runs in the park", "The Dog runs in the Park")]
    assert run(Bleu(), corpus).value < 50
    lower = run(Bleu(lowercase=True), corpus)
    assert lower.value == pytest.approx(100)
    assert "case:lc" in lower.signature
    assert "tok:13a" in lower.signature


def test_numbers_of_references_may_vary():
    corpus = [("a dog runs there now", "a dog runs there", "one dog runs"), ("b c d e", "b c e d")]
    metric = Bleu(replicas=5)
    for translation, *references in corpus:
        metric.add(translation, references)
    whole = BLEU()
    theirs = whole.corpus_score(
        ["a dog runs there now", "b c d e"], [["a dog runs there", "b c e d"], ["one dog runs", None]]
    )
    assert metric.result().value == pytest.approx(theirs.score, abs=1e-9)
    assert "nrefs:var" in metric.result().signature
    assert metric.result().signature.startswith(str(whole.get_signature()))


@pytest.mark.parametrize(("ours", "theirs"), [(Bleu, BLEU), (Chrf, CHRF)])
def test_the_interval_is_near_sacrebleu_s(ours, theirs, monkeypatch):
    monkeypatch.setenv("SACREBLEU_SEED", "1")
    source = random.Random(0)
    words = [f"w{n}" for n in range(30)]
    corpus = []
    for _ in range(300):
        gold = [source.choice(words) for _ in range(source.randint(5, 15))]
        corpus.append((" ".join(w if source.random() < 0.8 else source.choice(words) for w in gold), " ".join(gold)))
    one = run(ours(), corpus)
    whole = theirs().corpus_score(*columns(corpus), n_bootstrap=1000)
    assert one.value == pytest.approx(whole.score, abs=1e-9)
    half = float(whole._ci)
    assert (one.high - one.low) / 2 == pytest.approx(half, rel=0.12)
    assert (one.low + one.high) / 2 == pytest.approx(float(whole._mean), abs=0.15 * half)


@pytest.mark.parametrize("metric", [Bleu, Chrf])
@pytest.mark.parametrize("references", [[], "the dog"])
def test_references_are_a_list(metric, references):
    with pytest.raises(UsageError, match="list of one or more"):
        metric().add("the dog", references)


def test_unknown_tokenizer():
    with pytest.raises(UsageError, match="did you mean '13a'"):
        Bleu(tokenize="13b")
