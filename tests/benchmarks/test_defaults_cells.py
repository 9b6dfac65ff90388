"""Packing for benchmarks/defaults.py: repeatable files, sizes that contain each other, tests apart from training."""

import gzip
import json
import random
import zipfile
from pathlib import Path

import defaults_cells as cells
import defaults_pack
import pytest

LABELS = ("no", "yes", "maybe")


def rows(count):
    draw = random.Random(3)
    return [{"text": f"text {n}", "label": draw.choice(LABELS)} for n in range(count)]


@pytest.fixture
def packed(tmp_path):
    for part, count in (("train", 400), ("test", 20)):
        cells.write_packed(tmp_path / "text" / f"sst2.{part}.jsonl.gz", rows(count))
    return tmp_path


def test_packed_files_depend_only_on_the_rows(packed, tmp_path):
    first = packed / "text/sst2.train.jsonl.gz"
    again = tmp_path / "again.jsonl.gz"
    cells.write_packed(again, cells.read_packed(first))
    assert again.read_bytes() == first.read_bytes()
    assert cells.read_packed(first) == rows(400)


def test_each_size_is_the_beginning_of_the_next(packed, tmp_path):
    small, whole = cells.find_cells(packed)  # 300 would be nearly all of 400
    assert [small.name, whole.name] == ["sst2/30", "sst2/whole"]
    assert small.rows("train") == whole.rows("train")[:30]
    assert small.rows("test") == whole.rows("test")
    assert len(small.rows("test", 7)) == 7


def test_a_recipe_reads_what_a_cell_writes(packed, tmp_path):
    from qkv.data.labelled import classified

    [path] = cells.find_cells(packed)[0].write("train", tmp_path)
    found = list(classified([path], text=None, label=None))
    assert [(one.text, one.labels[0]) for one in found] == [(row["text"], row["label"]) for row in rows(400)[:30]]


def test_pairs_and_scores_have_names_that_recipes_recognise(tmp_path):
    from qkv.data.labelled import find_columns

    for name in ("rte", "sts-b", "imdb-stars"):
        data_set = cells.DATA_SETS[name]
        row = dict.fromkeys(data_set.columns.values(), "1")
        cells.write_packed(cells.packed_file(tmp_path, data_set, "train"), [row] * 3)
        [path] = cells.Cell(name, 3, True, tmp_path).write("train", tmp_path)
        found = find_columns(path, number=data_set.recipe == "regress")
        asked = [column for column in (found.text, found.second, found.label) if column]
        assert asked == list(data_set.columns)
        assert not found.guessed


def test_translation_is_two_aligned_files(tmp_path):
    pairs = [{"en": f"dog {n}", "de": f"Hund {n}"} for n in range(5)]
    data_set = cells.DATA_SETS["multi30k-de-en"]
    cells.write_packed(cells.packed_file(tmp_path, data_set, "train"), pairs)
    source, target = cells.Cell("multi30k-de-en", 3, False, tmp_path).write("train", tmp_path)
    assert Path(source).read_text() == "Hund 0\nHund 1\nHund 2\n"
    assert Path(target).read_text() == "dog 0\ndog 1\ndog 2\n"


def test_shuffling_is_repeatable_and_keeps_groups_together():
    grouped = [{"context": n // 4, "n": n} for n in range(40)]
    once = cells.shuffled(grouped, "seed", "context")
    assert once == cells.shuffled(grouped, "seed", "context") != grouped
    assert sorted(row["n"] for row in once) == list(range(40))
    order = [row["context"] for row in once]
    assert [order[i] for i in range(0, 40, 4)] == list(dict.fromkeys(order))


def test_the_smallest_size_has_every_class():
    late = [{"label": "a", "n": n} for n in range(50)] + [{"label": "b", "n": 50}, {"label": "c", "n": 51}]
    found = cells.with_every_class(late)
    assert {row["label"] for row in found[:30]} == {"a", "b", "c"}
    assert sorted(row["n"] for row in found) == list(range(52))


def test_uneven_classes_have_the_ratio_asked_for():
    even = [{"label": name, "n": n} for n in range(100) for name in ("x", "y")]
    kept = cells.uneven(even, {"x": 20, "y": 1})
    labels = [row["label"] for row in kept]
    assert (labels.count("x"), labels.count("y")) == (100, 5)
    assert [row["n"] for row in kept] == sorted(row["n"] for row in kept)


def test_no_tatoeba_source_is_in_training_and_in_the_test_set(tmp_path, monkeypatch):
    monkeypatch.setattr(defaults_pack, "MOST_TEST", 30)
    (tmp_path / "tatoeba").mkdir()
    lines = "".join(f"sentence {n // 3}\tSatz {n}\n" for n in range(300))
    with zipfile.ZipFile(tmp_path / "tatoeba/a.zip", "w") as archive:
        archive.writestr("deu.txt", lines)
    train, test = defaults_pack.tatoeba(tmp_path, "a.zip", "deu.txt", "de")
    sources = [row["en"] for row in test]
    assert len(sources) == len(set(sources)) >= 10
    assert not set(sources) & {row["en"] for row in train}
    assert len(train) >= 267


def test_pack_writes_every_source_of_a_group(tmp_path, monkeypatch, capsys):
    made = {"train": rows(60), "test": rows(9)}
    names = {one.source for one in cells.DATA_SETS.values() if one.group == "text"}
    assert names < set(defaults_pack.SOURCES)
    monkeypatch.setattr(defaults_pack, "SOURCES", dict.fromkeys(names, lambda data: (made["train"], made["test"])))
    monkeypatch.setattr(defaults_pack, "MOST", 50)
    defaults_pack.pack(tmp_path, tmp_path / "out", ["text"], None)
    files = sorted(file.name for file in (tmp_path / "out/text").iterdir())
    assert files == sorted(f"{name}.{part}.jsonl.gz" for name in names for part in made)
    with gzip.open(tmp_path / "out/text/rte.train.jsonl.gz", "rt") as lines:
        assert [json.loads(line) for line in lines] == made["train"][:50]
    assert "50 rows" in capsys.readouterr().out
