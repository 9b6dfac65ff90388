"""Prompts and answers: what is learned, what is held out, and a model that learns to answer."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import qkv
from qkv.common.errors import UsageError
from qkv.data.config import DataConfig
from qkv.data.store import Store
from qkv.models.catalogue import build
from qkv.objectives.parts import IGNORED
from qkv.recipes.schema import read_recipe
from qkv.runs.run import run_recipe
from qkv.tasks.base import Context
from qkv.tasks.exam import Exam
from qkv.tasks.split import splitter
from qkv.tasks.table import read_task
from tests.predict.writers import writer

ROWS = [("What is big?", "An elephant."), ("Say it.\n", "Yes, the small cat."), ("Two dogs", "play")]


def table(folder: Path, rows: list[tuple[str, str]], names: tuple[str, str] = ("prompt", "answer")) -> str:
    file = folder / "pairs.jsonl"
    file.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows))
    return str(file)


@pytest.mark.parametrize("names", [("prompt", "completion"), ("question", "answer"), ("a", "b")])
def test_only_the_answer_and_the_end_are_targets(tmp_path: Path, names: tuple[str, str]) -> None:
    model = writer()
    text = model.tokenizer
    assert text is not None
    data = DataConfig(
        train=(table(tmp_path, ROWS, names),), text="a" * (names[0] == "a"), second="b" * (names[0] == "a")
    )
    task = read_task("complete", {}, data)
    context = Context(text, model.config, {}, lambda line: None)
    store = Store.write(tmp_path / "store", task.rows(task.examples(data.train), context), key="x")
    batch = task.collate(store, context)(np.arange(3), np.random.default_rng(0))
    tokens = [row.tolist() for row in batch.tokens.layout.split(batch.tokens.ids)]
    wanted = [row.tolist() for row in batch.tokens.layout.split(batch.wanted)]
    end = text.specials["end"]
    for (prompt, answer), ids, targets in zip(ROWS, tokens, wanted, strict=True):
        before = prompt if prompt.endswith("\n") else f"{prompt}\n"
        assert ids == [*text.encode([before + answer]).ids[0], end]
        learned = [target for target in targets if target != IGNORED]
        assert text.decode(learned) == answer
        assert learned[-1] == end
        assert targets[-1] == IGNORED
        assert [t for t in targets[: -len(learned) - 1] if t != IGNORED] == []


def test_long_pairs_are_skipped_and_counted(tmp_path: Path) -> None:
    model = writer()
    said: list[str] = []
    data = DataConfig(train=(table(tmp_path, [*ROWS, ("long " * 50, "answer")]),))
    task = read_task("complete", {}, data)
    rows = list(task.rows(task.examples(data.train), Context(model.tokenizer, model.config, {}, said.append)))
    assert len(rows) == 3
    assert said == ["1 prompts with their answers are longer than 48 tokens and were skipped"]


def test_prompts_are_held_out_whole(tmp_path: Path) -> None:
    rows = [(f"Prompt {n % 40}", f"answer {n}") for n in range(120)]
    task = read_task("complete", {}, DataConfig(train=(table(tmp_path, rows),), held_out=0.2))
    held = splitter(task)
    sides = [{e.source for e in task.examples(task.data.train) if held(e) == side} for side in (False, True)]
    assert sides[1]
    assert not sides[0] & sides[1]


def test_an_encoder_decoder_is_refused() -> None:
    t5 = writer("unigram", "t5-small")
    for name in ("complete", "causal"):
        task = read_task(name, {}, DataConfig())
        with pytest.raises(UsageError, match="needs a model that continues a text"):
            task.check_model(build(t5.config), Context(t5.tokenizer, t5.config, {}, lambda line: None))


def test_a_gpt_learns_to_answer(tmp_path: Path) -> None:
    """The end of an answer is learned, and the folder writes the separator after a prompt, as in training."""
    draw = random.Random(0)
    animals = ["cat", "dog", "queen", "garden"]
    rows = [(f"Name the {draw.choice(['small', 'old', 'red'])} {name}", f"the {name}") for name in animals * 30]
    writer(std=0.05).save(tmp_path / "gpt")
    changes = [f"out={tmp_path / 'run'}", f"model.init={tmp_path / 'gpt'}", f"data.train={table(tmp_path, rows)}"]
    changes += ["train.steps=110", "optim.lr=1e-2", "train.tokens=512", "train.workers=1", "train.validate_every=0.5"]
    outcome: Any = run_recipe(read_recipe("complete", changes), device="cpu", say=lambda line: None, report=False)
    assert outcome.reason == "done"
    model = qkv.load(tmp_path / "run", device="cpu")
    found = model.generate([f"Name the old {name}" for name in animals], sample=False, max_length=8)
    assert [one.text for one in found] == [f"the {name}" for name in animals]
    assert {one.ended for one in found} == {"end"}
    task = read_task("complete", {}, DataConfig())
    scores = task.score(Exam(model, (table(tmp_path, rows),)))
    assert scores[0].value == pytest.approx(
        float(torch.tensor([one.log_prob for one in model.score(*map(list, zip(*rows, strict=True)))]).sum().neg()
              .div(scores[0].parts["tokens"]).exp()), rel=1e-4
    )  # fmt: skip
    assert scores[0].value < 1.5
    (tmp_path / "text.txt").write_text("the cat\n" * 9)
    assert model.evaluate(table(tmp_path, rows))[0].signature.endswith("text:answers")
    assert "text:file|window:48|stride:4" in model.evaluate(tmp_path / "text.txt", stride=4)[0].signature
