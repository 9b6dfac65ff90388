"""`qkv train FILE`: which recipe fits, by what sign; and one sentence with what to type where none does."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qkv.common.errors import UsageError
from qkv.recipes.recognise import recipe_for, recognise

ENGLISH = "the a cat dog man woman runs sees and with in on of to is was very old new"
GERMAN = "der die das ein eine katze hund mann frau läuft sieht und mit im auf von zu ist war sehr"


def sentences(words: str, count: int = 60, seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(words.split(), k=8)) for _ in range(count)]


def table(path: Path, header: list[str] | None, *columns: list[Any], sep: str = "\t") -> str:
    rows = [header, *zip(*columns, strict=True)] if header else zip(*columns, strict=True)
    path.write_text("\n".join(sep.join(map(str, row)) for row in rows) + "\n")
    return str(path)


TEXTS, OTHERS, FOREIGN = sentences(ENGLISH), sentences(ENGLISH, seed=1), sentences(GERMAN)
CLASSES = ["good" if i % 3 else "bad" for i in range(60)]
SCORES = [round(i * 37 % 50 / 10, 1) for i in range(60)]
STARS = [i * 7 % 5 + 1 for i in range(60)]
WORDS = "\n\n".join("\n".join(f"{word}\t{'N' if word in ('cat', 'dog') else 'O'}" for word in t.split()) for t in TEXTS)
SQUAD = {"version": "1.1", "data": [{"title": "t", "paragraphs": [{"context": "a cat", "qas": []}]}]}


@pytest.mark.parametrize(
    ("header", "columns", "recipe", "changes"),
    [
        (["text", "label"], [TEXTS, CLASSES], "classify", {"data.text": "text", "data.label": "label"}),
        (["id", "body", "kind"], [[*range(60)], TEXTS, CLASSES], "classify", {"data.text": "body",
                                                                             "data.label": "kind"}),
        (None, [CLASSES, TEXTS], "classify", {"data.text": "#1", "data.label": "#0"}),
        (["text", "label"], [TEXTS, [i % 2 for i in range(60)]], "classify", None),
        (["text", "label"], [TEXTS, ["one"] * 30 + ["two"] * 30], "classify", None),
        (["text", "label"], [TEXTS, STARS], "classify", None),
        (["review", "stars"], [TEXTS, STARS], "regress", {"data.text": "review", "data.label": "stars"}),
        (["text", "price"], [TEXTS, SCORES], "regress", {"data.text": "text", "data.label": "price"}),
        (["sentence1", "sentence2", "label"], [TEXTS, OTHERS, CLASSES], "pairs", None),
        (["left", "right", "same"], [TEXTS, OTHERS, CLASSES], "pairs", {"data.text": "left", "data.second": "right",
                                                                        "data.label": "same"}),
        (["sentence1", "sentence2", "score"], [TEXTS, OTHERS, SCORES], "regress", None),
        (["en", "de"], [TEXTS, FOREIGN], "translate", {"data.text": "en", "data.second": "de"}),
        (["source", "target"], [TEXTS, FOREIGN], "translate", {"data.text": "source", "data.second": "target"}),
        (None, [TEXTS, FOREIGN], "translate", {}),
    ],
    ids=[
        "names", "contents", "no-header", "0-1", "sorted", "numbered-classes", "stars", "numbers", "pairs",
        "other-pairs", "scored-pairs", "languages", "source-target", "words",
    ],
)  # fmt: skip
def test_tables(
    header: list[str] | None, columns: list[list[Any]], recipe: str, changes: dict[str, str] | None, tmp_path: Path
) -> None:
    found = recognise([table(tmp_path / "a.tsv", header, *columns)])
    assert found.recipe == recipe, found
    assert changes is None or found.changes == changes


def test_the_rows_of_json_tell_too(tmp_path: Path) -> None:
    rows = {
        "tag": {"tokens": ["a", "cat"], "ner_tags": ["O", "B-X"]},
        "answer": {"question": "who?", "context": "a cat", "answers": {"text": ["a cat"], "answer_start": [0]}},
    }
    for recipe, row in rows.items():
        (tmp_path / "a.jsonl").write_text(f"{json.dumps(row)}\n" * 4)
        assert recognise([str(tmp_path / "a.jsonl")]).recipe == recipe
    (tmp_path / "a.json").write_text(json.dumps(SQUAD))
    assert recognise([str(tmp_path / "a.json")]).recipe == "answer"


def test_text_files(tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("words.txt", "few.conllu", "reviews", "tabs.txt", "fast.txt")}
    files["words.txt"].write_text(WORDS)
    files["few.conllu"].write_text("1\tcat\tcat\tNOUN\n")
    files["reviews"].write_text("".join(f"{i % 2} {text}\n" for i, text in enumerate(TEXTS)))
    files["tabs.txt"].write_text("".join(f"{a}\t{b}\n" for a, b in zip(TEXTS, FOREIGN, strict=True)))
    files["fast.txt"].write_text(
        "".join(f"__label__{kind} {text}\n" for kind, text in zip(CLASSES, TEXTS, strict=True))
    )
    found = {name: recognise([str(file)]) for name, file in files.items()}
    assert [one.recipe for one in found.values()] == ["tag", "tag", "classify", "translate", "classify"]
    assert found["reviews"].changes == {"data.format": "label-first"}


def test_two_aligned_files(tmp_path: Path) -> None:
    for name, lines in {"a.en": TEXTS, "a.de": FOREIGN, "b.txt": TEXTS, "c.txt": FOREIGN, "d.txt": OTHERS}.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    here = [[str(tmp_path / name) for name in names] for names in (("a.en", "a.de"), ("b.txt", "c.txt"))]
    assert [recognise(files).recipe for files in here] == ["translate", "translate"]
    with pytest.raises(UsageError, match=r"in one language .* type `qkv train sentence-embeddings .* or `qkv train t"):
        recognise([str(tmp_path / "b.txt"), str(tmp_path / "d.txt")])


def test_other_scripts_are_another_language(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a cat\ntwo dogs\n")
    (tmp_path / "b.txt").write_text("犬と猫\n二匹の犬\n")
    assert recognise([str(tmp_path / "a.txt"), str(tmp_path / "b.txt")]).recipe == "translate"
    (tmp_path / "c.txt").write_text("eine katze\na dog\n")
    with pytest.raises(UsageError, match="not clear whether their languages differ"):
        recognise([str(tmp_path / "a.txt"), str(tmp_path / "c.txt")])


def test_images(tmp_path: Path) -> None:
    for kind in ("cats", "dogs"):
        (tmp_path / "pictures" / kind).mkdir(parents=True)
        (tmp_path / "pictures" / kind / "1.png").touch()
        (tmp_path / "texts" / kind).mkdir(parents=True)
        (tmp_path / "texts" / kind / "1.txt").write_text("a text")
    np.savez(tmp_path / "a.npz", x=np.zeros(1), y=np.zeros(1))
    (tmp_path / "t10k-images-idx3-ubyte").touch()
    found = [
        recognise([str(tmp_path / name)]).recipe for name in ("pictures", "a.npz", "t10k-images-idx3-ubyte", "texts")
    ]
    assert found == ["image", "image", "image", "classify"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("notes.txt", ["It rained.", "Then it snowed."], r"plain text without labels.* `qkv train pretrain-bert "),
        ("a.tsv", ["text", *TEXTS], r"texts without labels; type `qkv train pretrain-bert"),
        ("a.tsv", ["x\ty", *(f"{i}\t{i * i}" for i in range(40))], r"no column .* holds texts"),
        ("a.tsv", [f"{t}\t{c}\t{c}" for t, c in zip(TEXTS, CLASSES, strict=True)], r"the label could be #1 .* or #2"),
        ("a.tsv", ["x\ty", *map("\t".join, zip(TEXTS, OTHERS, strict=True))], r"pairs of texts in one language"),
    ],
    ids=["plain", "texts", "numbers", "two-labels", "one-language"],
)  # fmt: skip
def test_what_cannot_be_placed_says_what_to_type(name: str, content: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("\n".join(content))
    with pytest.raises(UsageError, match=message) as error:
        recognise([str(tmp_path / name)])
    assert "\n" not in str(error.value)


def test_files_that_are_not_data(bert_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no file no\.csv"):
        recipe_for("no.csv", say=lambda _: None)
    with pytest.raises(UsageError, match=r"unknown recipe 'clasify'.*did you mean 'classify'"):
        recipe_for("clasify", say=lambda _: None)
    with pytest.raises(
        UsageError, match=f"a model folder, not data; type `qkv train classify .* model.init={bert_folder}"
    ):
        recognise([str(bert_folder)])
    with pytest.raises(UsageError, match="name a file or a recipe"):
        recognise([str(tmp_path)])
    several = [table(tmp_path / f"{name}.csv", ["text", "label"], TEXTS, CLASSES, sep=",") for name in ("a", "b")]
    with pytest.raises(UsageError, match=r"--set data.valid=FILE data.test=FILE"):
        recognise(several)


def test_the_recipe_of_a_file_and_what_is_said(tmp_path: Path) -> None:
    said: list[str] = []
    file = table(tmp_path / "my reviews.csv", ["body", "kind"], TEXTS, CLASSES, sep=",")
    recipe = recipe_for(file, ["train.epochs=7", "data.held_out=0.2"], say=said.append)
    assert said == [f"{file}: texts in 'body', 2 classes (bad, good) in 'kind': running the recipe classify"]
    assert (recipe.task, recipe.out, recipe.data.train) == ("classify", "runs/my-reviews", (file,))
    assert (recipe.data.text, recipe.data.label, recipe.train.epochs, recipe.data.held_out) == ("body", "kind", 7, 0.2)


def test_columns_that_are_set_decide(tmp_path: Path) -> None:
    file = table(tmp_path / "a.tsv", ["title", "text", "kind", "stars"], OTHERS, TEXTS, CLASSES, STARS)
    asked = [recipe_for(file, [f"data.label={label}"], say=lambda _: None) for label in ("kind", "stars")]
    assert [recipe.task for recipe in asked] == ["classify", "regress"]
    both = recipe_for(file, ["data.label=kind", "data.text=title", "data.second=text"], say=lambda _: None)
    assert (both.out, both.data.second) == ("runs/a", "text")
    with pytest.raises(UsageError, match=r"unknown column .* 'knd'; did you mean 'kind'"):
        recipe_for(file, ["data.label=knd"], say=lambda _: None)
    several = table(tmp_path / "b.tsv", ["text", "label"], TEXTS, [f"{c},only{i}" for i, c in enumerate(CLASSES)])
    assert recipe_for(several, ["data.separator=,"], say=lambda _: None).task == "classify"


def test_a_pattern_is_read_by_its_first_file(tmp_path: Path) -> None:
    for name in ("a", "b"):
        table(tmp_path / f"{name}.tsv", ["text", "label"], TEXTS, CLASSES)
    recipe = recipe_for(str(tmp_path / "*.tsv"), say=lambda _: None)
    assert (recipe.task, recipe.data.train, recipe.out) == ("classify", (str(tmp_path / "*.tsv"),), "runs/data")


def test_recipes_by_name_are_read_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "classify").mkdir()  # a folder of the same name does not hide the recipe
    said: list[str] = []
    assert recipe_for("classify", ["data.train=a.csv"], say=said.append).data.train == ("a.csv",)
    assert not said
