"""`qkv.finetune`: from a table to a model that answers, with nothing to set up; and what is said on the way."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import qkv
from qkv.common.errors import QkvError, UsageError
from tests.runs.killing import cut_off

RARE = 10_000  # steps: only at the end
FAST: dict[str, Any] = {
    "optim.lr": 5e-3,
    "train.workers": 1,
    "train.tokens": 128,
    "train.validate_every": RARE,
    "train.save_every": RARE,
}
WORDS = ["the", "cat", "sat", "on", "a", "mat", "dog", "run", ".", ",", "!"]


def texts(count: int, seed: int) -> list[str]:
    """Distinct texts of the tiny model's words."""
    draw, found = random.Random(seed), dict[str, None]()
    while len(found) < count:
        found[" ".join(draw.choices(WORDS, k=draw.randint(4, 8)))] = None
    return list(found)


def label(text: str) -> str:
    return "cats" if "cat" in text.split() else "none"


def write(path: Path, count: int, seed: int, header: str = "words,kind") -> str:
    rows = [f'"{text}",{label(text)}' for text in texts(count, seed)]
    path.write_text("\n".join([header, *rows] if header else rows) + "\n")
    return str(path)


def tune(folder: Path, **given: Any) -> tuple[Any, list[str]]:
    said: list[str] = []
    model = qkv.finetune(folder, device="cpu", say=said.append, **{**FAST, **given})
    return model, said


def test_from_a_csv_to_a_score_that_others_find_too(bert_folder: Path, tmp_path: Path) -> None:
    """Columns by content, a split, a test file; the score is the one of transformers' predictions."""
    from sklearn.metrics import accuracy_score
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    train, test = write(tmp_path / "a.csv", 200, 1), tmp_path / "b.csv"
    gold = {text: label(text) if i % 5 else "none" for i, text in enumerate(texts(60, 2))}  # some are wrong
    test.write_text("\n".join(["words,kind", *(f'"{text}",{kind}' for text, kind in gold.items())]))
    model, said = tune(bert_folder, train=train, test=test, epochs=4)
    assert said[0].startswith(f"{train}: texts in 'words', 2 classes (cats, none) in 'kind': running")
    assert said[1].startswith("200 examples of ")
    assert "no data.valid: 10% of the training examples of each class are held out for validation" in said[2]
    (accuracy, *_) = model.evaluate(test)
    assert accuracy.count == 60
    assert 0.7 < accuracy.value < 1
    assert f"accuracy    {accuracy.value:.4f}" in said[-1]  # the test file was scored and said
    assert model.labels == ("cats", "none")
    model.save(tmp_path / "kept")
    theirs = AutoModelForSequenceClassification.from_pretrained(tmp_path / "kept").eval()
    tokens = AutoTokenizer.from_pretrained(tmp_path / "kept")
    with torch.no_grad():
        found = theirs(**tokens(list(gold), padding=True, truncation=True, max_length=12, return_tensors="pt"))
    predicted = [theirs.config.id2label[int(row.argmax())] for row in found.logits]
    assert accuracy.value == pytest.approx(accuracy_score(list(gold.values()), predicted))


@pytest.mark.parametrize(("preset", "heads"), [("bert-small-rotary", ("mlm", "nsp")), ("electra-small-rotary", ())])
def test_what_was_pretrained_with_rotary_positions_is_a_roformer_elsewhere(
    preset: str, heads: tuple[str, ...], bert_folder: Path, tiny_bert: dict[str, Any], tmp_path: Path
) -> None:
    from transformers import AutoTokenizer, RoFormerForSequenceClassification

    sizes = {**tiny_bert, **({"heads": list(heads)} if heads else {"embedding_dim": 16})}
    torch.manual_seed(1)
    qkv.build(preset, device="cpu", **sizes).save(tmp_path / "first")
    shutil.copy(bert_folder / "tokenizer.json", tmp_path / "first")
    named = json.loads((tmp_path / "first" / "config.json").read_text()).get("architectures")
    assert named == (["RoFormerForMaskedLM"] if heads else None)  # a discriminator has no name there before this
    assert qkv.load(tmp_path / "first", device="cpu").config.heads == (("pool", *heads) if heads else ("replaced",))
    model, _ = tune(tmp_path / "first", train=write(tmp_path / "a.csv", 100, 1), epochs=1, out=str(tmp_path / "run"))
    theirs, report = RoFormerForSequenceClassification.from_pretrained(tmp_path / "run", output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    tokens, asked = AutoTokenizer.from_pretrained(tmp_path / "run"), texts(20, 3)
    with torch.no_grad():
        found = theirs.eval()(**tokens(asked, padding=True, return_tensors="pt")).logits
    torch.testing.assert_close(torch.stack(model.logits(model.encode(asked).ids)), found, atol=1e-5, rtol=0)


def test_a_run_without_a_place_leaves_nothing_and_one_with_a_place_stays(
    bert_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    monkeypatch.chdir(tmp_path)
    train = write(tmp_path / "a.csv", 40, 1)
    before = {path.name for path in tmp_path.iterdir()}
    model, _ = tune(bert_folder, train=Path(train), **{"train.steps": 1})
    assert {path.name for path in tmp_path.iterdir()} == before
    assert not list((tmp_path / "temporary").iterdir())
    assert model.embed(["the cat"]).shape == (1, 16)
    tune(bert_folder, train=[train], out=tmp_path / "run", **{"train.steps": 1})
    assert qkv.load(tmp_path / "run", device="cpu").labels == ("cats", "none")
    with pytest.raises(UsageError, match="already holds a run"):
        tune(bert_folder, train=train, out=tmp_path / "run", **{"train.steps": 1})
    _, said = tune(bert_folder, train=[train], out=tmp_path / "run", resume=True, **{"train.steps": 1})
    assert any(line.endswith("run is finished: there is nothing to resume") for line in said)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"task": "clasify", "train": "a.csv"}, "did you mean 'classify'"),
        ({"train": "no.csv"}, "there is no file no.csv"),
        ({"train": None}, "data.train is empty"),
        ({"task": "classify", "train": "a.csv", "optim.rate": 1.0}, "unknown key of OptimConfig 'optim.rate'"),
    ],
)
def test_wrong_usage_is_one_sentence(bert_folder: Path, given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        qkv.finetune(bert_folder, device="cpu", say=lambda _: None, **given)
    with pytest.raises(UsageError, match="nowhere is not a folder"):
        qkv.finetune("nowhere", train="a.csv")


def test_evaluate_needs_a_file(bert_folder: Path, tmp_path: Path) -> None:
    model, _ = tune(bert_folder, train=write(tmp_path / "a.csv", 40, 1), **{"train.steps": 1})
    with pytest.raises(UsageError, match="evaluate needs a file"):
        model.evaluate()


def test_guessed_columns_hold_for_every_file(bert_folder: Path, tmp_path: Path) -> None:
    """A test file of one class alone could not tell its label column by itself."""
    train = write(tmp_path / "a.csv", 40, 1, header="")
    (tmp_path / "one.csv").write_text('"the cat sat",cats\n"a cat run",cats\n')
    model, said = tune(bert_folder, train=train, valid=tmp_path / "one.csv", **{"train.steps": 1})
    assert said[0].startswith(f"{train}: texts in #0, 2 classes (cats, none) in #1: running")
    assert model.evaluate(tmp_path / "one.csv")[0].count == 2


def test_uneven_classes_are_said_with_the_share_of_the_largest(bert_folder: Path, tmp_path: Path) -> None:
    rows = [f"{text}\t{'rare' if i % 10 == 0 else 'usual'}" for i, text in enumerate(texts(50, 3))]
    (tmp_path / "a.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
    _, said = tune(bert_folder, train=tmp_path / "a.tsv", **{"train.steps": 1})
    (uneven,) = [line for line in said if line.startswith("imbalanced")]
    assert uneven.startswith("imbalanced classes: usual 45, rare 5; always predicting 'usual' is 90% accurate")
    even = [f"{text}\t{i % 2}" for i, text in enumerate(texts(50, 3))]
    (tmp_path / "b.tsv").write_text("\n".join(["text\tlabel", *even]) + "\n")
    _, said = tune(bert_folder, train=tmp_path / "b.tsv", **{"train.steps": 1})
    assert not [line for line in said if line.startswith("imbalanced")]


def test_each_class_is_held_out_and_no_text_is_on_both_sides(bert_folder: Path, tmp_path: Path) -> None:
    from qkv.data.store import Store

    rows = [f"{text}\t{'rare' if i < 4 else 'usual'}" for i, text in enumerate(texts(60, 4))]
    (tmp_path / "a.tsv").write_text("\n".join(["text\tlabel", *rows, *rows]) + "\n")
    tune(bert_folder, train=tmp_path / "a.tsv", out=tmp_path / "run", **{"train.steps": 1, "data.held_out": 0.1})
    train, valid = (Store.open(tmp_path / "run" / "data" / name) for name in ("train", "valid"))
    assert len(train) + len(valid) == 120
    sides = [{tuple(store.row(i)["ids"]) for i in range(len(store))} for store in (train, valid)]
    assert sides[0].isdisjoint(sides[1])
    labels = [sorted({int(store.row(i)["label"][0]) for i in range(len(store))}) for store in (train, valid)]
    assert labels == [[0, 1], [0, 1]]


def test_of_sets_of_labels_that_are_all_different_some_are_held_out(bert_folder: Path, tmp_path: Path) -> None:
    from qkv.data.store import Store

    rows = [f"{text}\t{'ab'[i % 2]},only{i}" for i, text in enumerate(texts(40, 4))]
    (tmp_path / "a.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
    changes = {"train.steps": 1, "data.held_out": 0.1, "data.separator": ","}
    tune(bert_folder, train=tmp_path / "a.tsv", out=tmp_path / "run", **changes)
    train, valid = (len(Store.open(tmp_path / "run" / "data" / name)) for name in ("train", "valid"))
    assert (train, valid) == (36, 4)


BAD = {  # a good file, rows that cannot be used, and why
    "classify": (
        ["text\tlabel", "the cat\ta", "a dog\tb", "a mat\ta", "the mat\tb"],
        ["the dog\tc", "\ta", "the cat", "a cat\t"],
        ["the label 'c' does not occur in training (a, b)", "the text is empty", "1 cell where the header has 2",
         "the label is empty"],
        "tsv",
    ),
    "tag": (
        [json.dumps({"tokens": ["the", word], "tags": ["O", "B-X"]}) for word in ("cat", "dog", "mat", "run")],
        [json.dumps(row) for row in (
            {"tokens": ["a"], "tags": ["B-Y"]}, {"tokens": ["a", "b"], "tags": ["O"]}, {"tokens": [" "], "tags": ["O"]},
            {"tokens": ["a"]},
        )],
        ["the tag 'B-Y' does not occur in training (O, B-X)", "2 words, but 1 tags", "a word is empty",
         "the row has no column 'tags'"],
        "jsonl",
    ),
    "answer": (
        [json.dumps({"question": "?", "context": f"the {word} sat", "answers": {"text": [word], "answer_start": [4]}})
         for word in ("cat", "dog", "mat", "run")],
        [json.dumps(row) for row in (
            {"question": "?", "context": "the cat", "answers": {"text": ["dog"], "answer_start": [4]}},
            {"question": "", "context": "the cat", "answers": []}, {"question": "?", "answers": []},
        )],
        ["the answer 'dog' is not in the context", "the question is empty", "the context is empty"],
        "jsonl",
    ),
    "regress": (
        ["text\tscore", "the cat\t1", "a dog\t2.5", "a mat\t3", "the mat\t4"],
        ["the dog\tmany", "\t1", "the cat"],
        ["the label must be a number, got 'many'", "the text is empty", "1 cell where the header has 2"],
        "tsv",
    ),
}  # fmt: skip


@pytest.mark.parametrize("task", BAD)
def test_bad_rows_stop_with_their_place_or_are_counted(task: str, bert_folder: Path, tmp_path: Path) -> None:
    good, bad, reasons, ending = BAD[task]
    train, valid = tmp_path / f"train.{ending}", tmp_path / f"valid.{ending}"
    train.write_text("\n".join(good) + "\n")
    for row, reason in zip(bad, reasons, strict=True):
        valid.write_text("\n".join([*good, row]) + "\n")
        with pytest.raises(QkvError) as caught:
            tune(bert_folder, task=task, train=train, valid=valid, out=tmp_path / "run", **{"train.steps": 1})
        assert str(caught.value).startswith(f"{valid}:{len(good) + 1}: {reason}")
        assert not (tmp_path / "run").exists()
    valid.write_text("\n".join([*good, *bad]) + "\n")
    changes = {"train.steps": 1, "data.skip_bad": True}
    _, said = tune(bert_folder, task=task, train=train, valid=valid, **changes)
    (left_out,) = [line for line in said if "left out" in line]
    assert left_out.startswith(f"{len(bad)} rows left out ({valid}:{len(good) + 1}: ")
    assert all(reason in left_out for reason in reasons)


def test_layer_decay_resumes_bit_for_bit(bert_folder: Path, tmp_path: Path) -> None:
    train = write(tmp_path / "a.csv", 80, 1)
    steps = {"train.steps": 6, "train.save_every": 2, "train.keep": 9, "optim.layer_decay": 0.8}
    steps["train.keep_checkpoints"] = True
    for name in ("whole", "cut"):
        tune(bert_folder, train=train, out=tmp_path / name, **steps)
    plain, _ = tune(bert_folder, train=train, **{**steps, "optim.layer_decay": 1.0})
    cut_off(tmp_path / "cut", 4, 6)
    tune(bert_folder, train=train, out=tmp_path / "cut", resume=True, **steps)
    a, b = (qkv.load(tmp_path / name, device="cpu").module.state_dict() for name in ("whole", "cut"))
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert not all(torch.equal(a[name], value) for name, value in plain.module.state_dict().items())


@pytest.mark.parametrize(("value", "message"), [(1.5, "at most 1, got 1.5"), (0.0, "at least 0.01, got 0")])
def test_layer_decay_is_a_share(value: float, message: str, bert_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"optim.layer_decay must be {message}"):
        tune(bert_folder, train=write(tmp_path / "a.csv", 40, 1), **{"optim.layer_decay": value})
