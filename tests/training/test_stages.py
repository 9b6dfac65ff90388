"""Short windows first, long ones later: as an order, in a task, and in a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from qkv.common.errors import UsageError
from qkv.data.loaders import Loader
from qkv.data.order import WindowSampler
from qkv.data.packing import Staged, TwoWindows, Windows
from qkv.data.phrasebook import phrasebook
from qkv.data.store import Store
from qkv.recipes.schema import Recipe, read_recipe
from qkv.runs.run import check, job_of, prepare
from qkv.tasks.language import framed

SIZES = st.integers(1, 9)


@given(SIZES, SIZES, SIZES, st.integers(1, 12), st.integers(0, 5))
def test_the_order_is_one_after_the_other(few: int, many: int, windows: int, batches: int, seed: int) -> None:
    """Whole epochs of each part meet each of its windows once, and any position can be gone on from."""
    short = WindowSampler(windows * many, windows=windows, seed=seed)
    long = WindowSampler(few, windows=1, seed=seed + 1)
    first = windows * many + 1  # a window that is not full comes before
    whole = Staged(short, long, first)
    staged = whole.over(batches)
    switch = round(0.9 * batches)
    picks, position = [], 0
    for number in range(switch + 2 * few):
        assert whole.batch(number).rows.tolist() == short.batch(number).rows.tolist()
        picks.append(staged.batch(position))
        assert staged.epoch_of(position) == picks[-1].epoch == int(staged.fraction(position) + 1e-9)
        position = picks[-1].next_position
    assert position == switch + 2 * few
    assert [p.rows.tolist() for p in picks[:switch]] == [short.batch(i).rows.tolist() for i in range(switch)]
    later = [int(row) - first for pick in picks[switch:] for row in pick.rows]
    assert sorted(later[:few]) == sorted(later[few:]) == list(range(few))
    shares = [staged.fraction(number) for number in range(position)]
    assert shares == sorted(shares)


def test_numbers_behind_the_short_windows_are_long_ones(tmp_path: Path) -> None:
    store = Store.write(tmp_path, ({"ids": np.arange(n)} for n in (7, 5, 12)), key="k")
    short, long = (Windows(store, "ids", length=length) for length in (4, 8))
    both = TwoWindows(short, long)
    for part, first in ((short, 0), (long, short.tokens)):
        for start in range(part.tokens):
            (values, sizes), (wanted, pieces) = both.gather([first + start]), part.gather([start])
            assert values.tolist() == wanted.tolist()
            assert sizes.tolist() == pieces.tolist()


def recipe_of(out: Path, *changes: str, name: str = "pretrain-bert") -> Recipe:
    text = out.parent / "text.txt"
    text.write_text("\n".join(" ".join(a for a, _ in phrasebook(40, seed)) for seed in range(4)) + "\n")
    asked = [f"out={out}", f"data.train={json.dumps([str(text)])}", "data.held_out=0.3", "train.tokens=256"]
    return read_recipe(name, [*asked, *changes], debug=True)


def longest(batch: Any) -> int:
    return int(batch.tokens.layout.max_length)


@pytest.mark.parametrize("name", ["pretrain-bert", "pretrain-electra"])
def test_a_run_reads_short_windows_for_nine_tenths_of_its_steps(name: str, tmp_path: Path) -> None:
    recipe = recipe_of(tmp_path / "run", "train.steps=10", "train.accumulate=2", name=name)
    prepared = prepare(recipe, tmp_path / "run", lambda _: None)
    job = job_of(recipe, prepared, prepared.model, lambda _: None)
    found = job.batches(0)
    read = [next(found) for _ in range(20)]
    assert [longest(batch) for batch, _ in read] == [16] * 18 + [32] * 2
    assert all(batch.tokens.layout.num_rows == 256 for batch, _ in read)
    again = job.batches(read[17][1])  # the first long batch, gone on to
    assert torch.equal(next(again)[0].tokens.ids, read[18][0].tokens.ids)
    assert job.valid is not None
    assert {longest(batch) for batch in job.valid()} == {16}
    for one in (found, again):
        one.close()  # type: ignore[attr-defined]


def test_windows_that_are_not_shorter_are_no_stage(tmp_path: Path) -> None:
    for number, change in enumerate(("data.short=32", "data.short=0", "data.short=900")):
        folder = tmp_path / str(number)
        folder.mkdir()
        prepared = prepare(recipe_of(folder / "run", change), folder / "run", lambda _: None)
        task, context, store = prepared.task, prepared.context, prepared.train
        sampler = task.sampler(store, context, tokens=256, seed=1, shuffle=True)
        assert isinstance(sampler, WindowSampler)
        (batch, _), *_ = Loader(sampler, task.collate(store, context), workers=0, epochs=1).iterate()
        assert longest(batch) == 32


@pytest.mark.parametrize("name", ["pretrain-bert", "pretrain-gpt"])
def test_short_windows_teach_all_learned_positions(name: str, tmp_path: Path) -> None:
    """Pieces stand anywhere in the long window, every other one at its beginning; long windows leave no choice."""
    stages = ["data.short=16", "data.max_length=32", "train.steps=20"]
    recipe = recipe_of(tmp_path / "run", *stages, name=name)
    prepared = prepare(recipe, tmp_path / "run", lambda _: None)
    found = job_of(recipe, prepared, prepared.model, lambda _: None).batches(0)
    read = [next(found)[0].tokens for _ in range(20)]
    found.close()  # type: ignore[attr-defined]
    starts, met = list[int](), set[int]()
    for tokens in read:
        for piece, length in zip(
            tokens.positions.split(tokens.layout.host_lengths), tokens.layout.host_lengths, strict=True
        ):
            assert (piece == piece[0] + torch.arange(length)).all()
            assert 0 <= int(piece[0]) <= 32 - length
            if length == 16:
                starts.append(int(piece[0]))
                met.update(piece.tolist())
    assert met == set(range(32))
    assert 0.4 < sum(start == 0 for start in starts) / len(starts) < 0.7
    last = read[-1]
    whole = [piece for piece in last.positions.split(last.layout.host_lengths) if len(piece) == 32]
    assert whole
    assert {int(piece[0]) for piece in whole} == {0}


@pytest.mark.parametrize("change", ["data.short=0", 'model.set={position={name="rotary"}}'])
def test_without_stages_or_learned_positions_every_piece_begins_at_the_first(change: str, tmp_path: Path) -> None:
    recipe = recipe_of(tmp_path / "run", change)
    prepared = prepare(recipe, tmp_path / "run", lambda _: None)
    found = job_of(recipe, prepared, prepared.model, lambda _: None).batches(0)
    assert next(found)[0].tokens.positions is None
    found.close()  # type: ignore[attr-defined]


def test_pairs_of_sentences_have_no_stages(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"data.short is for packed windows .*, not for masked with these settings"):
        check(recipe_of(tmp_path / "run", "objective.next_sentence=true"))


@pytest.mark.parametrize("name", ["pretrain-bert", "pretrain-electra"])
def test_every_piece_begins_and_ends_as_a_text_does(name: str, tmp_path: Path) -> None:
    recipe = recipe_of(tmp_path / "run", name=name)
    prepared = prepare(recipe, tmp_path / "run", lambda _: None)
    found = job_of(recipe, prepared, prepared.model, lambda _: None).batches(0)
    batch, specials = next(found)[0], prepared.context.text.specials
    found.close()  # type: ignore[attr-defined]
    pieces = batch.tokens.ids.split(batch.tokens.layout.host_lengths)
    assert sum(len(piece) > 2 for piece in pieces) > 10
    for piece in pieces:
        if len(piece) > 2:
            assert (int(piece[0]), int(piece[-1])) == (specials["cls"], specials["sep"])
    assert not set(batch.wanted.tolist()) & {specials["cls"], specials["sep"]}  # none of them is asked for


@given(st.lists(st.integers(1, 5), min_size=1, max_size=9))
def test_a_frame_takes_the_place_of_two_tokens_at_most(lengths: list[int]) -> None:
    flat, sizes = np.arange(10, 10 + sum(lengths)), np.array(lengths)
    before, last = flat.copy(), np.cumsum(sizes) - 1
    found = framed(flat, sizes, {"cls": 1, "sep": 2})
    assert (flat == before).all()
    for first, length in zip(last - sizes + 1, lengths, strict=True):
        piece, was = found[first : first + length].tolist(), flat[first : first + length].tolist()
        assert piece == (was if length < 3 else [1, *was[1:-1], 2])
    assert framed(flat, sizes, {"cls": 1}) is flat
