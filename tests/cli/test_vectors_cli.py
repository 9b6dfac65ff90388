"""The commands about vectors as a shell sees them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import qkv as package

Call = Callable[..., Any]
GLOVE = "man 1 0 0\nwoman 1 1 0\nking 1 0 2\nqueen 1 1 2\napple -3 0.5 0.1\n"


@pytest.fixture
def qkv(shell: Call) -> Call:
    return shell


@pytest.fixture
def glove(tmp_path: Path) -> Path:
    file = tmp_path / "glove.txt"
    file.write_text(GLOVE)
    return file


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    file = tmp_path / "lines.txt"
    file.write_text("the cat sat\n\nthe cat sat\na dog runs\ncats, dogs!\n")
    return file


def test_words_near_a_word_and_a_sum(qkv: Call, glove: Path) -> None:
    found = qkv("similar", glove, "king", "--top", 2)
    assert (found.code, found.err) == (0, "")
    assert [line.split("\t")[1] for line in found.out.splitlines()] == ["queen", "man"]
    split, quoted = qkv("similar", glove, "king", "-", "man", "+", "woman"), qkv("similar", glove, "king - man + woman")
    assert split.out == quoted.out
    assert split.out.splitlines()[0].split("\t")[1] == "queen"
    assert float(qkv("similar", glove, "king", "man").out) == pytest.approx(5**-0.5, abs=1e-4)
    found = json.loads(qkv("similar", glove, "king - man + woman", "--json", "--top", 1).out)
    assert found["words"] == "king - man + woman"
    assert found["nearest"] == [{"word": "queen", "cosine": pytest.approx(0.98, abs=0.05)}]


def test_words_from_standard_input(qkv: Call, glove: Path) -> None:
    found = qkv("similar", glove, "-", "--top", 1, stdin="king\tman\nking\n")
    assert found.out.splitlines() == ["0.4472", "king", "0.9129\tqueen", ""]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("kng",), "'kng' is not among the 5 words of this model; did you mean 'king'?"),
        (("king", "man", "woman"), "is not a sum of words"),
        (("king", "-"), "ends with a sign"),
        ((), "nothing to read"),
    ],
)
def test_wrong_words_are_one_sentence(qkv: Call, glove: Path, asked: tuple[str, ...], said: str) -> None:
    found = qkv("similar", glove, *asked)
    assert (found.code, found.out, found.err.count("\n")) == (2, "", 1)
    assert said in found.err


def test_pairs_of_sentences_from_a_file_and_from_standard_input(qkv: Call, bert_folder: Path, tmp_path: Path) -> None:
    model = package.load(bert_folder, device="cpu")
    pairs = [("the cat", "a dog"), ("the mat", "the mat")]
    text = "".join(f"{a}\t{b}\n" for a, b in pairs)
    (tmp_path / "pairs.tsv").write_text(text)
    wanted = [model.similar(a, b) for a, b in pairs]
    for found in (
        qkv("similar", bert_folder, "--file", tmp_path / "pairs.tsv"),
        qkv("similar", bert_folder, "-", stdin=text),
    ):
        assert [float(line) for line in found.out.splitlines()] == pytest.approx(wanted, abs=1e-4)
    rows = [json.loads(line) for line in qkv("similar", bert_folder, "-", "--json", stdin=text).out.splitlines()]
    assert [(row["a"], row["b"]) for row in rows] == pairs
    wrong = qkv("similar", bert_folder, "-", stdin="the cat\ta dog\nthe cat\n")
    assert (wrong.code, wrong.out) == (2, "")
    assert "standard input:2 holds 1 texts" in wrong.err


def test_groups(qkv: Call, bert_folder: Path, lines: Path) -> None:
    found = qkv("cluster", bert_folder, lines, "--groups", 3, "--members")
    assert (found.code, found.err) == (0, "")
    assert found.out.splitlines()[:3] == ["1\t2\tthe cat sat", "\t1.0000\tthe cat sat", "\t1.0000\tthe cat sat"]
    assert found.out == qkv("cluster", bert_folder, "-", "--groups", 3, "--members", stdin=lines.read_text()).out
    rows = [json.loads(line) for line in qkv("cluster", bert_folder, lines, "--distance", 0, "--json").out.splitlines()]
    assert [(row["group"], row["size"], row["central"]) for row in rows] == [
        (1, 2, "the cat sat"),
        (2, 1, "a dog runs"),
        (3, 1, "cats, dogs!"),
    ]
    assert [member["line"] for member in rows[0]["members"]] == [1, 3]
    for wrong in ((), ("--groups", 2, "--distance", 0.1), ("--groups", 5), ("--groups", 0)):
        result = qkv("cluster", bert_folder, lines, *wrong)
        assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)


def test_search(qkv: Call, bert_folder: Path, lines: Path) -> None:
    first = qkv("search", bert_folder, lines, "the cat sat", "--top", 2)
    assert first.out.splitlines() == ["1.0000\t1\tthe cat sat", "1.0000\t3\tthe cat sat"]
    assert first.err.count("\n") == 1
    assert "reading" in first.err
    again = qkv("search", bert_folder, lines, "the cat sat", "--json", "--top", 1)
    assert again.err == ""
    assert json.loads(again.out) == {
        "query": "the cat sat",
        "hits": [{"line": 1, "text": "the cat sat", "cosine": pytest.approx(1, abs=1e-5)}],
    }
    several = qkv("search", bert_folder, lines, "-", "--top", 1, stdin="the cat sat\na dog runs\n")
    assert several.out == "the cat sat\n1.0000\t1\tthe cat sat\n\na dog runs\n1.0000\t4\ta dog runs\n\n"


def test_vectors_are_written_and_read(qkv: Call, glove: Path, bert_folder: Path, tmp_path: Path) -> None:
    assert qkv("vectors", glove, "--out", tmp_path / "v.bin").out.endswith("v.bin: 5 words, 3 numbers each\n")
    qkv("vectors", tmp_path / "v.bin", "--out", tmp_path / "again.txt.gz", "--no-header")
    qkv("vectors", tmp_path / "again.txt.gz", "--out", tmp_path / "again.txt")
    assert (tmp_path / "again.txt").read_text().startswith("5 3\nman 1.0 0.0 0.0\n")
    assert qkv("similar", tmp_path / "again.txt", "king").out == qkv("similar", glove, "king").out
    wrong = qkv("vectors", bert_folder, "--out", tmp_path / "x.txt")
    assert (wrong.code, wrong.out) == (2, "")
    assert "bert has no vectors of whole words" in wrong.err
    assert not (tmp_path / "x.txt").exists()


def test_embed_reads_a_file_and_word_vectors(qkv: Call, glove: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("king\nqueen\n")
    rows = [
        [float(x) for x in row.split()] for row in qkv("embed", glove, "--file", tmp_path / "in.txt").out.splitlines()
    ]
    assert rows[0][2] / rows[0][0] == pytest.approx(2)
    assert len(rows) == 2
