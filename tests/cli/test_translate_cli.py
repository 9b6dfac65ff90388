"""`qkv translate` as a shell sees it: where texts come from, where translations go, and what is refused."""

import gzip
import json
import os
import warnings

import pytest

from qkv.predict import loading
from tests.predict.conftest import make_translator

LINES = ["The small cat sleeps.", "", "Two dogs play.", "  ", "I see a red house.", " We eat. "]
FEW = ("--max-length", "6", "--beam", "2", "--device", "cpu")


@pytest.fixture(scope="module")
def model():
    return make_translator("transformer-tiny")


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    place = tmp_path_factory.mktemp("translator") / "en-fr"
    model.save(place)
    return place


@pytest.fixture(scope="module")
def wanted(model):
    return model.translate(LINES, max_length=6, beam=2)


@pytest.fixture
def qkv(monkeypatch, shell, tmp_path):
    """Translate in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments, **given: shell("translate", *arguments, **given)


def text_of(lines):
    return "".join(f"{line}\n" for line in lines)


def test_texts_on_the_command_line(qkv, folder, wanted):
    result = qkv(folder, *LINES, *FEW)
    assert (result.code, result.err, result.out) == (0, "", text_of(wanted))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_standard_input_keeps_order_and_number_of_lines(qkv, folder, wanted, end):
    data = end.join(LINES).encode()
    for more in (b"", end.encode(), b"\xef\xbb\xbf"):
        given = more + data if more.startswith(b"\xef") else data + more
        result = qkv(folder, "-", *FEW, stdin=given)
        assert (result.code, result.err, result.out) == (0, "", text_of(wanted))


@pytest.mark.parametrize("name", ["in.txt", "in.txt.gz"])
@pytest.mark.parametrize("option", ["--file", "--in"])
def test_a_file_to_a_file(qkv, folder, wanted, tmp_path, name, option):
    data = text_of(LINES).encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    (tmp_path / "out.txt").write_text("old")
    result = qkv(folder, option, name, "--out", "out.txt", *FEW)
    assert (result.code, result.err, result.out) == (0, "", "")
    assert (tmp_path / "out.txt").read_text("utf-8") == text_of(wanted)
    assert sorted(os.listdir(tmp_path)) == sorted([name, "out.txt"])


def test_more_lines_than_are_held_at_a_time(qkv, folder, model, monkeypatch):
    monkeypatch.setattr("qkv.cli.texts.CHUNK", 4)
    lines = [f"{line} {i}" for i, line in enumerate(LINES * 3)]
    result = qkv(folder, "-", "--beam", "1", "--max-length", "4", stdin=text_of(lines).encode())
    assert result.out == text_of(model.translate(lines, beam=1, max_length=4))


def test_json_scores_and_alignments(qkv, folder, model):
    (found,) = model.translate(LINES[:1], nbest=2, beam=2, alignments=True, max_length=6)
    plain = json.loads(qkv(folder, LINES[0], "--json", *FEW).out)
    assert plain == {"text": LINES[0], "translation": found.text}
    row = json.loads(qkv(folder, LINES[0], "--json", "--scores", "--alignments", "--nbest", "2", *FEW).out)
    assert row["translation"] == found.text
    assert row["score"] == pytest.approx(found.score, abs=1e-4)
    assert row["tokens"] == found.tokens
    assert row["alignment"] == [list(pair) for pair in found.alignment]
    assert [other["translation"] for other in row["others"]] == [other.text for other in found.others]


def test_scores_behind_tabs_and_n_best_lists_as_moses_writes_them(qkv, folder, model):
    (found,) = model.translate(LINES[:1], nbest=2, beam=2, alignments=True, max_length=6)
    line = f"{found.text}\t{found.score:.4f}\t{found.pharaoh}\n"
    assert qkv(folder, LINES[0], "--scores", "--alignments", *FEW).out == line
    rows = [row.split(" ||| ") for row in qkv(folder, *LINES[:2], "--nbest", "2", *FEW).out.splitlines()]
    assert [row[0] for row in rows] == ["0", "0", "1"]
    assert [row[1] for row in rows] == [found.text, found.others[0].text, ""]
    assert float(rows[0][2]) == pytest.approx(found.score, abs=1e-3)


def test_a_prefix_and_forbidden_words(qkv, folder, model):
    result = qkv(folder, LINES[0], "--prefix", "Le petit", "--forbid", "chat", "--forbid", "chien", *FEW)
    assert result.out.startswith("Le petit")
    options = {"prefix": "Le petit", "forbidden": ["chat", "chien"], "max_length": 6, "beam": 2}
    assert result.out == text_of(model.translate(LINES[:1], **options))


def test_a_line_break_that_the_model_says_does_not_make_a_line(qkv, folder, monkeypatch):
    from qkv.predict import Translation

    monkeypatch.setattr("qkv.predict.model.translate", lambda *_, **__: [Translation("a\nb\r\nc")])
    assert qkv(folder, "x").out == "a b c\n"
    assert qkv(folder, "x\ny").out == "a\nb\r\nc\n"


def test_bytes_that_are_no_text_come_through(qkv, folder):
    result = qkv(folder, "caf\udce9", "--json", *FEW)  # how Python gives an argument that is not UTF-8
    assert result.code == 0
    assert json.loads(result.out)["text"] == "caf?"


def test_a_built_in_translator_by_its_name(qkv, folder, wanted, monkeypatch):
    monkeypatch.setattr(loading, "PRETRAINED", folder.parent)
    assert qkv("en-fr", *LINES, *FEW).out == text_of(wanted)
    result = qkv("en-xx", "x")
    assert (result.code, result.out) == (2, "")
    assert result.err == "qkv: en-xx is not a folder (built-in models: en-fr)\n"


def test_no_built_in_translator_is_said(qkv, monkeypatch, tmp_path):
    monkeypatch.setattr(loading, "PRETRAINED", tmp_path / "none")
    assert qkv("en-de", "x").err == "qkv: en-de is not a folder (no model is built in here)\n"


BAD = b"one\ntw\xc3\xa9\nth\xff\n"  # UTF-8, and then not


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "said"),
    [
        (["--file", "missing.txt"], b"", 2, "missing.txt does not exist"),
        (["--file", "empty.txt"], b"", 2, "empty.txt is empty: give at least one line"),
        (["--file", "."], b"", 2, ". is a folder, not a file"),
        (["--file", "bad.txt"], b"", 1, "bad.txt:3: byte 0xff at offset 11 is not UTF-8"),
        (["--file", "bad.gz"], b"", 1, "bad.gz cannot be decompressed"),
        (["-"], b"", 2, "standard input is empty"),
        (["-"], BAD, 1, "standard input:3: byte 0xff at offset 11 is not UTF-8"),
        ([], b"", 2, "nothing to read: give texts, --file FILE, or - for standard input"),
        (["x", "--file", "bad.txt"], b"", 2, "give either texts on the command line or --file"),
        (["x", "--beam", "0"], b"", 2, "beam must be at least 1, got 0"),
        (["x", "--beam", "5000"], b"", 2, "a beam of 5000 is larger than the vocabulary"),
        (["x", "--nbest", "5"], b"", 2, "nbest 5 is more than the beam of 4"),
        (["x", "--prefix", "кот"], b"", 2, "the prefix 'кот' has no tokens in the vocabulary"),
        (["x", "--forbid", "кот"], b"", 2, "the forbidden word 'кот' has no tokens in the vocabulary"),
        (["x", "--max-length", "-1"], b"", 2, "max_length must be at least 0, got -1"),
        (["x", "--out", "no/where.txt"], b"", 2, "no/where.txt cannot be written"),
        (["x", "--out", "."], b"", 2, ". is a folder: give a regular file"),
    ],
)
def test_errors_are_one_sentence_and_leave_nothing_behind(qkv, folder, tmp_path, arguments, stdin, code, said):
    (tmp_path / "empty.txt").write_bytes(b"")
    (tmp_path / "bad.txt").write_bytes(BAD)
    (tmp_path / "bad.gz").write_bytes(b"not gzip")
    (tmp_path / "old.txt").write_text("old")
    more = [] if "--out" in arguments else ["--out", "old.txt"]
    before = sorted(os.listdir(tmp_path))
    result = qkv(folder, *arguments, *more, stdin=stdin)
    assert (result.code, result.out) == (code, "")
    assert result.err.startswith("qkv: ")
    assert result.err.count("\n") == 1
    assert said in result.err
    assert sorted(os.listdir(tmp_path)) == before
    assert (tmp_path / "old.txt").read_text() == "old"


def test_a_wrong_byte_after_the_first_chunk_leaves_the_old_file(qkv, folder, tmp_path, monkeypatch):
    monkeypatch.setattr("qkv.cli.texts.CHUNK", 1)
    (tmp_path / "old.txt").write_text("old")
    result = qkv(folder, "-", "--out", "old.txt", *FEW, stdin=BAD)
    said = "byte 0xff at offset 11 is not UTF-8; set data.encoding to the encoding of the file"
    assert (result.code, result.err) == (1, f"qkv: standard input:3: {said}\n")
    assert (os.listdir(tmp_path), (tmp_path / "old.txt").read_text()) == (["old.txt"], "old")
    streamed = qkv(folder, "-", *FEW, stdin=BAD)
    assert (streamed.code, streamed.out.count("\n")) == (1, 2)  # what was right before it was printed


def test_a_full_disk_is_said_and_leaves_the_old_file(qkv, folder, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    (tmp_path / "old.txt").write_text("old")
    monkeypatch.setattr("qkv.common.disk.os.fsync", full)
    result = qkv(folder, "x", "--out", "old.txt", *FEW)
    assert result.code == 1
    assert result.err == "qkv: old.txt could not be written: No space left on device; existing contents are unchanged\n"
    assert (os.listdir(tmp_path), (tmp_path / "old.txt").read_text()) == (["old.txt"], "old")


def test_other_models_are_refused(qkv, bert_folder):
    result = qkv(bert_folder, "x")
    assert (result.code, result.out) == (2, "")
    assert result.err == "qkv: this bert is not a translator: an encoder-decoder with a tokenizer is needed\n"


def test_a_long_sentence_is_said_on_standard_error(qkv, folder):
    warnings.simplefilter("default", UserWarning)
    result = qkv(folder, " ".join(["dog"] * 300), "--beam", "1", "--max-length", "2")
    assert result.code == 0
    assert result.err == "qkv: 1 sentence is longer than 256 tokens: translated in parts\n"
