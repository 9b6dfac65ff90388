"""Every shipped recipe in its debug size, from files made here to a model folder that answers."""

from __future__ import annotations

import json
import random
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import qkv
from qkv.common.errors import QkvError, UsageError
from qkv.data.config import DataConfig
from qkv.data.phrasebook import phrasebook
from qkv.exams.evaluate import evaluate
from qkv.recipes.schema import read_recipe
from qkv.recipes.shelf import shipped
from qkv.runs.run import run_recipe
from tests.checkpoints.earlier import in_our_names
from tests.runs.killing import cut_off

PAIRS = list(phrasebook(300, 5))


def write(folder: Path) -> dict[str, list[str]]:
    """Small data of every kind."""
    draw = random.Random(0)
    lines = {"en": [a for a, _ in PAIRS], "fr": [b for _, b in PAIRS]}
    for name, texts in lines.items():
        (folder / f"text.{name}").write_text("\n".join(texts) + "\n")
    label = ["has" if " the " in a else "not" for a, _ in PAIRS]
    rows = [f"{a}\t{b}\t{c}\t{len(a) / 10}" for (a, b), c in zip(PAIRS, label, strict=True)]
    (folder / "table.tsv").write_text("\n".join(["text\tother\tlabel\tscore", *rows]) + "\n")
    tags = [[(w, "B-CAP" if w[0].isupper() else "O") for w in a.split()] for a, _ in PAIRS]
    (folder / "tags.conll").write_text("\n\n".join("\n".join(f"{w} {t}" for w, t in s) for s in tags) + "\n")
    asked = [
        {
            "id": str(i),
            "question": "Which word?",
            "answers": [{"text": a.split()[-1], "answer_start": a.rindex(a.split()[-1])}],
        }
        for i, (a, _) in enumerate(PAIRS[:40])
    ]
    paragraphs = [{"context": a, "qas": [q]} for (a, _), q in zip(PAIRS, asked, strict=False)]
    (folder / "squad.json").write_text(json.dumps({"data": [{"title": "t", "paragraphs": paragraphs}]}))
    images = np.array([[draw.randrange(256) for _ in range(784)] for _ in range(40)], dtype=np.uint8).reshape(
        40, 28, 28
    )
    np.savez(folder / "images.npz", images=images, labels=np.arange(40) % 3)
    table, text = [str(folder / "table.tsv")], [str(folder / "text.en")]
    aligned = [str(folder / "text.en"), str(folder / "text.fr")]
    return {
        "phrasebook": ["phrasebook:train:300"],
        "translate": aligned,
        "rnn-translate": aligned, "sentence-embeddings": aligned,
        "text-to-text": aligned, "classify": table, "pairs": table, "regress": table,
        "tag": [str(folder / "tags.conll")],
        "answer": [str(folder / "squad.json")],
        "image": [str(folder / "images.npz")],
        "complete": table,
        **dict.fromkeys(
            ("adapt", "tune-gpt", "shakespeare", "shakespeare-small", "word-gpt", "word2vec", "glove"), text
        ),
        **dict.fromkeys(("pretrain-bert", "pretrain-electra", "pretrain-gpt", "pretrain-t5"), text),
    }  # fmt: skip


EXTRA = {
    "classify": ["data.max_length=64"],
    "image": ["data.held_out=0.3"],
    "complete": ["data.second=other", "data.text=text"],
    "pairs": ["data.second=other", "data.text=text", "data.label=label"],
    "text-to-text": [
        "model.preset=t5-small",
        "tokenizer.vocab_size=300",
        'objective.prefix="to French: "',
        "model.set={dim=32, num_layers=1, num_decoder_layers=1, num_heads=2, head_dim=16, ff_dim=32}",
    ],
    "regress": ["data.label=score", "data.text=text", "data.max_length=64"],
}
NEEDS_GPT = {"tune-gpt", "complete"}
NEEDS_INIT = {"classify", "pairs", "regress", "tag", "answer", "sentence-embeddings", "adapt"}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    return write(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory, files: dict[str, list[str]]) -> str:
    """A tiny BERT with its tokenizer, as other recipes start from."""
    out = tmp_path_factory.mktemp("start") / "bert"
    train("pretrain-bert", out, files)
    return str(out)


@pytest.fixture(scope="module")
def gpt(tmp_path_factory: pytest.TempPathFactory, files: dict[str, list[str]]) -> str:
    """A tiny GPT with its tokenizer."""
    out = tmp_path_factory.mktemp("start") / "gpt"
    train("pretrain-gpt", out, files)
    return str(out)


def train(name: str, out: Path, files: dict[str, list[str]], *changes: str, resume: bool = False) -> Any:
    asked = [f"out={out}", f"data.train={json.dumps(files[name])}", "train.workers=1", *EXTRA.get(name, []), *changes]
    return run_recipe(read_recipe(name, asked, debug=True), resume=resume, device="cpu", say=lambda line: None)


@pytest.mark.parametrize("name", shipped())
def test_a_recipe_runs_from_files_to_a_folder(
    name: str, tmp_path: Path, files: dict[str, list[str]], start: str, gpt: str
) -> None:
    changes = [f"model.init={start}"] if name in NEEDS_INIT else [f"model.init={gpt}"] if name in NEEDS_GPT else []
    outcome = train(name, tmp_path / "run", files, *changes)
    assert outcome.reason == "done"
    assert outcome.best is not None
    made = {path.name for path in (tmp_path / "run").iterdir()}
    assert made >= {
        "recipe.toml",
        "metrics.jsonl",
        "energy.json",
        "config.json",
        "model.safetensors",
        "best",
        "report.html",
        "scores.json",
        "README.md",
        "outcome.json",
    }
    assert "checkpoints" not in made
    model = qkv.load(tmp_path / "run", device="cpu")
    if name in ("phrasebook", "translate", "rnn-translate"):
        assert len(model.translate(["The dog sleeps.", "", "A cat."])) == 3
        scores = evaluate(model, files["translate"])
        assert {score.name for score in scores} >= {"BLEU", "chrF2"}
    if name == "text-to-text":
        assert model.text_tasks["translate"].prefix == "to French: "
        assert [score.name for score in model.evaluate(*files[name], beam=1)] == ["BLEU", "BLEU", "chrF2"]
    if name == "classify":
        assert model.labels == ("has", "not")
        accuracy = evaluate(model, files["classify"], DataConfig(text="text", label="label"))[0]
        assert accuracy.low <= accuracy.value <= accuracy.high
    if name == "regress":
        assert evaluate(model, files["regress"], DataConfig(text="text", label="score"))[0].name
    if name == "tag":
        assert evaluate(model, files["tag"])[0].count == len(PAIRS)
    if name == "answer":
        assert [score.count for score in evaluate(model, files["answer"])] == [40, 40]
    if name == "image":
        assert [score.count for score in evaluate(model, files["image"])] == [40, 40]
    if name in ("pretrain-gpt", *NEEDS_GPT):
        assert model.generate(["The dog"], max_length=5)[0].tokens
    if name == "pretrain-electra":
        assert qkv.load(tmp_path / "run" / "generator", device="cpu").config.heads == ("mlm",)
        assert model.config.heads == ("replaced",)
    if name == "pretrain-gpt":
        assert evaluate(model, files["pretrain-gpt"])[0].value > 1


def test_resuming_a_recipe_is_bit_for_bit(tmp_path: Path, files: dict[str, list[str]]) -> None:
    changes = ["train.steps=8", "train.save_every=2", "train.keep=100", "train.keep_checkpoints=true"]
    changes += ["model.set.dropout=0.3"]
    train("translate", tmp_path / "whole", files, *changes)
    train("translate", tmp_path / "cut", files, *changes)
    cut_off(tmp_path / "cut", 6, 8)
    train("translate", tmp_path / "cut", files, *changes, resume=True)
    a, b = (qkv.load(tmp_path / name, device="cpu").module.state_dict() for name in ("whole", "cut"))
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_a_pre_norm_run_of_an_earlier_version_resumes_and_ends_as_pegasus(
    tmp_path: Path, files: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def kind(out: str) -> str:
        return json.loads((tmp_path / out / "config.json").read_text())["model_type"]

    changes = ["train.steps=4", "train.save_every=2", "model.set.pre_norm=true", "train.keep_checkpoints=true"]
    with monkeypatch.context() as patch:
        in_our_names(patch)
        train("translate", tmp_path / "run", files, *changes)
    assert (kind("run"), kind("run/best")) == ("qkv-transformer", "qkv-transformer")
    cut_off(tmp_path / "run", 4)
    before = qkv.load(tmp_path / "run", device="cpu").module.state_dict()
    train("translate", tmp_path / "run", files, *changes, resume=True)
    assert kind("run") == "pegasus"
    after = qkv.load(tmp_path / "run", device="cpu").module.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_one_worker_equals_four(tmp_path: Path, files: dict[str, list[str]]) -> None:
    for workers in (1, 4):
        train("pretrain-bert", tmp_path / str(workers), files, f"train.workers={workers}")
    a, b = (qkv.load(tmp_path / name, device="cpu").module.state_dict() for name in ("1", "4"))
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_what_decides_no_number_may_change_on_resuming(tmp_path: Path, files: dict[str, list[str]]) -> None:
    changes = ["train.steps=4", "train.save_every=2", "train.keep=100", "train.keep_checkpoints=true"]
    changes += ["model.set.dropout=0.3"]
    for name in ("whole", "cut"):
        train("translate", tmp_path / name, files, *changes)
    cut_off(tmp_path / "cut", 4)
    free = ["log.track=none", "train.workers=2", "train.log_every=1", "train.keep=5", "train.carbon_intensity=100"]
    train("translate", tmp_path / "cut", files, *changes, *free, f"data.cache={tmp_path / 'kept'}", resume=True)
    a, b = (qkv.load(tmp_path / name, device="cpu").module.state_dict() for name in ("whole", "cut"))
    assert all(torch.equal(a[name], b[name]) for name in a)
    again = tomllib.loads((tmp_path / "cut" / "recipe.toml").read_text())
    assert (again["log"]["track"], again["train"]["workers"]) == ("none", 2)
    assert (tmp_path / "kept" / "train").is_dir()


def test_what_decides_a_number_may_not_change_on_resuming(tmp_path: Path, files: dict[str, list[str]]) -> None:
    train("translate", tmp_path / "run", files)
    before = (tmp_path / "run" / "recipe.toml").read_text()
    for change in ("train.seed=7", "train.tokens=99", "data.max_length=9", "model.set.dropout=0.25", "train.ema=0.5"):
        with pytest.raises(UsageError, match=r"differs from this recipe \("):
            train("translate", tmp_path / "run", files, change, resume=True)
    assert (tmp_path / "run" / "recipe.toml").read_text() == before
    (tmp_path / "run" / "recipe.toml").write_text("steps = ")
    with pytest.raises(UsageError, match=r"recipe.toml is not TOML"):
        train("translate", tmp_path / "run", files, resume=True)


def test_several_labels_reach_the_folder(tmp_path: Path, start: str) -> None:
    from transformers import AutoModelForSequenceClassification

    labels = ["has,long", "has", "", "long"]
    rows = [f"{english}\t{labels[i % 4]}" for i, (english, _) in enumerate(PAIRS[:80])]
    (tmp_path / "sets.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
    files = {"classify": [str(tmp_path / "sets.tsv")]}
    changes = [f"model.init={start}", "data.separator=,", "data.held_out=0.3", "train.steps=2", "data.max_length=64"]
    train("classify", tmp_path / "run", files, *changes)
    for folder in (tmp_path / "run", tmp_path / "run" / "best"):
        theirs = AutoModelForSequenceClassification.from_pretrained(folder)
        assert theirs.config.problem_type == "multi_label_classification"
        model = qkv.load(folder, device="cpu")
        assert model.multi_label
        assert model.labels == tuple(theirs.config.id2label.values()) == ("has", "long")
    scores = evaluate(model, files["classify"], DataConfig(separator=","))
    assert [score.name for score in scores] == ["f1", "f1", "exact-match"]
    (tmp_path / "one.tsv").write_text(
        "\n".join(["text\tlabel", *(row.replace("has,", "") for row in rows if row[-1] != "\t")])
    )
    train("classify", tmp_path / "one", {"classify": [str(tmp_path / "one.tsv")]}, *changes[:1], *changes[2:])
    assert not qkv.load(tmp_path / "one", device="cpu").multi_label


def test_a_bad_row_is_counted_once(tmp_path: Path, start: str) -> None:
    rows = [
        json.dumps({"text": a, "label": [["x"], ["y"], []][i % 3 if i < 3 else i % 2]})
        for i, (a, _) in enumerate(PAIRS)
    ]
    (tmp_path / "t.jsonl").write_text("\n".join(rows))
    said: list[str] = []
    changes = [
        f"out={tmp_path / 'run'}",
        f"model.init={start}",
        f"data.train=[{tmp_path / 't.jsonl'}]",
        "train.steps=1",
    ]
    recipe = read_recipe("classify", [*changes, "data.skip_bad=true", "data.held_out=0.2"], debug=True)
    run_recipe(recipe, device="cpu", say=said.append)
    assert [line.split(" (")[0] for line in said if "left out" in line] == ["1 row left out"]


def test_a_separator_is_for_classes(tmp_path: Path, files: dict[str, list[str]], start: str) -> None:
    with pytest.raises(UsageError, match=r"data\.separator is for several labels .* \(classify\), not for regress"):
        train("regress", tmp_path / "run", files, f"model.init={start}", "data.separator=,")
    assert not (tmp_path / "run").exists()


def test_with_patience_the_folder_holds_the_best_weights(tmp_path: Path, files: dict[str, list[str]]) -> None:
    changes = ["train.steps=6", "train.validate_every=2", "train.save_every=2", "train.average_last=3"]
    train("pretrain-electra", tmp_path / "early", files, *changes, "train.patience=5")
    train("pretrain-electra", tmp_path / "last", files, *changes, "train.keep_best=false")
    for part in (".", "generator"):
        best, early, last = (
            qkv.load(tmp_path / name / part, device="cpu").module.state_dict()
            for name in ("early/best", "early", "last")
        )
        assert all(torch.equal(best[name], early[name]) for name in best)
        assert not all(torch.equal(last[name], early[name]) for name in best)


def test_a_folder_in_use_is_left_alone(tmp_path: Path, files: dict[str, list[str]]) -> None:
    train("translate", tmp_path / "run", files)
    with pytest.raises(UsageError, match="already holds a run: use --resume"):
        train("translate", tmp_path / "run", files)
    with pytest.raises(UsageError, match=r"differs from this recipe \(it has 'lr = 0.002', this one has 'lr = 0.1'\)"):
        train("translate", tmp_path / "run", files, "optim.lr=0.1", resume=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "precious").write_text("x")
    with pytest.raises(UsageError, match="is not empty and holds no run"):
        train("translate", tmp_path / "other", files)
    assert (tmp_path / "other" / "precious").read_text() == "x"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("objective.r_drop=-1", "r_drop must be at least 0"),
        ("data.dropout=0.2", "dropout is for BPE tokenizers"),
        ("model.set={num_segments=-1}", "num_segments must not be below 0, got -1"),
    ],
)
def test_what_is_found_wrong_late_leaves_nothing_either(
    change: str, said: str, files: dict[str, list[str]], tmp_path: Path
) -> None:
    place = tmp_path / "run"
    given = [f"data.train={files['tag']}", "model.preset=bert-mini", "tokenizer.kind=wordpiece", f"out={place}", change]
    with pytest.raises(UsageError, match=said):
        run_recipe(read_recipe("tag", given, debug=True), device="cpu", say=lambda _: None)
    assert not place.exists()


def test_a_run_that_never_began_leaves_nothing(files: dict[str, list[str]], tmp_path: Path) -> None:
    short = tmp_path / "short.fr"
    short.write_text("un\n")
    changes = [f"data.train=[{files['translate'][0]},{short}]", f"out={tmp_path / 'run'}"]
    with pytest.raises(QkvError, match="have no partner"):
        run_recipe(read_recipe("translate", changes, debug=True), say=lambda _: None)
    assert not (tmp_path / "run").exists()


def test_a_text_shorter_than_a_window_is_said(files: dict[str, list[str]], tmp_path: Path) -> None:
    short = tmp_path / "short.txt"
    short.write_text("A few words.\n")
    said: list[str] = []
    changes = [f"out={tmp_path / 'run'}", f"data.train={files['pretrain-bert'][0]}", f"data.valid=[{short}]"]
    assert run_recipe(read_recipe("pretrain-bert", changes, debug=True), device="cpu", say=said.append).best
    assert any(re.match(r"the valid text has \d+ tokens: its window is that long, not \d+", line) for line in said)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("optim.name=adamv", "unknown optim.name 'adamv'; did you mean 'adamw'"),
        ("optim.schedule=cosin", "did you mean 'cosine'"),
        ("train.precision=fp16", "unknown train.precision 'fp16'"),
        ("train.compile=maybe", "unknown train.compile 'maybe'"),
        ("tokenizer.kind=bpee", "did you mean 'bpe'"),
        ("train.tokens=0", "train.tokens must be at least 1, got 0"),
        ("optim.lr=-1", "optim.lr must be at least 0, got -1"),
    ],
)
def test_names_and_numbers_are_checked_before_anything(
    change: str, message: str, files: dict[str, list[str]], tmp_path: Path
) -> None:
    changes = [f"data.train=[{','.join(files['translate'])}]", f"out={tmp_path / 'run'}", change]
    with pytest.raises(UsageError, match=message):
        run_recipe(read_recipe("translate", changes), say=lambda _: None)
    assert not (tmp_path / "run").exists()


def test_a_device_that_is_not_there_is_said_before_anything(files: dict[str, list[str]], tmp_path: Path) -> None:
    changes = [f"data.train=[{','.join(files['translate'])}]", f"out={tmp_path / 'run'}"]
    with pytest.raises(UsageError, match=r"device 'tpu9' is not available here \(allowed: cpu"):
        run_recipe(read_recipe("translate", changes, debug=True), device="tpu9", say=lambda _: None)
    assert not (tmp_path / "run").exists()


def test_the_longest_text_travels_with_the_folder(tmp_path: Path, start: str, files: dict[str, list[str]]) -> None:
    train("classify", tmp_path / "run", files, f"model.init={start}", "data.max_length=20", "train.steps=1")
    model = qkv.load(tmp_path / "run", device="cpu")
    assert model.max_length == 20
    with pytest.warns(UserWarning, match="1 of 1 texts were cut to 20 tokens"):
        model.classify(["The small dog sleeps. " * 10])


def test_a_question_longer_than_its_window_is_cut_and_said(tmp_path: Path, start: str) -> None:
    contexts = [english for english, _ in PAIRS[:20]]
    paragraphs = [
        {
            "context": text,
            "qas": [{"id": text, "question": "Which? " * 40, "answers": [{"text": text[:2], "answer_start": 0}]}],
        }
        for text in contexts
    ]
    (tmp_path / "long.json").write_text(json.dumps({"data": [{"title": "t", "paragraphs": paragraphs}]}))
    changes = [f"model.init={start}", f"data.train=[{tmp_path / 'long.json'}]", "data.held_out=0.3", "train.steps=1"]
    said: list[str] = []
    run_recipe(read_recipe("answer", [*changes, f"out={tmp_path / 'run'}"], debug=True), device="cpu", say=said.append)
    assert any("questions are longer than half of 32 tokens and were truncated" in line for line in said)


def test_a_run_goes_on_with_the_stores_it_began_with(
    tmp_path: Path, files: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version of qkv that would tokenise or split otherwise must not change the batches of a run that has begun."""
    changes = ["train.steps=4", "train.save_every=2", "train.keep=9", "model.preset=bert-tiny", "train.workers=1"]
    changes += ["train.keep_checkpoints=true"]
    for name in ("whole", "cut"):
        train("classify", tmp_path / name, files, *changes)
    cut_off(tmp_path / "cut", 4)
    monkeypatch.setattr("qkv.runs.stores._key", lambda *_: "another version")
    monkeypatch.setattr("qkv.runs.stores._stores", lambda *_: pytest.fail("tokenised again"))
    train("classify", tmp_path / "cut", files, *changes, resume=True)
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "cut")]
    assert weights[0] == weights[1]
