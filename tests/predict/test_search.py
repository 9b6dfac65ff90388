"""Search against sorting all cosines, and an index that is made again only when it must be."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import qkv
from qkv.common.errors import QkvError, UsageError
from qkv.predict import search as module
from qkv.predict.search import Index

LINES = ["the cat sat", "", "a dog runs", "the mat", "cats, dogs!", "on a mat the cat sat.", "   ", "the cat sat"]


@pytest.fixture(scope="module")
def model(bert_folder: Path) -> qkv.Model:
    return qkv.load(bert_folder, device="cpu")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    file = tmp_path / "lines.txt"
    file.write_text("\n".join(LINES) + "\n")
    return file


@pytest.mark.parametrize(("cells", "chunk"), [(1 << 22, 4096), (2, 3), (1, 1)])
def test_the_nearest_lines_are_found(
    model: qkv.Model, corpus: Path, cells: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CELLS", cells)
    monkeypatch.setattr(module, "CHUNK", chunk)
    told: list[int] = []
    index = Index(model, corpus, progress=told.append)
    assert len(index) == 6 == sum(told)
    questions = ["the cat", "dogs run on"]
    real = [(number, line) for number, line in enumerate(LINES, 1) if line.strip()]
    lines = model.embed([line for _, line in real], normalize=True)
    for question, hits in zip(questions, index.search(questions, top=4), strict=True):
        cosines = lines @ model.embed([question], normalize=True)[0]
        order = np.argsort(-cosines.round(5), kind="stable")[:4]
        assert [(hit.line, hit.text) for hit in hits] == [real[row] for row in order]
        assert [hit.cosine for hit in hits] == pytest.approx(cosines[order].tolist(), abs=1e-5)
    assert [len(hits) for hits in index.search(questions, top=99)] == [6, 6]
    assert index.search([]) == []


def test_the_index_is_made_once_and_again_when_file_model_or_pooling_change(
    model: qkv.Model, corpus: Path, tmp_path: Path, tiny_bert: dict[str, int]
) -> None:
    said: list[str] = []

    def ask(who: qkv.Model, **options: str) -> list[int]:
        return [hit.line for hit in Index(who, corpus, say=said.append, **options).search(["the mat"])[0]]  # type: ignore[arg-type]

    assert ask(model)[0] == 4
    assert len(said) == 1
    assert (tmp_path / ".lines.txt.qkv-index").is_dir()
    os.utime(corpus, (1, 1))
    ask(model)
    ask(model, pooling="mean")  # the folder's own way
    assert len(said) == 1
    corpus.write_text("the mat\n" + corpus.read_text()[8:])  # as long as it was
    assert ask(model)[0] == 1
    assert len(said) == 2
    assert "again" in said[1]
    ask(model, pooling="first")
    other = qkv.build("bert-tiny", heads=["pool", "mlm"], device="cpu", **tiny_bert)
    other.tokenizer = model.tokenizer
    ask(other)
    assert len(said) == 4
    ask(other, folder=str(tmp_path / "elsewhere"))
    assert (tmp_path / "elsewhere" / "vector.bin").is_file()
    assert "again" not in said[4]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_index_is_made_again_when_the_maximum_length_changes(bert_folder: Path, corpus: Path) -> None:
    model = qkv.load(bert_folder, device="cpu")
    said: list[str] = []
    Index(model, corpus, say=said.append)
    assert model.tokenizer is not None
    model.tokenizer = model.tokenizer.limited(3)
    found = Index(model, corpus, say=said.append).search(["the cat sat"], top=99)[0]
    assert len(said) == 2
    assert "maximum length" in said[1]
    lines = model.embed([line for line in LINES if line.strip()], normalize=True)
    best = sorted((lines @ model.embed(["the cat sat"], normalize=True)[0]).tolist(), reverse=True)
    assert [hit.cosine for hit in found] == pytest.approx(best, abs=1e-5)


@pytest.mark.parametrize("now", ["", "the cat sat\n", "\n".join(reversed(LINES)) + "\n"])
def test_a_corpus_that_changes_under_the_index_is_an_error(model: qkv.Model, corpus: Path, now: str) -> None:
    index = Index(model, corpus)
    old = corpus.read_text()
    corpus.write_text(now)
    with pytest.raises(QkvError, match=r"lines\.txt changed after it was read into the index"):
        index.search(["the mat"])
    corpus.write_text(old)
    os.utime(corpus, (1, 1))
    assert index.search(["the mat"])[0][0].line == 4


def test_what_cannot_be_searched_is_a_sentence(model: qkv.Model, corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere\.txt does not exist"):
        Index(model, tmp_path / "nowhere.txt")
    (tmp_path / "empty.txt").write_text("\n \n")
    with pytest.raises(UsageError, match="holds no text"):
        Index(model, tmp_path / "empty.txt")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(QkvError, match="could not be written"):
        Index(model, corpus, folder=tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"
    index = Index(model, corpus)
    with pytest.raises(UsageError, match="top must be at least 1, got 0"):
        index.search(["a"], top=0)
    table = tmp_path / ".lines.txt.qkv-index" / "vector.bin"
    table.write_bytes(table.read_bytes()[:-4])
    with pytest.raises(QkvError, match="damaged"):
        Index(model, corpus)
    shutil.rmtree(table.parent)
    assert len(Index(model, corpus)) == 6
