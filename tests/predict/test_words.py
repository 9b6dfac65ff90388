"""Words near words against plain sums and sorting."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import qkv
from qkv.checkpoints.word_vectors import write_vectors
from qkv.common.errors import UsageError
from qkv.evaluation.words import Analogies, Vectors
from qkv.predict.words import Question, WordVectors, named_vectors, parse

WORDS = ["man", "woman", "king", "queen", "apple", "x-ray", "Paris", "paris"]
TABLE = np.array(
    [[1, 0, 0], [1, 1, 0], [1, 0, 2], [1, 1, 2], [-3, 0.5, 0.1], [-1, -1, -1], [0.2, -2, 1], [0.3, -2, 1]], np.float32
)


@pytest.fixture
def vectors(tmp_path: Path) -> WordVectors:
    write_vectors(tmp_path / "v.txt", WORDS, TABLE)
    return WordVectors(qkv.load(tmp_path / "v.txt", device="cpu"))


def test_a_sum_is_answered_by_the_nearest_other_word(vectors: WordVectors) -> None:
    unit = TABLE / np.linalg.norm(TABLE, axis=1, keepdims=True)
    sought = unit[2] - unit[0] + unit[1]
    cosines = unit @ sought / np.linalg.norm(sought)
    wanted = sorted((-float(c), w) for w, c in zip(WORDS, cosines, strict=True) if w not in ("king", "man", "woman"))
    found = vectors.nearest("king - man + woman", top=99)
    assert [near.word for near in found] == [word for _, word in wanted]
    assert found[0].word == "queen"
    assert [near.cosine for near in found] == pytest.approx([-c for c, _ in wanted], abs=1e-6)
    assert vectors.nearest("king - man + woman", top=2) == found[:2]


def test_it_agrees_with_the_metric_of_analogies(vectors: WordVectors) -> None:
    metric = Analogies(Vectors(WORDS, TABLE, lowercase=False))
    metric.add("", "man", "woman", "king", vectors.nearest("king - man + woman")[0].word)
    assert metric.result().value == 1


def test_words_are_found_as_they_are_or_in_lower_case(vectors: WordVectors) -> None:
    assert vectors.place("Paris") == 6
    assert vectors.place("PARIS") == 7
    assert vectors.cosine("KING", "king") == pytest.approx(1)
    with pytest.raises(UsageError, match=r"'quen' is not among the 8 words of this model; did you mean 'queen'\?"):
        vectors.nearest("quen")
    with pytest.raises(UsageError, match=r"'zzzzzz' is not among the 8 words of this model$"):
        vectors.cosine("king", "zzzzzz")
    with pytest.raises(UsageError, match="top must be at least 1"):
        vectors.nearest("king", top=0)


def test_sums_are_read() -> None:
    assert parse(["king", "-", "man", "+", "woman"]) == Question(["king", "woman"], ["man"])
    assert parse(["x-ray"]) == Question(["x-ray"], [])
    for wrong in ("- king", "king man", "king - - man", "king +", ""):
        with pytest.raises(UsageError, match="write it like king - man"):
            parse(wrong.split())


def test_other_models_have_no_words(bert_folder: Path) -> None:
    with pytest.raises(UsageError, match="this bert has no vectors of whole words"):
        named_vectors(qkv.load(bert_folder, device="cpu"))
