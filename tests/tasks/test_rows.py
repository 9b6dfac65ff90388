"""From examples to rows and batches: pairs among single texts, spans without special tokens, scores, short models."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qkv
from qkv.data.config import DataConfig
from qkv.data.examples import Classified
from qkv.models import catalogue
from qkv.objectives.contrastive import CosineScore, Match
from qkv.recipes.schema import read_recipe
from qkv.runs.prepare import Prepared, prepare
from qkv.runs.run import run_recipe
from qkv.runs.stores import _key
from qkv.tasks.base import Context
from qkv.tasks.table import read_task
from qkv.tokenizers.text import TextTokenizer


def made(name: str, out: Path, train: str | list[str], *changes: str) -> Prepared:
    asked = [f"out={out}", f"data.train={json.dumps(train)}", "train.workers=1", *changes]
    recipe = read_recipe(name, asked, debug=True)
    out.mkdir()
    return prepare(recipe, out, lambda _: None)


def context_of(tiny_bert: dict[str, Any], wordpiece: Any, **changes: Any) -> Context:
    config = catalogue.preset("bert-tiny", **{**tiny_bert, **changes})
    return Context(TextTokenizer(wordpiece()), config, {"labels": ("x", "y")}, print)


def test_single_texts_and_pairs_may_stand_side_by_side(tiny_bert: dict[str, Any], wordpiece: Any) -> None:
    task, context = read_task("classify", {}, DataConfig()), context_of(tiny_bert, wordpiece)
    examples = [Classified("the cat", None, ("x",)), Classified("the cat", "a dog", ("y",))]
    single, pair = task.rows(examples, context)
    assert single["ids"] == context.text.encode(["the cat"]).ids[0]
    assert pair["ids"] == context.text.encode(["the cat"], ["a dog"]).ids[0]
    assert set(pair["segments"]) == {0, 1}


def test_what_is_tokenised_depends_on_the_number_of_segments(tiny_bert: dict[str, Any], wordpiece: Any) -> None:
    task = read_task("classify", {}, DataConfig())
    keys = {_key(task, context_of(tiny_bert, wordpiece, num_segments=n), "train", ()) for n in (1, 2)}
    assert len(keys) == 2


def test_no_end_token_is_hidden_and_a_sentinel_in_a_text_does_no_harm(tmp_path: Path) -> None:
    draw = random.Random(0)
    lines = [" ".join(draw.choices(["cat", "dog", "mat", "sat"], k=12)) for _ in range(200)]
    (tmp_path / "t.txt").write_text("\n".join([*lines, "a text with <extra_id_0> in it"] * 3) + "\n")
    found = made("pretrain-t5", tmp_path / "run", str(tmp_path / "t.txt"), "data.held_out=0.2")
    end = found.context.text.specials["end"]
    sampler = found.task.sampler(found.train, found.context, tokens=512, seed=1, shuffle=True)
    make, position = found.task.collate(found.train, found.context), 0
    for _ in range(10):
        pick = sampler.batch(position)
        batch, position = make(pick.rows, np.random.default_rng(pick.seed)), pick.next_position
        for side, ids in ((batch.pairs.source, batch.pairs.source.ids), (batch.pairs.target, batch.wanted)):
            for piece in side.layout.split(ids):
                assert piece[-1] == end
                assert (piece == end).sum() == 1


def test_scores_of_pairs_are_learned_without_another_key(tmp_path: Path) -> None:
    rows = [f"text {n}\tother {n}\t{n % 6}" for n in range(60)]
    (tmp_path / "p.tsv").write_text("\n".join(["a\tb\tscore", *rows]) + "\n")
    named = ("data.text=a", "data.second=b", "data.label=score", "model.preset=bert-tiny", "data.held_out=0.2")
    found = made("sentence-embeddings", tmp_path / "run", str(tmp_path / "p.tsv"), *named)
    assert isinstance(found.task.objective(), CosineScore)
    batch = found.task.collate(found.train, found.context)(np.arange(20), np.random.default_rng(0))
    assert batch.scores is not None
    assert float(batch.scores.max()) == 1.0  # the largest score, 5
    assert isinstance(read_task("embeddings", {"scale": 5.0}, DataConfig()).objective(), Match)


def test_bpe_dropout_keeps_to_what_the_model_reads(tmp_path: Path) -> None:
    words = ["alphabet", "betamax", "gammaray", "deltawing"]
    draw = random.Random(0)
    rows = [f"{' '.join(draw.choices(words, k=4))}\t{'x' if n % 2 else 'y'}" for n in range(60)]
    (tmp_path / "t.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
    changes = ["model.preset=bert-tiny", "model.set.max_length=16", "data.max_length=200", "data.dropout=0.9"]
    found = made("classify", tmp_path / "run", str(tmp_path / "t.tsv"), *changes, "tokenizer.vocab_size=120")
    make = found.task.collate(found.train, found.context)
    for seed in range(10):
        batch = make(np.arange(len(found.train)), np.random.default_rng(seed))
        assert batch.inputs.layout.max_length <= 16


@pytest.mark.parametrize("segments", [0, 1])
def test_a_reader_needs_no_segments(segments: int, tmp_path: Path) -> None:
    context = "the small cat sat on the mat"
    answers = [{"text": "cat", "answer_start": 10}]
    rows = [{"question": f"who {n}?", "context": f"{context} {n}", "answers": answers} for n in range(40)]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = [f"out={tmp_path / 'run'}", f"data.train={tmp_path / 'q.jsonl'}", "train.workers=1", "train.steps=1"]
    asked += ["model.preset=bert-tiny", f"model.set.num_segments={segments}", "data.held_out=0.3"]
    run_recipe(read_recipe("answer", asked, debug=True), device="cpu", say=lambda _: None)
    model = qkv.load(tmp_path / "run", device="cpu")
    assert len(model.answer(["who 1?"], [context])) == 1


def test_pairs_of_sentences_in_a_mixture_train_and_choose_a_threshold(tmp_path: Path) -> None:
    blocks = ["\n".join(f"The cat {n} sat on mat {i}." for i in range(6)) for n in range(30)]
    (tmp_path / "notes.txt").write_text("\n\n".join(blocks) + "\n")
    rows = [
        {"question": f"who {n}?", "context": f"the red cat is {n}",
         "answers": [{"text": "red cat", "answer_start": 4}] if n % 2 else []}
        for n in range(60)
    ]  # fmt: skip
    (tmp_path / "asked.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    said: list[str] = []
    changes = [
        "task=mixture", "objective={}", "data.short=0", "data.held_out=0.4", "train.steps=2", "train.tokens=512",
        "data.mix.masked.files=*.txt", "data.mix.masked.unit=blank", "data.mix.answer.files=*.jsonl",
        "objective.mix.masked.weight=1", "objective.mix.masked.pairs=true", "objective.mix.answer.weight=1",
        f"data.train={json.dumps([str(tmp_path / name) for name in ('notes.txt', 'asked.jsonl')])}",
        f"out={tmp_path / 'run'}", "train.workers=1",
    ]  # fmt: skip
    run_recipe(read_recipe("pretrain-bert", changes, debug=True), device="cpu", say=said.append)
    assert any(line.startswith("no answer if its score") for line in said)
    model = qkv.load(tmp_path / "run", device="cpu")
    assert model.no_answer
    assert model.no_answer_threshold != 0
