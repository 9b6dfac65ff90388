"""The bag of words of benchmarks/defaults.py beside scikit-learn's, and a whole benchmark in small."""

import json
import os
import random
import subprocess
import sys

import numpy as np
import pytest
from defaults_cells import write_packed
from defaults_peers import classes, numbers, tagger, words
from defaults_table import table
from defaults_words import TfIdf, logistic, ridge

from tests.benchmarks.conftest import BENCHMARKS

GOOD, BAD, PLAIN = ["cat", "sat", "mat"], ["dog", "run", "dogs"], ["the", "on", "a"]


def rows(count, seed=0):
    draw = random.Random(seed)
    found = []
    for n in range(count):
        said = [draw.choice(PLAIN) for _ in range(4)] + [draw.choice(BAD if n % 2 else GOOD) for _ in range(2)]
        draw.shuffle(said)
        found.append({"text": " ".join(said), "label": ["good", "bad"][n % 2]})
    return found


@pytest.mark.parametrize("balanced", [False, True])
def test_words_and_logistic_regression_equal_scikit_learn(balanced):
    text = pytest.importorskip("sklearn.feature_extraction.text")
    linear = pytest.importorskip("sklearn.linear_model")
    texts = [words(row) for row in rows(30)]
    labels = np.array([0] * 20 + [1] * 6 + [2] * 4)
    theirs = text.TfidfVectorizer(analyzer=list, sublinear_tf=True)
    expected = theirs.fit_transform(texts)
    found = TfIdf.of(texts)(texts)
    assert np.allclose(found.toarray(), expected.toarray())
    model = linear.LogisticRegression(C=10, class_weight="balanced" if balanced else None, max_iter=2000, tol=1e-8)
    wanted = model.fit(expected, labels).predict_proba(expected)
    matrix = logistic(found, labels, strength=10, balanced=balanced)
    logits = found @ matrix[:-1] + matrix[-1]
    chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert np.allclose(chances, wanted, atol=2e-3)


def test_ridge_regression_solves_the_normal_equations():
    texts = [words(row) for row in rows(20)]
    x, targets = TfIdf.of(texts)(texts), np.linspace(1, 5, 20)
    weights, mean = ridge(x, targets, penalty=0.5)
    dense = x.toarray()
    exact = np.linalg.solve(dense.T @ dense + 0.5 * np.eye(dense.shape[1]), dense.T @ (targets - 3))
    assert mean == pytest.approx(3)
    assert np.allclose(weights, exact, atol=1e-4)


def test_a_bag_of_words_learns_classes_and_numbers():
    scores = classes(rows(60), rows(20, seed=1), "f1")
    assert scores["accuracy"] == scores["f1"] == 1.0
    rated, asked = (
        [{**row, "label": 5.0 if row["label"] == "good" else 1.0} for row in some]
        for some in (rows(60), rows(20, seed=1))
    )
    assert numbers(rated, asked, "pearson")["pearson"] > 0.9


def test_pairs_are_counted_by_side():
    assert words({"text": "A cat sat", "second": "a dog"}) == [
        "both:", "both:a", "first:", "first:cat", "first:sat", "second:", "second:dog",
    ]  # fmt: skip
    assert words({"text": "A cat sat"}) == ["a", "cat", "sat", "a cat", "cat sat"]


def test_a_word_gets_its_most_frequent_tag():
    train = [{"tokens": ["cat", "cat", "sat", "cat"], "tags": ["N", "V", "V", "N"]}]
    test = [{"tokens": ["cat", "sat", "mat"], "tags": ["N", "V", "N"]}]
    assert tagger(train, test, "accuracy") == {"accuracy": pytest.approx(2 / 3)}  # mat is unknown, and V is rare
    named = [{"tokens": ["Ann", "sat"], "tags": ["B-PER", "O"]}]
    assert tagger(named, named, "entity-f1") == {"entity-f1": 1.0}


def command(*given):
    place = {**os.environ, "OMP_NUM_THREADS": "1"}
    found = subprocess.run(
        [sys.executable, str(BENCHMARKS / "defaults.py"), *map(str, given)], env=place, capture_output=True, text=True
    )
    return found.stdout + found.stderr


@pytest.mark.slow
def test_a_benchmark_from_the_command_line(tmp_path, bert_folder):
    for part, count in (("train", 45), ("test", 6)):
        write_packed(tmp_path / f"text/sst2.{part}.jsonl.gz", rows(count))
        tags = [
            {"tokens": row["text"].split(), "entities": ["B-X"] + ["O"] * 5, "parts": list("ABABAB")}
            for row in rows(count)
        ]
        write_packed(tmp_path / f"text/conll2003.{part}.jsonl.gz", tags)
    common = ("--packed", tmp_path, "--minilm", bert_folder, "--device", "cpu", "--jobs", 2)
    ours, peers = tmp_path / "ours.jsonl", tmp_path / "peers.jsonl"
    wanted = ("--cells", "sst2/30,parts-of-speech/*", "--starts", "minilm", "--out", ours)
    said = command("run", *common, *wanted)
    assert "3 of 3 runs to do" in said
    assert "0 of 3 runs to do" in command("run", *common, *wanted)
    said = command("peers", *common, "--cells", "sst2/30,parts-of-speech/30", "--ours", ours, "--out", peers)
    assert "8 of 8 runs to do" in said
    lines = [json.loads(line) for file in (ours, peers) for line in file.read_text().splitlines()]
    assert len(lines) == 11
    assert not [line for line in lines if "failed" in line]
    own = next(line for line in lines if line["side"] == "qkv" and line["cell"] == "sst2/30")
    assert own["resolved"]["train"]["seed"] == 1
    assert own["valid"][-1][0] == own["steps"]
    assert {line["epochs"] for line in lines if line["side"] == "hf" and line["cell"] == "sst2/30"} == {own["epochs"]}
    shown = command("table", peers, ours)
    assert shown.strip() == table([{**line, "file": "x"} for line in lines]).strip()
    assert "has no cell nothing" in command("run", *common, "--cells", "nothing", "--out", ours)
