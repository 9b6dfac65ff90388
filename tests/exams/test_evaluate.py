"""`qkv evaluate` for word vectors and for any number of labels, against scipy, transformers and scikit-learn."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score, f1_score
from typer.testing import CliRunner

import qkv
from qkv.checkpoints.folder import Folder, read_folder, write_folder
from qkv.cli.main import app
from qkv.common.errors import QkvError, UsageError
from qkv.data.config import DataConfig
from qkv.exams.evaluate import evaluate
from qkv.models import catalogue
from qkv.tokenizers.text import TextTokenizer
from qkv.tokenizers.training import TokenizerConfig, train_tokenizer

WORDS = [f"word{chr(97 + i)}{chr(97 + j)}" for i in range(6) for j in range(5)]
LABELS = ("animal", "food", "place")


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, dict[str, np.ndarray[Any, Any]]]:
    """Word vectors in a folder, and the same by word."""
    folder = tmp_path_factory.mktemp("words") / "vectors"
    tokenizer = train_tokenizer(WORDS, TokenizerConfig(kind="word", vocab_size=100, min_frequency=1, lowercase=True))
    model = catalogue.build(config := catalogue.preset("word2vec-small", vocab_size=tokenizer.vocab_size, dim=5))
    torch.nn.init.normal_(model.inputs.weight, generator=torch.Generator().manual_seed(3))
    write_folder(Folder(config, model, tokenizer), folder)
    table = model.inputs.weight.detach().numpy()
    return qkv.load(folder, device="cpu"), {word: table[tokenizer.id_of(word)] for word in WORDS}


def cosine(x: Any, y: Any) -> float:
    return float(x @ y / np.sqrt((x @ x) * (y @ y)))


def write_questions(file: Path, table: dict[str, Any]) -> tuple[list[bool], int]:
    """Write analogies, some of them right and some with an unknown word; return the hits and how many were asked."""
    draw, hits, lines = np.random.default_rng(0), list[bool](), [": first part"]
    for number in range(60):
        a, b, c, d = (str(word) for word in draw.choice(WORDS, 4, replace=False))
        unit = {word: row / np.linalg.norm(row) for word, row in table.items()}
        near = {word: cosine(row, unit[b] - unit[a] + unit[c]) for word, row in unit.items() if word not in (a, b, c)}
        best = max(near, key=lambda word: near[word])
        if number % 2:
            d = best
        if number % 5 == 0:
            c = "unheard"
        else:
            hits.append(best == d)
        lines.append(" ".join((a.upper(), b, c, d)))
        if number == 30:
            lines.append(": second part")
    file.write_text("\n".join(lines) + "\n")
    return hits, 60


def write_pairs(file: Path, table: dict[str, Any]) -> tuple[list[float], list[float]]:
    draw, x, y, lines = np.random.default_rng(1), list[float](), list[float](), ["# Word 1\tWord 2\tHuman (mean)"]
    for number in range(40):
        a, b = (str(word) for word in draw.choice(WORDS, 2, replace=False))
        judgement = float(draw.integers(0, 100)) / 10
        if number % 8 == 0:
            a = "unheard"
        else:
            x.append(cosine(table[a], table[b]))
            y.append(judgement)
        lines.append(f"{a}\t{b}\t{judgement}")
    file.write_text("\n".join(lines) + "\n")
    return x, y


def test_word_vectors_on_several_files_at_once(vectors: Any, tmp_path: Path) -> None:
    model, table = vectors
    hits, asked = write_questions(tmp_path / "questions.txt", table)
    x, y = write_pairs(tmp_path / "pairs.tsv", table)
    (tmp_path / "packed.tsv.gz").write_bytes(gzip.compress((tmp_path / "pairs.tsv").read_bytes()))
    files = [str(tmp_path / name) for name in ("pairs.tsv", "questions.txt", "packed.tsv.gz")]
    done: list[int] = []
    pairs, analogies, packed = evaluate(model, files, progress=done.append)
    assert (pairs.name, analogies.name, packed.name) == (
        "word-similarity[pairs]",
        "analogies[questions]",
        "word-similarity[packed]",
    )
    assert pairs.value == packed.value == pytest.approx(spearmanr(x, y).statistic, abs=1e-6)
    assert pairs.parts["pearson"] == pytest.approx(pearsonr(x, y).statistic, abs=1e-5)
    assert (pairs.count, pairs.parts["coverage"]) == (35, 35 / 40)
    assert analogies.value == pytest.approx(np.mean(hits))
    assert 0.3 < analogies.value < 1
    assert (analogies.count, analogies.parts["coverage"]) == (len(hits), len(hits) / asked)
    assert {"first part", "second part"} <= set(analogies.parts)
    assert f"|vocabulary:{len(WORDS)}|" in analogies.signature  # special tokens are no words
    assert sum(done) == 60 + 40 + 40


def test_word_vectors_from_the_command_line(vectors: Any, tmp_path: Path) -> None:
    model, table = vectors
    model.save(tmp_path / "model")
    write_pairs(tmp_path / "pairs.tsv", table)
    asked = ["evaluate", str(tmp_path / "model"), str(tmp_path / "pairs.tsv")]
    found = CliRunner().invoke(app, asked, catch_exceptions=False).stdout
    assert "word-similarity[pairs]" in found
    assert "coverage" in found
    score = json.loads(CliRunner().invoke(app, [*asked, "--json"], catch_exceptions=False).stdout)
    assert score["word-similarity[pairs]"]["parts"]["coverage"] == 35 / 40


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("one two\n", "neither an analogy (four words) nor two words and a number"),
        ("one two three\n", "neither an analogy"),
        ("# nothing\n\n", "no analogies and no pairs"),
        (": part\nworda wordb wordc\n", "line 2 has 3 words, but an analogy has 4"),
        ("wordaa wordab 1\nwordaa wordab many\n", "line 2 is not two words and a number"),
        ("wordaa wordab wordac unheard\n", "none of 1 analogies has vectors"),
        (": part\n", "analogies of 0 examples"),
        ("wordaa wordab nan\n", "not finite"),
    ],
)
def test_files_that_ask_wrongly(vectors: Any, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "bad.txt").write_text(text)
    with pytest.raises(UsageError) as error:
        evaluate(vectors[0], [str(tmp_path / "bad.txt")])
    assert message in str(error.value)
    assert str(error.value).startswith(str(tmp_path / "bad.txt"))
    assert "\n" not in str(error.value)


def test_vectors_of_pieces_are_no_word_vectors(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(WORDS, TokenizerConfig(kind="bpe", vocab_size=60))
    config = catalogue.preset("word2vec-small", vocab_size=tokenizer.vocab_size, dim=5)
    write_folder(Folder(config, catalogue.build(config), tokenizer), tmp_path / "model")
    with pytest.raises(UsageError, match="whole words"):
        evaluate(qkv.load(tmp_path / "model", device="cpu"), ["x.txt"])


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory, tiny_bert: dict[str, Any], wordpiece: Any) -> Path:
    """A BERT whose three scores fall on both sides of 0."""
    torch.manual_seed(4)
    config = catalogue.preset("bert-tiny", heads=["pool", "classify"], num_labels=3, **tiny_bert)
    model = catalogue.build(config)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.5)
    folder = tmp_path_factory.mktemp("several") / "bert"
    write_folder(Folder(config, model.eval(), TextTokenizer(wordpiece()), LABELS), folder)
    return folder


@pytest.fixture(scope="module")
def several(classifier: Path) -> Path:
    """The same BERT, trained, as its folder says, to give any number of labels."""
    write_folder(replace(read_folder(classifier), multi_label=True), classifier.parent / "several")
    return classifier.parent / "several"


def write_sets(file: Path, count: int = 60) -> tuple[list[str], np.ndarray[Any, Any]]:
    draw = np.random.default_rng(2)
    texts = [" ".join(draw.choice(["cat", "dog", "mat", "run", "sat", "the"], 4)) for _ in range(count)]
    true = draw.integers(0, 2, (count, 3))
    sets = [",".join(name for name, yes in zip(LABELS, row, strict=True) if yes) for row in true]
    file.write_text("text\tlabel\n" + "".join(f"{text}\t{labels}\n" for text, labels in zip(texts, sets, strict=True)))
    return texts, true


def test_several_labels_agree_with_transformers_and_sklearn(several: Path, wordpiece: Any, tmp_path: Path) -> None:
    from transformers import AutoModelForSequenceClassification

    texts, true = write_sets(tmp_path / "test.tsv")
    theirs = AutoModelForSequenceClassification.from_pretrained(several).eval()
    assert theirs.config.problem_type == "multi_label_classification"
    with torch.no_grad():
        logits = [theirs(torch.tensor([wordpiece().encode(text).ids])).logits[0] for text in texts]
    said = (torch.stack(logits).sigmoid() > 0.5).int().numpy()
    assert 0 < said.mean() < 1
    data = DataConfig(text="text", label="label", separator=",")
    done: list[int] = []
    micro, macro, exact = evaluate(qkv.load(several, device="cpu"), [str(tmp_path / "test.tsv")], data, done.append)
    assert micro.value == pytest.approx(f1_score(true, said, average="micro"))
    assert macro.value == pytest.approx(f1_score(true, said, average="macro"))
    assert exact.value == pytest.approx(accuracy_score(true, said))
    assert (micro.name, macro.name, exact.name) == ("f1", "f1", "exact-match")
    assert "average:micro|task:multi-label" in micro.signature
    assert "average:macro" in macro.signature
    assert sum(done) == micro.count == 60


def test_several_labels_from_the_command_line(several: Path, tmp_path: Path) -> None:
    write_sets(tmp_path / "test.tsv")
    asked = ["evaluate", str(several), str(tmp_path / "test.tsv"), "--set", "separator=,", "--json"]
    found = json.loads(CliRunner().invoke(app, asked, catch_exceptions=False).stdout)
    assert found.keys() == {"f1", "f1#2", "exact-match"}


@pytest.mark.parametrize("separator", ["", ","])
def test_a_label_that_the_model_does_not_have(classifier: Path, several: Path, tmp_path: Path, separator: str) -> None:
    (tmp_path / "test.tsv").write_text("text\tlabel\nthe cat\tanimal\na mat\tplaces\n")
    data = DataConfig(text="text", label="label", separator=separator)
    model, files = qkv.load(several if separator else classifier, device="cpu"), [str(tmp_path / "test.tsv")]
    with pytest.raises(QkvError, match=r"test.tsv:3: unknown label 'places'; did you mean 'place'\?"):
        evaluate(model, files, data)
    with pytest.warns(UserWarning, match=r"1 row left out \(.*test.tsv:3: unknown label 'places'"):
        assert evaluate(model, files, replace(data, skip_bad=True))[0].count == 1


@pytest.mark.parametrize(("labels", "count"), [("[]", "no label"), ('["food", "place"]', "2 labels")])
def test_several_labels_where_one_is_expected(
    classifier: Path, several: Path, tmp_path: Path, labels: str, count: str
) -> None:
    file = tmp_path / "test.jsonl"
    file.write_text(f'{{"text": "the cat", "label": {labels}}}\n{{"text": "a mat", "label": "food"}}\n')
    with pytest.raises(QkvError, match=rf"test.jsonl:1: {count} instead of one"):
        evaluate(qkv.load(classifier, device="cpu"), [str(file)], DataConfig())
    with pytest.warns(UserWarning, match=rf"1 row left out \(.*test.jsonl:1: {count} instead of one"):
        assert evaluate(qkv.load(classifier, device="cpu"), [str(file)], DataConfig(skip_bad=True))[0].count == 1
    assert evaluate(qkv.load(several, device="cpu"), [str(file)], DataConfig(separator=","))[2].count == 2


def test_a_separator_must_fit_the_model(classifier: Path, several: Path, tmp_path: Path) -> None:
    write_sets(tmp_path / "test.tsv")
    with pytest.raises(UsageError, match=r"this model predicts one label: leave out data\.separator=,"):
        evaluate(qkv.load(classifier, device="cpu"), [str(tmp_path / "test.tsv")], DataConfig(separator=","))
    with pytest.raises(UsageError, match=r"predicts several labels; name their separator: data\.separator=,"):
        evaluate(qkv.load(several, device="cpu"), [str(tmp_path / "test.tsv")], DataConfig())


def test_one_label_agrees_with_sklearn(classifier: Path, tmp_path: Path) -> None:
    texts, true = write_sets(tmp_path / "sets.tsv")
    gold = [LABELS[int(row.argmax())] for row in true]
    lines = "".join(f"{text}\t{label}\n" for text, label in zip(texts, gold, strict=True))
    (tmp_path / "test.tsv").write_text("text\tlabel\n" + lines)
    model = qkv.load(classifier, device="cpu")
    said = [LABELS[int(scores.argmax())] for scores in model.logits(model.encode(texts).ids)]
    accuracy, macro, _ = evaluate(model, [str(tmp_path / "test.tsv")], DataConfig(text="text", label="label"))
    assert accuracy.value == pytest.approx(accuracy_score(gold, said))
    assert macro.value == pytest.approx(f1_score(gold, said, average="macro"))
