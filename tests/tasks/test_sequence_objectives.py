"""The objectives of the recipe pretrain-t5: the same windows of text, another key `task`, and no token lost."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qkv
from qkv.common.batch import Translated
from qkv.common.errors import UsageError
from qkv.data.corruption import restore_spans
from qkv.data.phrasebook import phrasebook
from qkv.recipes.schema import read_recipe
from qkv.runs.run import Prepared, check, prepare, run_recipe
from tests.tasks.test_tasks import assert_resumes, batches, loader

OBJECTIVES = ("spans", "denoise", "prefix-lm", "plain-lm")
LENGTH = 32
Pair = tuple[list[int], list[int]]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("text") / "text.txt"
    english = [a for a, _ in phrasebook(240, 5)]
    file.write_text("\n\n".join(" ".join(english[i : i + 6]) for i in range(0, 240, 6)) + "\n")
    return str(file)


def made(objective: str, out: Path, text: str, *changes: str) -> Prepared:
    asked = [f"out={out}", f"data.train={json.dumps([text])}", f"task={objective}", "train.workers=1", *changes]
    recipe = read_recipe("pretrain-t5", asked, debug=True)
    check(recipe)
    out.mkdir()
    return prepare(recipe, out, lambda line: None)


@pytest.fixture(scope="module")
def prepared(text: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Prepared]:
    return {name: made(name, tmp_path_factory.mktemp("run") / name, text) for name in OBJECTIVES}


def pairs(found: Prepared, count: int = 10) -> Iterator[Pair]:
    """Sources and targets, whose decoder reads the target one token later."""
    for batch, _ in batches(loader(found, found.train), count):
        assert isinstance(batch, Translated)
        source, target = batch.pairs.source, batch.pairs.target
        for read, shifted, wanted in zip(
            source.layout.split(source.ids),
            target.layout.split(target.ids),
            target.layout.split(batch.wanted),
            strict=True,
        ):
            assert shifted.tolist() == [found.context.config.start_id, *wanted[:-1].tolist()]
            yield read.tolist(), wanted.tolist()


@pytest.mark.parametrize("name", OBJECTIVES)
def test_source_and_target_hold_every_token_of_a_piece_of_text(name: str, prepared: dict[str, Prepared]) -> None:
    found = prepared[name]
    tokenizer, stream = found.context.text, ",".join(map(str, found.train.values("ids").tolist()))
    end, sentinels, seen = tokenizer.specials["end"], tokenizer.sentinels, 0
    for source, target in pairs(found):
        assert source[-1] == target[-1] == end
        assert max(len(source), len(target)) <= LENGTH
        read, said = source[:-1], target[:-1]
        if name == "spans":
            body = restore_spans(read, target, sentinels=sentinels, end_id=end).tolist()
            assert len(body) == len(read) + len(said) - 2 * sum(token in sentinels for token in said)
        elif name == "denoise":
            body = said
            assert not Counter(token for token in read if token != sentinels[0]) - Counter(said)
        else:
            body = [*read, *said]
            assert bool(read) == (name == "prefix-lm" and len(body) > 1)
        assert ",".join(map(str, body)) in stream
        seen += len(body)
    assert seen > 1000


def test_lengths_are_known_in_advance(prepared: dict[str, Prepared]) -> None:
    for source, target in pairs(prepared["spans"]):
        sentinels = sum(token in prepared["spans"].context.text.sentinels for token in source)
        size = len(source) - 1 + len(target) - 1 - 2 * sentinels  # tokens of the text
        hidden = 0 if size < 2 else max(1, min(round(0.15 * size), size - 1))
        assert len(target) - 1 == hidden + sentinels
        assert sentinels == (max(1, round(hidden / 3)) if hidden else 0)
    for source, target in pairs(prepared["denoise"]):
        body = len(target) - 1
        mask = prepared["denoise"].context.text.sentinels[0]
        kept = sum(token != mask for token in source) - 1
        assert kept == body - (max(1, round(0.3 * body)) if body else 0)
    assert all(len(source) == 1 for source, _ in pairs(prepared["plain-lm"]))


def test_sentences_are_permuted_only_if_asked(prepared: dict[str, Prepared], text: str, tmp_path: Path) -> None:
    def in_order(found: Prepared) -> float:
        mask, hits = found.context.text.sentinels[0], []
        for source, target in pairs(found):
            rest = iter(target)
            hits.append(all(token in rest for token in source if token != mask))
        return float(np.mean(hits))

    assert in_order(prepared["denoise"]) < 0.7
    assert in_order(made("denoise", tmp_path / "run", text, "objective.permute=false")) == 1.0


@pytest.mark.parametrize("name", OBJECTIVES)
def test_batches_resume(name: str, prepared: dict[str, Prepared]) -> None:
    assert_resumes(prepared[name])


def test_all_objectives_read_the_same_text(prepared: dict[str, Prepared]) -> None:
    fingerprints = {found.context.text.fingerprint for found in prepared.values()}
    streams = {tuple(found.train.values("ids").tolist()) for found in prepared.values()}
    assert len(fingerprints) == len(streams) == 1


@pytest.mark.parametrize("name", ["prefix-lm", "plain-lm"])
def test_a_language_model_trains_to_a_folder(name: str, text: str, tmp_path: Path) -> None:
    asked = [f"out={tmp_path / 'run'}", f"data.train={json.dumps([text])}", f"task={name}", "train.workers=1"]
    said: list[Any] = []
    assert run_recipe(read_recipe("pretrain-t5", asked, debug=True), device="cpu", say=said.append).reason == "done"
    assert qkv.load(tmp_path / "run", device="cpu").describe()["stored_as"] == "t5"


def test_settings_out_of_range_are_refused(text: str, tmp_path: Path) -> None:
    allowed = r"objective.rate must be from 0 to 1 and objective.mean_length at least 1, got"
    with pytest.raises(UsageError, match=f"{allowed} 1.5 and 3"):
        made("spans", tmp_path / "a", text, "objective.rate=1.5")
    with pytest.raises(UsageError, match=f"{allowed} 0.3 and 0.5"):
        made("denoise", tmp_path / "b", text, "objective.mean_length=0.5")
    with pytest.raises(UsageError, match=r"unknown key of TargetLoss 'objective.rate'"):
        made("prefix-lm", tmp_path / "c", text, "objective.rate=0.5")
    with pytest.raises(UsageError, match="needs an encoder-decoder"):
        made("plain-lm", tmp_path / "d", text, "model.preset=gpt2", "model.set={}")
