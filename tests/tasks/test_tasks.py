"""Pairs of sentences, repairs, mixtures and BPE-dropout: their batches, and their recipes from files to a folder."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import qkv
from qkv.common.batch import Masked, Translated
from qkv.common.errors import QkvError, UsageError
from qkv.data.loaders import Loader
from qkv.data.order import BucketSampler, WindowSampler
from qkv.data.phrasebook import phrasebook
from qkv.data.store import Store
from qkv.recipes.reference import MIXTURE
from qkv.recipes.schema import Recipe, read_recipe
from qkv.runs.run import Prepared, check, job_of, prepare, run_recipe
from qkv.tasks.masked import elsewhere, grouped, halves
from qkv.tasks.mixed_order import MixedSampler
from qkv.tasks.mixed_tables import tables_of
from tests.runs.killing import cut_off

PAIRS = list(phrasebook(240, 5))


@dataclass(frozen=True)
class Made:
    """Files of every kind that is needed here."""

    folder: Path

    def __getitem__(self, name: str) -> str:
        return str(self.folder / name)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("data")
    english, french = [a for a, _ in PAIRS], [b for _, b in PAIRS]
    blocks = ["\n".join(english[i : i + 6]) for i in range(0, len(english), 6)]  # documents of six sentences
    (folder / "blocks.txt").write_text("\n\n".join(blocks) + "\n")
    (folder / "one-liners.txt").write_text("\n".join(text.strip(".!?") for text in english) + "\n")
    (folder / "text.en").write_text("\n".join(english) + "\n")
    (folder / "text.fr").write_text("\n".join(french) + "\n")
    rows = [f"{a}\t{'the' if ' the ' in a else 'not'}" for a in english]
    (folder / "table.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
    return Made(folder)


def recipe_of(name: str, out: Path, train: list[str], *changes: str) -> Recipe:
    asked = [f"out={out}", f"data.train={json.dumps(train)}", "train.workers=1", *changes]
    return read_recipe(name, asked, debug=True)


def made(name: str, out: Path, train: list[str], *changes: str) -> tuple[Recipe, Prepared]:
    recipe = recipe_of(name, out, train, *changes)
    check(recipe)
    out.mkdir()
    return recipe, prepare(recipe, out, lambda line: None)


def run(recipe: Recipe, *, resume: bool = False) -> Any:
    return run_recipe(recipe, resume=resume, device="cpu", say=lambda line: None)


def loader(prepared: Prepared, store: Store, *, tokens: int = 400, workers: int = 0, train: bool = True) -> Loader[Any]:
    task, context = prepared.task, prepared.context
    sampler = task.sampler(store, context, tokens=tokens, seed=3, shuffle=train)
    return Loader(sampler, task.collate(store, context), workers=workers, epochs=None if train else 1)


def batches(loader: Loader[Any], count: int, position: int = 0) -> list[tuple[Any, int]]:
    found = loader.iterate(position)
    try:
        return [next(found) for _ in range(count)]
    finally:
        found.close()


def tensors(batch: Any) -> list[torch.Tensor]:
    """All numbers of a batch, in order."""
    if isinstance(batch, torch.Tensor):
        return [batch]
    inner = batch.values() if isinstance(batch, dict) else vars(batch).values() if hasattr(batch, "__dict__") else ()
    return [tensor for part in inner for tensor in tensors(part)]


def same(a: Any, b: Any) -> bool:
    found = tensors(a), tensors(b)
    return len(found[0]) == len(found[1]) > 0 and all(map(torch.equal, *found))


def assert_resumes(prepared: Prepared, count: int = 6) -> None:
    """From each position on the same batches come, whoever makes them; and batches differ from one another."""
    whole = batches(loader(prepared, prepared.train), count)
    assert not same(whole[0][0], whole[1][0])
    position = whole[2][1]
    again = batches(loader(prepared, prepared.train, workers=3), count - 3, position)
    assert [after for _, after in again] == [after for _, after in whole[3:]]
    assert all(same(a, b) for (a, _), (b, _) in zip(again, whole[3:], strict=True))


# Next sentences

PAIRED = (
    "objective.next_sentence=true",
    "data.unit=blank",
    "data.max_length=48",
    "data.short=0",
    "data.held_out=0.1",
)


@pytest.fixture(scope="module")
def paired(files: Made, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return made("pretrain-bert", tmp_path_factory.mktemp("nsp") / "run", [files["blocks.txt"]], *PAIRED)[1]


def restored(batch: Masked) -> torch.Tensor:
    ids = batch.tokens.ids.clone()
    ids[batch.rows] = batch.wanted
    return ids


def written(files: Made, text: Any) -> str:
    """Return the ids of the documents, with blanks around each."""
    blocks = Path(files["blocks.txt"]).read_text().strip().split("\n\n")
    whole = [[i for ids in text.encode(block.split("\n")).ids for i in ids[1:-1]] for block in blocks]
    return "|".join(" ".join(["", *map(str, ids), ""]) for ids in whole)


def test_pairs_are_well_formed_and_half_of_them_are_true(files: Made, paired: Prepared) -> None:
    text = paired.context.text
    cls, sep, special = text.specials["cls"], text.specials["sep"], set(text.specials.values())
    documents = written(files, text)
    labels: list[int] = []
    seen = [batch for batch, _ in batches(loader(paired, paired.train), 40)]
    for batch in seen:
        assert batch.pairs is not None
        assert abs(int(batch.pairs.sum()) * 2 - len(batch.pairs)) <= 1
        assert not special & set(batch.wanted.tolist())
        layout, asked = batch.tokens.layout, set(batch.rows.tolist())
        assert len(asked) == len(batch.wanted) > 0
        for ids, kinds, label in zip(
            layout.split(restored(batch)), layout.split(batch.tokens.segments), batch.pairs.tolist(), strict=True
        ):
            assert len(ids) <= 48
            first = ids.tolist().index(sep)
            assert ids[0] == cls
            assert ids[-1] == sep
            assert (ids == sep).sum() == 2
            assert (ids == cls).sum() == 1
            assert kinds.tolist() == [0] * (first + 1) + [1] * (len(ids) - first - 1)
            halves = [ids[1:first].tolist(), ids[first + 1 : -1].tolist()]
            assert all(halves)
            assert all(" " + " ".join(map(str, half)) + " " in documents for half in halves)
            follows = " " + " ".join(map(str, halves[0] + halves[1])) + " " in documents
            assert follows or label == 1
            labels.append(int(not follows))  # by the texts themselves
    assert 0.45 < np.mean(labels) < 0.55
    masks = sum(int((batch.tokens.ids == text.specials["mask"]).sum()) for batch in seen)
    assert 0.6 < masks / sum(len(batch.wanted) for batch in seen) < 0.95


def test_pairs_resume(paired: Prepared) -> None:
    assert_resumes(paired)


@given(
    st.lists(st.integers(1, 5), min_size=2, max_size=12).filter(lambda sizes: len(sizes) > 1), st.integers(0, 1 << 30)
)
def test_another_half_never_comes_from_the_same_document(sizes: list[int], seed: int) -> None:
    owners = np.repeat(np.arange(len(sizes)) * 3, sizes)
    rows = np.arange(len(owners))
    drawn = elsewhere(owners, rows, np.random.default_rng(seed))
    assert ((drawn >= 0) & (drawn < len(owners))).all()
    assert (owners[drawn] != owners[rows]).all()


def test_every_row_elsewhere_is_drawn_alike() -> None:
    owners = np.array([0, 0, 4, 4, 4, 9])
    drawn = elsewhere(owners, np.full(30_000, 3), np.random.default_rng(0))
    counts = Counter(drawn.tolist())
    assert counts.keys() == {0, 1, 5}
    assert all(abs(count - 10_000) < 500 for count in counts.values())


@given(st.lists(st.integers(1, 10), max_size=20), st.integers(20, 40), st.integers(0, 99))
def test_groups_keep_the_order_and_fit(sizes: list[int], room: int, seed: int) -> None:
    sentences = [np.full(size, number) for number, size in enumerate(sizes)]
    groups = list(grouped(sentences, room, np.random.default_rng(seed)))
    assert all(len(group) > 1 and sum(map(len, group)) <= room for group in groups)
    told = [int(sentence[0]) for group in groups for sentence in group]
    assert told == list(range(len(told)))
    assert len(told) >= len(sizes) - 1


def test_some_groups_are_short() -> None:
    groups = list(grouped([np.zeros(1)] * 100_000, 100, np.random.default_rng(0)))
    short = [len(group) for group in groups if len(group) < 100]
    assert 0.08 < len(short) / len(groups) < 0.12
    assert 45 < np.mean(short) < 57  # any length is as likely


groups = st.lists(st.lists(st.integers(1, 9), min_size=2, max_size=6), min_size=1, max_size=5)


@given(groups, st.data())
def test_what_fits_is_whole_sentences(
    tmp_path_factory: pytest.TempPathFactory, groups: list[list[int]], data: st.DataObject
) -> None:
    """Tokens are numbers that rise, so that they say themselves where they are from."""
    first = np.cumsum([0, *map(sum, groups)])
    rows = [{"ids": np.arange(first[i], first[i + 1]), "sentences": sizes} for i, sizes in enumerate(groups)]
    store = Store.write(tmp_path_factory.mktemp("store") / "s", rows, key="")
    asked = np.array(data.draw(st.lists(st.integers(0, len(groups) - 1), min_size=1, max_size=6)))
    space = np.array([data.draw(st.integers(1, 40)) for _ in asked])
    found = halves(store, asked, space, np.random.default_rng(data.draw(st.integers(0, 99))))
    for group, room, (start, cut), (second, size) in zip(asked, space, *found, strict=True):
        ends = np.cumsum(groups[group]).tolist()
        assert start == first[group]
        assert cut in ends[:-1]
        assert second == start + cut
        assert size == max([end - cut for end in ends if cut < end <= cut + room], default=room)


def test_next_sentences_train_to_a_folder_that_transformers_reads(files: Made, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    changes = (*PAIRED, "train.tokens=500", "train.steps=4", "train.save_every=2")
    run(recipe_of("pretrain-bert", tmp_path / "run", [files["blocks.txt"]], *changes))
    line = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    assert {"valid_mlm", "valid_nsp", "valid_nsp.correct"} <= line.keys()
    assert line["valid_loss"] == pytest.approx(line["valid_mlm"] + line["valid_nsp"])
    ours = qkv.load(tmp_path / "run", device="cpu")
    assert set(ours.config.heads) == {"mlm", "nsp"} | ({"pool"} & set(ours.config.heads))
    theirs = transformers.BertForPreTraining.from_pretrained(tmp_path / "run").eval()
    encoded = ours.encode(["The dog sleeps."], ["A cat eats."])
    with torch.no_grad():
        wanted = theirs(
            input_ids=torch.tensor(encoded.ids), token_type_ids=torch.tensor(encoded.segments)
        ).seq_relationship_logits[0]
    found = ours.logits(encoded.ids, segments=encoded.segments, head="nsp")[0]
    assert torch.allclose(found, wanted, atol=1e-5)


def test_texts_without_pairs_are_refused(files: Made, tmp_path: Path) -> None:
    lines = [files["one-liners.txt"]]
    with pytest.raises(UsageError, match="has no document with two sentences, as pairs need"):
        made("pretrain-bert", tmp_path / "a", lines, "objective.next_sentence=true", "data.short=0")
    with pytest.raises(UsageError, match=r"sentence pairs need at least 5 tokens, got data.max_length 4"):
        made("pretrain-bert", tmp_path / "b", [files["blocks.txt"]], *PAIRED, "data.max_length=4")
    with pytest.raises(UsageError, match="need a model with num_segments = 2, but this one has 1"):
        made("pretrain-bert", tmp_path / "c", [files["blocks.txt"]], *PAIRED, "model.set.num_segments=1")
    whole = (*PAIRED, "data.unit=file", f"data.valid={files['text.en']}")
    _, one = made("pretrain-bert", tmp_path / "d", [files["text.en"]], *whole)
    with pytest.raises(UsageError, match="needs at least two documents with two sentences each, but the train"):
        one.task.collate(one.train, one.context)
    with pytest.raises(UsageError, match="rate takes a number, got 'much'"):
        made("pretrain-bert", tmp_path / "e", [files["blocks.txt"]], "objective.rate=much")


@pytest.mark.parametrize("name", ["pretrain-bert", "pretrain-electra"])
def test_pairs_without_a_question_follow_each_other(name: str, files: Made, tmp_path: Path) -> None:
    changes = ("objective.pairs=true", *PAIRED[1:], "train.tokens=500", "train.steps=4")
    _, found = made(name, tmp_path / "data", [files["blocks.txt"]], *changes)
    text = found.context.text
    documents = written(files, text)
    for batch, _ in batches(loader(found, found.train), 5):
        assert batch.pairs is None
        layout = batch.tokens.layout
        for ids, kinds in zip(layout.split(restored(batch)), layout.split(batch.tokens.segments), strict=True):
            plain = [i for i in ids.tolist() if i not in (text.specials["cls"], text.specials["sep"])]
            assert len(plain) == len(ids) - 3
            assert " " + " ".join(map(str, plain)) + " " in documents
            assert {*kinds.tolist()} == {0, 1}
    assert run(recipe_of(name, tmp_path / "run", [files["blocks.txt"]], *changes)).finished
    assert "nsp" not in qkv.load(tmp_path / "run", device="cpu").config.heads


def test_electra_asks_nothing_about_pairs_and_needs_two_segments(files: Made, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"unknown key of ReplacedSettings 'objective.next_sentence'"):
        made("pretrain-electra", tmp_path / "a", [files["blocks.txt"]], *PAIRED)
    changes = ("objective.pairs=true", *PAIRED[1:], "model.set.num_segments=1")
    with pytest.raises(UsageError, match="need a model with num_segments = 2, but this one has 1"):
        made("pretrain-electra", tmp_path / "b", [files["blocks.txt"]], *changes)
    with pytest.raises(UsageError, match=r"data.short is for packed windows .*, not for replaced with these settings"):
        made("pretrain-electra", tmp_path / "c", [files["blocks.txt"]], "objective.pairs=true")


# Repairs


@pytest.fixture(scope="module")
def denoise(files: Made, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    out = tmp_path_factory.mktemp("denoise") / "run"
    return made(
        "pretrain-t5", out, [files["blocks.txt"]], "task=denoise", "objective.permute=false", "data.unit=blank"
    )[1]


def test_holes_are_in_the_source_and_the_target_is_the_text(denoise: Prepared) -> None:
    text = denoise.context.text
    end, mask, start = text.specials["end"], text.sentinels[0], denoise.context.config.start_id
    stream = denoise.train.values("ids").tolist()
    joined = ",".join(map(str, stream))
    shown = asked = 0
    for batch, _ in batches(loader(denoise, denoise.train), 12):
        assert isinstance(batch, Translated)
        sources = batch.pairs.source.layout.split(batch.pairs.source.ids)
        layout = batch.pairs.target.layout
        for source, read, wanted in zip(
            sources, layout.split(batch.pairs.target.ids), layout.split(batch.wanted), strict=True
        ):
            body = wanted[:-1].tolist()
            assert wanted[-1] == source[-1] == end
            assert end not in body
            assert read.tolist() == [start, *body]
            assert max(len(source), len(wanted)) <= 32
            assert ",".join(map(str, body)) in joined  # what is said stands in the texts
            kept = source[:-1][source[:-1] != mask].tolist()
            rest = iter(body)
            assert all(token in rest for token in kept)  # and what is read is a part of it, in order
            assert mask not in body
            assert len(kept) == len(body) - (max(1, round(0.3 * len(body))) if body else 0)
            shown, asked = shown + len(kept), asked + len(body)
    assert 0.25 < 1 - shown / asked < 0.35


def test_repairs_resume(denoise: Prepared) -> None:
    assert_resumes(denoise)


@pytest.mark.parametrize("preset", ["t5", "transformer-tiny"])
def test_denoising_trains(preset: str, files: Made, tmp_path: Path) -> None:
    changes = ["task=denoise", "objective.rate=0.5"]
    changes += [] if preset == "t5" else [f"model.preset={preset}", "model.set={max_length=32}"]
    assert run(recipe_of("pretrain-t5", tmp_path / "run", [files["text.en"]], *changes)).reason == "done"
    assert len(qkv.load(tmp_path / "run", device="cpu").translate(["The dog sleeps."])) == 1


def test_repairs_need_a_decoder_and_a_mask(files: Made, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs an encoder-decoder"):
        made("pretrain-bert", tmp_path / "a", [files["text.en"]], "task=denoise", "objective={}", "model.set={}")
    translator = tmp_path / "translator"
    run(recipe_of("translate", translator, [files["text.en"], files["text.fr"]], "train.steps=1"))
    start = ("task=denoise", "model.preset=", f"model.init={translator}", "model.set={}")
    _, found = made("pretrain-t5", tmp_path / "b", [files["text.en"]], *start)
    with pytest.raises(UsageError, match="needs a tokenizer with a mask token or sentinels"):
        found.task.collate(found.train, found.context)
    with pytest.raises(UsageError, match=r"unknown key of DenoiseSettings 'objective.holes'"):
        check(recipe_of("pretrain-t5", tmp_path / "c", [files["text.en"]], "task=denoise", "objective.holes=1"))


# Mixtures

MIX = (
    "task=mixture",
    "objective={}",
    'data.mix.masked.files=["*.txt"]',
    "data.mix.masked.unit=blank",
    "data.mix.classify.files=*.tsv",
    "objective.mix.masked.weight=1.0",
    "objective.mix.masked.rate=0.2",
    "objective.mix.classify.weight=0.5",
    "data.held_out=0.2",
    "data.short=0",
    "train.tokens=256",
)


@pytest.fixture(scope="module")
def mixed(files: Made, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    out = tmp_path_factory.mktemp("mix") / "run"
    return made("pretrain-bert", out, [files["blocks.txt"], files["table.tsv"]], *MIX)[1]


def test_each_step_has_a_batch_of_each_part(mixed: Prepared) -> None:
    text, rows = mixed.context.text, dict(Counter[str]())
    tsv = {a: "the" if " the " in a else "not" for a, _ in PAIRS}
    said = {tuple(text.encode([a], max_length=32).ids[0]): label for a, label in tsv.items()}
    for batch, _ in batches(loader(mixed, mixed.train), 5):
        assert list(batch) == ["classify", "masked"]
        assert batch["masked"].tokens.layout.num_rows == 192  # six windows of 32: half of 400
        labelled = batch["classify"]
        assert labelled.inputs.layout.num_rows <= 200
        for ids, label in zip(labelled.inputs.layout.split(labelled.inputs.ids), labelled.labels.tolist(), strict=True):
            assert said[tuple(ids.tolist())] == mixed.context.labels[label]
            rows[label] = rows.get(label, 0) + 1
    assert set(rows) == {0, 1}


def test_a_mixture_resumes(mixed: Prepared) -> None:
    assert_resumes(mixed)


def test_validation_meets_every_example_once(mixed: Prepared) -> None:
    found = [batch for batch, _ in loader(mixed, mixed.valid, train=False).iterate()]
    classified = sum(len(batch["classify"].labels) for batch in found if "classify" in batch)
    assert classified == len(mixed.valid["classify"]) > 0
    windows = sum(batch["masked"].tokens.layout.num_rows for batch in found if "masked" in batch)
    stream = len(mixed.valid["masked"].values("ids"))
    assert 0 < windows <= stream


@settings(max_examples=30)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=30),
    st.integers(3, 40),
    st.integers(0, 1 << 20),
    st.booleans(),
)
def test_a_mixed_order_is_its_parts_side_by_side(lengths: list[int], windows: int, seed: int, once: bool) -> None:
    parts = (
        BucketSampler(np.array(lengths), tokens=12, seed=seed, shuffle=not once, pool=8),
        WindowSampler(windows, windows=3, seed=seed, shuffle=not once),
    )
    mixed, alone, position = MixedSampler(parts, once=once), [0, 0], 0
    for _ in range(25):
        pick = mixed.batch(position)
        theirs = [part.batch(place) for part, place in zip(parts, alone, strict=True)]
        for number, their in enumerate(theirs):
            mine = pick.rows[pick.rows[:, 0] == number, 1]
            live = not once or their.epoch == 0
            assert mine.tolist() == (their.rows.tolist() if live else [])
            alone[number] = their.next_position if live else alone[number]
        assert pick.epoch == min(their.epoch for their in theirs) == mixed.epoch_of(position)
        assert json.loads(json.dumps(pick.next_position)) == pick.next_position
        position = pick.next_position
        assert mixed.fraction(position) == min(p.fraction(place) for p, place in zip(parts, alone, strict=True))


def test_a_mixture_trains_and_resumes_bit_for_bit(files: Made, tmp_path: Path) -> None:
    changes = (*MIX, "train.steps=6", "train.save_every=2", "train.keep=100", "train.validate_every=3")
    changes = (*changes, "train.keep_checkpoints=true")
    train = [files["blocks.txt"], files["table.tsv"]]
    for name in ("whole", "cut"):
        run(recipe_of("pretrain-bert", tmp_path / name, train, *changes))
    cut_off(tmp_path / "cut", 4, 6)
    run(recipe_of("pretrain-bert", tmp_path / "cut", train, *changes), resume=True)
    a, b = (qkv.load(tmp_path / name, device="cpu") for name in ("whole", "cut"))
    assert all(torch.equal(x, b.module.state_dict()[name]) for name, x in a.module.state_dict().items())
    assert set(a.config.heads) >= {"mlm", "classify"}
    assert a.labels == ("not", "the")
    lines = [json.loads(line) for line in (tmp_path / "whole" / "metrics.jsonl").read_text().splitlines()]
    valid = next(line for line in reversed(lines) if "valid_loss" in line)
    expected = valid["valid_masked/mlm"] + 0.5 * valid["valid_classify/classify"]
    assert valid["valid_loss"] == pytest.approx(expected)
    assert valid["valid_loss"] > 0.5


@pytest.mark.parametrize("answerable", [True, False])
def test_a_reader_of_a_mixture_knows_whether_an_answer_may_be_missing(
    files: Made, tmp_path: Path, answerable: bool
) -> None:
    def question(number: int) -> dict[str, Any]:
        answers = [{"text": "red cat", "answer_start": 4}] if answerable or number % 2 else []
        return {"question": f"Who is number {number}?", "context": f"the red cat is {number}", "answers": answers}

    asked = tmp_path / "asked.jsonl"
    asked.write_text("".join(json.dumps(question(number)) + "\n" for number in range(20)))
    changes = (*MIX, "data.mix.answer.files=*.jsonl", "objective.mix.answer.weight=1.0", "train.steps=1")
    run(recipe_of("pretrain-bert", tmp_path / "run", [files["blocks.txt"], files["table.tsv"], str(asked)], *changes))
    said = qkv.load(tmp_path / "run", device="cpu").no_answer
    assert said is (not answerable)


def test_pairs_in_a_mixture_need_two_segments_too(files: Made, tmp_path: Path) -> None:
    changes = (*MIX, "objective.mix.masked.pairs=true", "model.set.num_segments=1")
    with pytest.raises(UsageError, match="need a model with num_segments = 2, but this one has 1"):
        made("pretrain-bert", tmp_path / "run", [files["blocks.txt"], files["table.tsv"]], *changes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("objective.mix.mask.weight=1", "unknown part of a mixture 'mask'; did you mean 'masked'"),
        ("objective.mix.masked.weight=-1", "objective.mix.masked.weight must be a number of at least 0, got -1"),
        ("objective.mix.classify.head2=a", "unknown key of Classify 'objective.head2'"),
        ("objective.rate=0.1", "unknown key of a mixture's objective 'rate'"),
        ("data.mix.masked.files=text", "data.mix.masked.files matches none of"),
        ("data.mix.masked.files=3", "data.mix.masked.files takes file names or patterns"),
        ("data.mix.masked.held_out=0.5", "unknown key of data.mix 'held_out'"),
        ("data.mix.causal.files=[blocks.txt]", "they must name the same parts"),
        ("data.mix={}", "a mixture needs a table for each part in data.mix; parts can be text-to-text, "),
    ],
)
def test_mixtures_that_cannot_be_are_refused(change: str, message: str, files: Made, tmp_path: Path) -> None:
    changes = [c for c in MIX if not (change == "data.mix={}" and c.startswith("data.mix"))]
    table = [files["blocks.txt"], files["table.tsv"]]
    with pytest.raises(QkvError) as raised:
        made("pretrain-bert", tmp_path / "run", table, *changes, "data.label=label", change)
    assert message in str(raised.value)


def test_parts_are_in_the_order_of_their_names() -> None:
    assert list(tables_of({"b": {"x": 1}, "a": {}}, "here", ["a", "b"])) == ["a", "b"]


# BPE-dropout


@pytest.fixture(scope="module")
def dropping(files: Made, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    out = tmp_path_factory.mktemp("dropout") / "run"
    train = [files["text.en"], files["text.fr"]]
    return made("translate", out, train, "data.dropout=0.3", "data.held_out=0.2", "data.max_length=40")[1]


def sentences(prepared: Prepared, batch: Translated) -> list[tuple[list[int], list[int]]]:
    pairs = batch.pairs
    read = pairs.target.layout.split(pairs.target.ids)
    wanted = pairs.target.layout.split(batch.wanted)
    start = prepared.context.config.start_id
    assert all(r[0] == start and torch.equal(r[1:], w[:-1]) for r, w in zip(read, wanted, strict=True))
    sources = pairs.source.layout.split(pairs.source.ids)
    return [(source.tolist(), target.tolist()) for source, target in zip(sources, wanted, strict=True)]


def test_dropped_merges_decode_to_the_same_text(dropping: Prepared) -> None:
    text, end = dropping.context.text, dropping.context.text.specials["end"]
    known, splits = set(PAIRS), dict[str, set[tuple[int, ...]]]()
    for batch, _ in batches(loader(dropping, dropping.train), 60):
        for source, target in sentences(dropping, batch):
            assert source[-1] == target[-1] == end
            assert max(len(source), len(target)) <= 40
            pair = (text.decode(source), text.decode(target))
            assert pair in known
            splits.setdefault(pair[0], set()).add(tuple(source))
    several = [len(found) for found in splits.values()]
    assert np.mean(np.array(several) > 1) > 0.5  # the same text comes in other pieces


def test_validation_is_never_dropped(dropping: Prepared) -> None:
    text = dropping.context.text
    for batch, _ in loader(dropping, dropping.valid, train=False).iterate():
        for source, target in sentences(dropping, batch):
            assert text.encode([text.decode(source), text.decode(target)]).ids == [source, target]


def test_dropout_resumes(dropping: Prepared) -> None:
    assert_resumes(dropping)


def test_dropout_is_drawn_from_the_batch_s_own_generator(dropping: Prepared) -> None:
    make, rows = dropping.task.collate(dropping.train, dropping.context), np.arange(20)
    a, b, c = (make(rows, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert same(a, b)
    assert not same(a, c)


def test_a_text_that_would_be_too_long_stays_as_it_was(files: Made, tmp_path: Path) -> None:
    train = [files["text.en"], files["text.fr"]]
    _, found = made("translate", tmp_path / "run", train, "data.dropout=1.0", "data.max_length=18", "data.held_out=0.3")
    text, both = found.context.text, Counter[bool]()
    for batch, _ in batches(loader(found, found.train), 20):
        for source, target in sentences(found, batch):
            for ids in (source, target):
                plain = text.encode([text.decode(ids)]).ids[0]
                letters = text.encode([text.decode(ids)], dropout=1.0, seed=0).ids[0]
                assert ids == (letters if len(letters) <= 18 else plain)
                both[len(letters) <= 18] += 1
    assert both[False] > 0


def test_dropout_trains(files: Made, tmp_path: Path) -> None:
    train = [files["text.en"], files["text.fr"]]
    for name, workers in (("a", 1), ("b", 3)):
        run(recipe_of("translate", tmp_path / name, train, "data.dropout=0.1", f"train.workers={workers}"))
    a, b = (qkv.load(tmp_path / name, device="cpu").module.state_dict() for name in ("a", "b"))
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_dropout_needs_merges_and_a_share(files: Made, tmp_path: Path) -> None:
    train = [files["text.en"], files["text.fr"]]
    with pytest.raises(UsageError, match=r"data.dropout: dropout is for BPE tokenizers; this one is Unigram"):
        made("translate", tmp_path / "a", train, "data.dropout=0.1", "tokenizer.kind=unigram")
    with pytest.raises(UsageError, match=r"data.dropout: dropout is 1.5; it must be from 0 to 1"):
        made("translate", tmp_path / "b", train, "data.dropout=1.5")


def test_texts_to_classify_can_be_dropped_too(files: Made, tmp_path: Path) -> None:
    changes = ("model.preset=bert-tiny", "tokenizer.vocab_size=300", "data.dropout=0.3", "data.held_out=0.2")
    _, found = made("classify", tmp_path / "run", [files["table.tsv"]], *changes)
    text, splits = found.context.text, dict[str, set[tuple[int, ...]]]()
    for batch, _ in batches(loader(found, found.train), 60):
        for ids, label in zip(batch.inputs.layout.split(batch.inputs.ids), batch.labels.tolist(), strict=True):
            said = text.decode(ids.tolist())
            assert found.context.labels[label] == ("the" if " the " in said else "not")
            splits.setdefault(said, set()).add(tuple(ids.tolist()))
    assert np.mean([len(several) > 1 for several in splits.values()]) > 0.5
    assert_resumes(found)
    pairs = Path(files["table.tsv"]).with_name("pairs.tsv")
    pairs.write_text("a\tb\tlabel\n" + "one\ttwo\tx\nthree\tfour\ty\n" * 20)
    named = ("data.text=a", "data.second=b", "data.label=label")
    with pytest.raises(QkvError, match=r"pairs.tsv:\d+: data.dropout is for single texts, but this is a pair"):
        made("classify", tmp_path / "pairs", [str(pairs)], *changes, *named)


def test_words_to_tag_are_split_anew_and_keep_their_tags(tmp_path: Path) -> None:
    names = {"Lisbon": "B-LOC", "Annabel": "B-PER", "walked": "O", "slowly": "O"}
    lines = [f"{word} {tag}" for word, tag in names.items()]
    (tmp_path / "t.conll").write_text("".join("\n".join([*lines, *lines[: n % 4]]) + "\n\n" for n in range(40)))
    changes = ("model.preset=bert-tiny", "tokenizer.vocab_size=100", "data.dropout=0.5", "data.held_out=0.5")
    _, found = made("tag", tmp_path / "run", [str(tmp_path / "t.conll")], *changes)
    splits = dict[str, set[tuple[int, ...]]]()
    for batch, _ in batches(loader(found, found.train), 20):
        for ids, tags in zip(*(batch.inputs.layout.split(x) for x in (batch.inputs.ids, batch.labels)), strict=True):
            starts = [*np.flatnonzero(tags.numpy() >= 0), len(ids) - 1]
            for start, end in pairwise(starts):
                word = found.context.text.decode(ids[start:end].tolist()).strip()
                assert found.context.labels[tags[start]] == names[word]
                splits.setdefault(word, set()).add(tuple(ids[start:end].tolist()))
    assert set(splits) == set(names)
    assert all(len(several) > 1 for several in splits.values())
    assert_resumes(found)


def test_steps_are_counted_by_the_longest_part(files: Made, mixed: Prepared, tmp_path: Path) -> None:
    changes = (*MIX, "train.steps=0", "train.epochs=2", "train.tokens=120")
    recipe = recipe_of("pretrain-bert", tmp_path, [files["blocks.txt"]], *changes)
    parts = loader(mixed, mixed.train, tokens=120).sampler.parts  # type: ignore[attr-defined]
    counts = [sum(1 for _ in _epoch(part)) for part in parts]
    assert min(counts) < max(counts)
    assert job_of(recipe, mixed, mixed.model, lambda line: None).total == pytest.approx(2 * max(counts), abs=2)


def _epoch(sampler: Any) -> Iterator[int]:
    position = 0
    while (pick := sampler.batch(position)).epoch == 0:
        yield position
        position = pick.next_position


def test_the_mixture_of_the_docs_is_made_as_printed(files: Made, tmp_path: Path) -> None:
    (tmp_path / "mix.toml").write_text(MIXTURE.split("```toml\n")[1].split("```")[0])
    for name, source in (("notes.txt", "blocks.txt"), ("topics.tsv", "table.tsv")):
        shutil.copy(files[source], tmp_path / name)
    train = json.dumps([str(tmp_path / name) for name in ("notes.txt", "topics.tsv")])
    small = [f"data.train={train}", "model.preset=bert-tiny", "tokenizer.vocab_size=200", "data.max_length=32"]
    recipe = read_recipe(str(tmp_path / "mix.toml"), [*small, f"out={tmp_path / 'run'}", "data.held_out=0.2"])
    check(recipe)
    (tmp_path / "run").mkdir()
    found = prepare(recipe, tmp_path / "run", lambda line: None)
    assert found.task.objective().weights == {"classify/classify": 0.5, "masked/mlm": 1.0}
    assert set(found.train) == set(found.valid) == {"classify", "masked"}
