"""Small and strange files: `--debug` runs on them, hints are said, and commands read them as training did."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import qkv
from qkv.common.errors import QkvError, UsageError
from qkv.data.split import FEW, held_out, splitting
from qkv.recipes.schema import read_recipe
from qkv.runs.run import run_recipe
from qkv.runs.trained_on import fitting, trained_columns

DATA: dict[str, tuple[str, str, str]] = {
    "two rows": ("classify", "a.csv", "text,label\ngood,pos\nbad,neg\n"),
    "a class with one row": ("classify", "a.csv", "text,label\n" + "".join(f"cat {i},a\n" for i in range(9)) + "x,b\n"),
    "the same text again": ("classify", "a.csv", "text,label\n" + "same,a\n" * 4 + "other,b\n" * 4),
    "long texts": (
        "classify",
        "a.csv",
        "text,label\n" + "".join(f"{'cat ' * 999}{i},{i % 2}\n" for i in range(4)),
    ),
    "fasttext": ("classify", "a.txt", "__label__a the cat\n__label__b the dog\n"),
    "lists": ("classify", "a.json", json.dumps([{"text": f"cat {i}", "label": ["x", "y"][: i % 3]} for i in range(6)])),
    "one number": ("regress", "a.csv", "text;score\nthe cat;3,5\n"),
    "equal numbers": ("regress", "a.csv", "text;score\n" + "".join(f"cat {i};2,0\n" for i in range(4))),
    "one sentence": ("tag", "a.conll", "Ada B-PER\nran O\n"),
    "no entity": ("tag", "a.conll", "the O\ncat O\n\na O\n"),
    "conllu": ("tag", "a.conllu", "1\tcat\tcat\tNOUN" + "\t_" * 6 + "\n2\tran\trun\tVERB" + "\t_" * 6 + "\n"),
    "one pair": ("sentence-embeddings", "a.tsv", "the cat\ta cat\n"),
    "one question": (
        "answer",
        "a.json",
        json.dumps([{"question": "who?", "context": "the cat", "answers": [{"text": "cat", "answer_start": 4}]}]),
    ),
}


def run(bert_folder: Path, task: str, file: Path, *more: str) -> list[str]:
    said: list[str] = []
    changes = [f"data.train={file}", f"model.init={bert_folder}", f"out={file.parent / 'run'}", *more]
    outcome = run_recipe(read_recipe(task, changes, debug=True), device="cpu", say=said.append)
    assert outcome.finished
    assert outcome.best is not None
    return said


@pytest.mark.parametrize("name", DATA)
def test_debug_runs_on_any_data(bert_folder: Path, tmp_path: Path, name: str) -> None:
    task, file, text = DATA[name]
    (tmp_path / file).write_text(text)
    said = run(bert_folder, task, tmp_path / file)
    alone = name in ("two rows", "the same text again", "fasttext", "one number", "one sentence", "conllu", "one pair")
    few = "there are too few examples to hold one out: the training examples are used for validation too"
    assert (few in said) == (alone or name == "one question")
    assert qkv.load(tmp_path / "run", device="cpu").verbs


def test_nothing_is_held_out_if_you_say_so(bert_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label\ngood,pos\nbad,neg\n")
    with pytest.raises(UsageError, match=r"were held out for validation: raise data\.held_out \(now 0\)"):
        run(bert_folder, "classify", tmp_path / "a.csv", "data.held_out=0")


@pytest.mark.parametrize("count", [1, 2, 3, 10, 200, FEW - 1, FEW + 5])
def test_few_keys_are_split_so_that_neither_side_is_empty(count: int) -> None:
    keys = [f"key {number}" for number in range(count)]
    for share in (0.0001, 0.05, 0.9999):
        held = splitting(iter(keys), share, 0)
        number = sum(map(held, keys))
        assert (0 < number < count) if 1 < count < FEW else number == 0 or count > 1
        if count >= FEW:
            assert [held(key) for key in keys] == [held_out(key, share, 0) for key in keys]
    assert not any(map(splitting(iter(keys), 0.0, 0), keys))


@pytest.mark.parametrize(
    ("labels", "hint"),
    [
        ([f"{number / 4}" for number in range(20)], "are numbers (0.0, 0.25, 0.5, ...): to predict a number, use the"),
        (["a, b", "a", "b", "a,b"] * 4, "look like lists: if an example can have several labels, set data.separator=,"),
    ],
)
def test_hints_at_another_recipe_or_key(bert_folder: Path, tmp_path: Path, labels: list[str], hint: str) -> None:
    (tmp_path / "a.csv").write_text("text,label\n" + "".join(f'cat {i},"{label}"\n' for i, label in enumerate(labels)))
    assert any(hint in line for line in run(bert_folder, "classify", tmp_path / "a.csv"))


def test_lists_do_not_go_with_match_rates(bert_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(DATA["lists"][2])
    with pytest.raises(UsageError, match=r"train\.match_rates is for one label per example, but"):
        run(bert_folder, "classify", tmp_path / "a.json", "train.match_rates=true")


def test_the_columns_of_training_are_kept_for_later(bert_folder: Path, tmp_path: Path) -> None:
    rows = "".join(f"some words about cat {i};{'ab'[i % 2]};{i}\n" for i in range(12))
    (tmp_path / "a.csv").write_text("Bewertung;Urteil;Nr\n" + rows)
    said = run(bert_folder, "classify", tmp_path / "a.csv")
    line = f"{tmp_path}/a.csv: text 'Bewertung', label 'Urteil', guessed from the values"
    assert any(one.startswith(line) for one in said)
    known = trained_columns(str(tmp_path / "run" / "best"))
    assert (known["text"], known["label"]) == ("Bewertung", "Urteil")
    (tmp_path / "run" / "reading.json").unlink()  # as in a run of an earlier version
    assert trained_columns(str(tmp_path / "run"))["text"] == ""
    told: list[str] = []
    assert fitting(known, [str(tmp_path / "a.csv")], told.append) == known
    (tmp_path / "b.csv").write_text("text,label\ncat,a\n")
    assert "text" not in fitting(known, [str(tmp_path / "b.csv")], told.append)
    assert told == [f"{tmp_path}/b.csv has no column 'Bewertung' as in training: its columns are detected"]


def test_one_class_is_an_error_that_asks_about_the_column(bert_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label\ncat,a\ndog,a\n")
    with pytest.raises(QkvError, match=r"at least two classes are needed, found a; is data\.label the right column\?"):
        run(bert_folder, "classify", tmp_path / "a.csv")
