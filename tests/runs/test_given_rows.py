"""Rows from Python for `qkv.finetune` and `evaluate`: lists, dicts of columns, data frames and data sets."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qkv
from qkv.common.errors import QkvError, UsageError
from qkv.data.python_rows import is_files, records
from tests.runs.test_finetune import label, texts, tune

ONCE: dict[str, Any] = {"train.steps": 1}
PAIRS = [(text, label(text)) for text in texts(40, 1)]
DICTS = [{"words": text, "kind": kind} for text, kind in PAIRS]


class Frame:
    """As much of pandas' DataFrame as is used: two columns and a missing value as NaN."""

    columns = ("words", "kind")

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows

    def astype(self, kind: type) -> Frame:
        assert kind is object
        return self

    def notna(self) -> list[list[bool]]:
        return [[value == value for value in row.values()] for row in self.rows]

    def where(self, there: list[list[bool]], other: None) -> Frame:
        kept = [
            {key: value if known else other for (key, value), known in zip(row.items(), line, strict=True)}
            for row, line in zip(self.rows, there, strict=True)
        ]
        return Frame(kept)

    def to_dict(self, orient: str) -> list[dict[str, Any]]:
        assert orient == "records"
        return self.rows


class Classes:
    names = ("none", "cats")

    def int2str(self, number: int) -> str:
        return self.names[number]


class DataSet(list[Any]):
    """As much of `datasets.Dataset` as is used."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        super().__init__(rows)
        self.features = {"words": None, "kind": Classes()}


KINDS = {
    "tuples": PAIRS,
    "dicts": DICTS,
    "columns": {"words": [text for text, _ in PAIRS], "kind": np.array([kind for _, kind in PAIRS])},
    "frame": Frame(DICTS),
    "data set": DataSet([{"words": text, "kind": int(kind == "cats")} for text, kind in PAIRS]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_rows_trains_and_scores(bert_folder: Path, tmp_path: Path, kind: str) -> None:
    model, _ = tune(bert_folder, train=KINDS[kind], **ONCE)
    assert model.labels == ("cats", "none")
    assert model.evaluate(KINDS[kind])[0].count == len(PAIRS)
    assert model.evaluate(KINDS[kind], KINDS[kind])[0].count == 2 * len(PAIRS)


def test_rows_give_the_same_model_as_their_file(bert_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("words,kind\n" + "".join(f'"{text}",{kind}\n' for text, kind in PAIRS))
    ours, _ = tune(bert_folder, train=DICTS, **ONCE)
    theirs, _ = tune(bert_folder, train=tmp_path / "a.csv", **ONCE)
    assert ours.classify(texts(5, 2)) == theirs.classify(texts(5, 2))


def test_rows_are_kept_in_the_run_and_it_resumes(bert_folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    tune(bert_folder, train=DICTS, out=run, **ONCE)
    assert len((run / "rows" / "train.jsonl").read_text().splitlines()) == len(DICTS)
    _, said = tune(bert_folder, train=DICTS, out=run, resume=True, **ONCE)
    assert said[-1] == f"{run} is finished: there is nothing to resume"
    with pytest.raises(UsageError, match=r"train differs from .*, the rows that the run started with"):
        tune(bert_folder, train=DICTS[1:], out=run, resume=True, **ONCE)
    assert len((run / "rows" / "train.jsonl").read_text().splitlines()) == len(DICTS)


def test_other_tasks_take_rows_too(bert_folder: Path) -> None:
    numbers = [(text, float(i % 7)) for i, text in enumerate(texts(30, 3))]
    rated, _ = tune(bert_folder, task="regress", train=numbers, **ONCE)
    assert rated.evaluate(numbers)[0].count == 30
    tags = [(text.split(), ["A" if word == "cat" else "B" for word in text.split()]) for text in texts(30, 4)]
    tagger, said = tune(bert_folder, task="tag", train=tags, **ONCE)
    assert tagger.labels == ("A", "B")
    assert any("words 'tokens', tags 'tags'" in line for line in said)
    pairs = [(text.split()[0], text.split()[1], "ab"[i % 2]) for i, text in enumerate(texts(30, 5))]
    assert tune(bert_folder, task="pairs", train=pairs, **ONCE)[0].evaluate(pairs)[0].count == 30
    several = [{"text": text, "label": ["a", "b"][: i % 3]} for i, text in enumerate(texts(30, 6))]
    model, said = tune(bert_folder, train=several, **ONCE)
    assert any("labels are lists, so an example can have several (data.separator=,)" in line for line in said)
    assert model.evaluate(several)[0].count


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([("a", "b"), "text"], r"train row 2 must be a dict, or a tuple such as \(text, label\), got 'text'"),
        ([("a", "b", "c", "d")], "train row 1 must be a dict, or a tuple"),
        ([], "data.train is empty"),
        ({"text": []}, "train has no rows"),
        ({"text": ["a"], "label": [1, 2]}, "train is a dict of columns, which must be lists of the same length"),
        ({"train": KINDS["data set"]}, r"train has several splits: choose one, such as data\['train'\]"),
        ([{"text": "a", "label": object()}], "train row 1 cannot be used: <object .* is neither text nor a number"),
        (7, "train takes files, rows, a data frame or a data set, got 7"),
        (
            [*DICTS, {"words": " ", "kind": "cats"}],
            "^train row 41: the text is empty; correct it, or set data.",
        ),
        (Frame([*DICTS, {"words": "a", "kind": math.nan}]), "^train row 41: the label is empty"),
    ],
)
def test_wrong_rows_are_one_sentence_and_leave_nothing(
    bert_folder: Path, tmp_path: Path, given: Any, said: str
) -> None:
    with pytest.raises(QkvError, match=said):
        tune(bert_folder, train=given, out=tmp_path / "run", **ONCE)
    assert not (tmp_path / "run").exists()


def test_paths_are_told_from_rows() -> None:
    assert is_files("a.csv")
    assert is_files([Path("a.csv"), "b.csv"])
    assert not is_files([("a", "b")])
    assert list(records([("a", 1)], "train")) == [{"text": "a", "label": 1}]


def test_pandas_itself(bert_folder: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([*DICTS, {"words": "x", "kind": None}])
    found = list(records(frame, "train"))
    assert found[0] == DICTS[0]
    assert found[-1]["kind"] is None
    assert tune(bert_folder, train=frame[:-1], **ONCE)[0].evaluate(frame[:-1])[0].count == len(DICTS)


def test_datasets_itself() -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(words=datasets.Value("string"), kind=datasets.ClassLabel(names=["none", "cats"]))
    data = datasets.Dataset.from_list([{"words": "a", "kind": 1}], features=features)
    assert list(records(data, "train")) == [{"words": "a", "kind": "cats"}]


def test_the_keys_of_evaluate_have_one_spelling(bert_folder: Path) -> None:
    model, _ = tune(bert_folder, train=DICTS, **ONCE)
    other = [{"body": row["words"], "stars": row["kind"]} for row in DICTS]
    short = model.evaluate(other, text="body", label="stars")
    assert model.evaluate(other, **{"data.text": "body", "data.label": "stars"}) == short
    with pytest.raises(UsageError, match=r"unknown key of DataConfig 'data\.labl'; did you mean 'data\.label'"):
        model.evaluate(other, labl="stars")
    assert qkv.finetune.__doc__
