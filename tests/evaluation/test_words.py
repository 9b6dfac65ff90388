"""Analogies and similarity against one loop per question."""

import math

import numpy as np
import pytest

from qkv.common.errors import UsageError
from qkv.evaluation import words as module
from qkv.evaluation.words import Analogies, Analogy, Vectors, WordSimilarity, read_analogies, read_pairs

WORDS = [f"w{n}" for n in range(40)]


@pytest.fixture
def table():
    return np.random.default_rng(0).normal(size=(40, 4))


def cosine(x, y):
    return float(x @ y / math.sqrt((x @ x) * (y @ y)))


def naive_answer(table, a, b, c, limit):
    unit = {word: row / np.linalg.norm(row) for word, row in zip(WORDS[:limit], table, strict=False)}
    target = unit[b] - unit[a] + unit[c]
    return max((word for word in unit if word not in (a, b, c)), key=lambda word: cosine(unit[word], target))


def questions(count, limit=40):
    source = np.random.default_rng(1)
    return [[WORDS[n] for n in source.integers(0, limit, 4)] for _ in range(count)]


@pytest.mark.parametrize("cells", [1, 40 * 7, 2**24])
@pytest.mark.parametrize("limit", [40, 25])
def test_analogies_agree_with_a_loop(table, limit, cells, monkeypatch):
    monkeypatch.setattr(module, "CELLS", cells)
    metric = Analogies(Vectors(WORDS, table, restrict=limit))
    hits = {"even": [], "odd": []}
    for number, (a, b, c, d) in enumerate(questions(300)):
        section = "odd" if number % 2 else "even"
        if number % 3 and {a, b, c} <= set(WORDS[:limit]):
            d = naive_answer(table, a, b, c, limit)
        metric.add(section, a, b, c, d)
        if {a, b, c, d} <= set(WORDS[:limit]):
            hits[section].append(naive_answer(table, a, b, c, limit) == d)
    one, flat = metric.result(), hits["even"] + hits["odd"]
    assert 0 < one.value < 1
    assert one.value == pytest.approx(np.mean(flat))
    assert one.count == len(flat)
    assert one.parts == pytest.approx(
        {"coverage": len(flat) / 300, "even": np.mean(hits["even"]), "odd": np.mean(hits["odd"])}
    )
    assert one.signature == f"method:3cosadd|case:lc|vocabulary:{limit}|ci:wilson"


def test_queries_are_never_the_answer():
    # b - a + c is b itself here, but b may not answer; the next is d.
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.01], [0.1, 1.0]])
    metric = Analogies(Vectors(["a", "b", "c", "d"], rows))
    metric.add("", "a", "b", "c", "d")
    assert metric.result().value == 1


def test_case_is_folded_and_the_first_word_stays(table):
    vectors = Vectors(["The", "the", "DOG"], table[:3])
    assert (len(vectors), vectors.find("the", "dog")) == (2, [0, 1])
    assert vectors.unit_VD[0] == pytest.approx(table[0] / np.linalg.norm(table[0]), rel=1e-5)
    exact = Vectors(["The", "the", "DOG"], table[:3], lowercase=False)
    assert (len(exact), exact.find("the"), exact.find("dog")) == (3, [1], None)


def test_similarity_agrees_with_a_loop(table):
    source = np.random.default_rng(2)
    # Different words: a word's cosine with itself is 1 only to rounding, and ranks see that.
    chosen = [source.choice(WORDS, 2, replace=False) for _ in range(80)]
    pairs = [(str(a), str(b), float(source.integers(100)) / 8) for a, b in chosen]
    metric = WordSimilarity(Vectors(WORDS, table, restrict=30))
    for pair in pairs:
        metric.add(*pair)
    known = [pair for pair in pairs if {*pair[:2]} <= set(WORDS[:30])]
    x = [cosine(table[WORDS.index(a)], table[WORDS.index(b)]) for a, b, _ in known]
    y = [judgement for *_, judgement in known]
    ranks = [[sum(v < u for v in side) + sum(v == u for v in side) / 2 for u in side] for side in (x, y)]
    one = metric.result()
    assert one.value == pytest.approx(np.corrcoef(*ranks)[0, 1], abs=1e-9)
    assert one.parts["pearson"] == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-5)
    assert one.parts["coverage"] == len(known) / 80
    assert one.name == "word-similarity"
    assert one.signature.endswith("|case:lc|vocabulary:30")


def test_reading():
    lines = [": capitals\n", "Athens Greece Oslo Norway\n", "\n", ": verbs \n", "go goes be is\n"]
    assert list(read_analogies(lines)) == [
        Analogy("capitals", "Athens", "Greece", "Oslo", "Norway"),
        Analogy("verbs", "go", "goes", "be", "is"),
    ]
    assert list(read_pairs(["# a comment\n", "old\tnew\t1.58\n", "\n"])) == [("old", "new", 1.58)]


@pytest.mark.parametrize("line", ["one two three", "a b c d e"])
def test_lines_that_are_no_analogy(line):
    with pytest.raises(UsageError, match="line 2 has"):
        list(read_analogies([": s", line]))


@pytest.mark.parametrize("line", ["one two", "one two three"])
def test_lines_that_are_no_pair(line):
    with pytest.raises(UsageError, match="line 1 is not"):
        list(read_pairs([line]))


def test_wrong_use(table):
    with pytest.raises(UsageError, match="39 words but 40 vectors"):
        Vectors(WORDS[:39], table)
    vectors = Vectors(WORDS, table)
    lost, lonely = Analogies(vectors), WordSimilarity(vectors)
    lost.add("", "w0", "w1", "w2", "nowhere")
    lonely.add("w0", "nowhere", 1.0)
    with pytest.raises(UsageError, match="none of 1 analogies"):
        lost.result()
    with pytest.raises(UsageError, match="none of 1 pairs"):
        lonely.result()
