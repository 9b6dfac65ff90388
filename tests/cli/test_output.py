"""What reaches a terminal, and what is JSON: no control characters on the one, no NaN in the other."""

import json
import sys

import pytest
import torch

from qkv.checkpoints.folder import read_folder, write_folder
from qkv.cli.lines import json_line
from qkv.predict.tag import Entity
from tests.predict.conftest import make_translator
from tests.predict.readers import NER, make_reader

ESC = "\x1b[31m"
LABELS = (f"{ESC}good", "bad\u202e")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("output")
    make_reader("pool", "classify", labels=LABELS).save(place / "one")
    make_reader("tag", labels=NER, max_length=20).save(place / "ner")
    make_reader("pool", "regress").save(place / "number")
    make_reader("span", max_length=30).save(place / "reader")
    make_reader("mlm").save(place / "filler")
    make_translator("transformer-tiny").save(place / "translator")
    return place


@pytest.fixture
def on_terminal(monkeypatch):
    monkeypatch.setattr("qkv.cli.texts.on_terminal", lambda: True)


def test_answers_on_a_terminal_have_no_control_characters(shell, folders, on_terminal):
    found = shell("classify", folders / "one", "the cat", "--all")
    assert r"\x1b[31mgood" in found.out
    assert r"bad\u202e" in found.out
    assert "\x1b" not in found.out
    assert found.out.count("\t") == 3
    assert "\x1b" not in shell("info", folders / "one").out
    words = shell("tag", folders / "ner", f"the {ESC}cat", "--words").out
    assert r"\x1b[31mcat" in words


def test_answers_to_a_file_or_a_pipe_are_as_they_are(shell, folders, tmp_path):
    assert ESC in shell("classify", folders / "one", "the cat", "--all").out
    shell("classify", folders / "one", "the cat", "--all", "--out", tmp_path / "out.txt")
    assert ESC in (tmp_path / "out.txt").read_text()


def test_json_on_a_terminal_keeps_its_value(shell, folders, on_terminal):
    row = json.loads(shell("classify", folders / "one", f"the {ESC}cat\x9b", "--json", "--all").out)
    assert row["text"] == f"the {ESC}cat\x9b"
    assert {one["label"] for one in row["labels"]} == set(LABELS)
    assert "\u202e" not in shell("classify", folders / "one", "the cat", "--json", "--all").out


@pytest.mark.parametrize("name", [f"no{ESC}where", "two\nlines", "over\u202eride", "half\udce9"])
def test_messages_are_one_line_without_control_characters(shell, folders, name):
    for found in (shell("classify", name, "x"), shell("classify", folders / "one", "--file", name)):
        assert (found.code, found.out) == (2, "")
        assert found.err.count("\n") == 1
        assert not set("\x1b\u202e\udce9") & set(found.err)


def test_warnings_have_no_control_characters(shell, folders, monkeypatch):
    import warnings

    def classify(*_args, **_options):
        warnings.warn(f"mind the {ESC}gap", stacklevel=1)
        return [0.5]

    monkeypatch.setattr("qkv.predict.Model.classify", classify)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert r"mind the \x1b[31mgap" in shell("classify", folders / "one", "x").err


def damaged(folder, place):
    """Put NaN into the weights."""
    found = read_folder(folder)
    for parameter in found.model.parameters():
        torch.nn.init.constant_(parameter, float("nan"))
    write_folder(found, place)
    return place


@pytest.mark.parametrize(
    ("verb", "name", "more"),
    [
        ("classify", "one", ["the cat"]),
        ("classify", "number", ["the cat"]),
        ("tag", "ner", ["the cat"]),
        ("answer", "reader", ["who?", "--context-text", "the cat sat"]),
        ("fill", "filler", ["the [MASK]"]),
        ("embed", "one", ["the cat"]),
        ("similar", "one", ["the cat", "a dog"]),
        ("translate", "translator", ["The cat."]),
    ],
)
def test_a_model_that_gives_nan_is_an_error(shell, folders, tmp_path, verb, name, more):
    found = shell(verb, damaged(folders / name, tmp_path / "nan"), *more, "--json", "--device", "cpu")
    assert (found.code, found.out) == (1, "")
    assert "not numbers" in found.err
    assert found.err.count("\n") == 1


def test_json_has_no_nan_and_no_infinity():
    found = json.loads(json_line({"a": float("nan"), "b": [1.5, {"c": -float("inf")}], "d": (2, "x")}))
    assert found == {"a": None, "b": [1.5, {"c": None}], "d": [2, "x"]}


def test_answer_types_are_what_json_prints():
    entity = Entity("PER", "Ada", 0, 3, 0.5)
    assert entity.to_dict() == {"label": "PER", "text": "Ada", "start": 0, "end": 3, "score": 0.5}
    model = make_reader("span", max_length=30)
    (found,) = model.answer(["who?"], "the cat sat", nbest=2)
    row = found.to_dict(others=True)
    assert row.keys() == {"answer", "start", "end", "score", "others"}
    assert row["others"] == [found.others[0].to_dict()]
    assert "others" not in found.to_dict()


@pytest.mark.skipif(sys.platform == "win32", reason="names of files differ there")
def test_progress_notes_have_no_control_characters(capsys):
    from qkv.cli.texts import print_note

    print_note(f"reading {ESC}x\nnext")
    assert capsys.readouterr().err == "reading \\x1b[31mx\nnext\n"
