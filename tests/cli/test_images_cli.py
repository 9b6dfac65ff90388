"""`qkv classify MODEL image.png …`: what people type, once right and once wrong."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.predict.test_images import LABELS, image, make, pixels

Call = Callable[..., Any]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, and five images, one of them broken, in folders."""
    folder = tmp_path_factory.mktemp("images")
    make(folder / "model")
    for name in ("a.png", "b.JPG", "photos/c.png", "photos/deep/d.jpeg"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        image.fromarray(pixels(9, 8, 3)).save(folder / name)
    (folder / "photos" / "notes.txt").write_text("no image")
    (folder / "broken").mkdir()
    (folder / "broken" / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing")
    (folder / "broken" / "good.png").write_bytes((folder / "a.png").read_bytes())
    return folder


@pytest.fixture
def run(shell: Callable[..., Any], place: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run `qkv classify` on the model, in the folder of the images."""
    monkeypatch.chdir(place)

    def call(*asked: str, stdin: str = "") -> tuple[int, str, str]:
        found = shell("classify", "model", *asked, "--device", "cpu", stdin=stdin)
        return found.code, found.out, found.err

    return call


def test_files_folders_and_patterns_in_order(run: Call) -> None:
    code, out, _ = run("b.JPG", "photos", "?.png")
    assert code == 0
    rows = [line.split("\t") for line in out.splitlines()]
    assert [row[0] for row in rows] == ["b.JPG", "photos/c.png", "photos/deep/d.jpeg", "a.png"]
    assert all(row[1] in LABELS and 1 / 3 <= float(row[2]) <= 1 for row in rows)
    Path("list.txt").write_text("a.png\n\nphotos\n")
    names = run("--file", "list.txt")[1]
    assert [line.split("\t")[0] for line in names.splitlines()] == ["a.png", "photos/c.png", "photos/deep/d.jpeg"]


def test_several_labels_and_json(run: Call) -> None:
    _, out, _ = run("a.png", "--json")
    best = json.loads(out)
    assert best.keys() == {"image", "label", "score"}
    every = json.loads(run("a.png", "--json", "--all")[1])
    assert (every["image"], every["labels"][0]["label"]) == ("a.png", best["label"])
    two = json.loads(run("a.png", "--json", "--top", "2")[1])
    assert two["labels"] == every["labels"][:2]
    line = run("a.png", "--top", "2")[1].rstrip("\n").split("\t")
    assert line[0::2][1:] == [f"{one['score']:.4f}" for one in two["labels"]]


def test_a_table_of_answers(run: Call, tmp_path: Path) -> None:
    code, _, _ = run("photos", "--out", str(tmp_path / "a.csv"))
    assert code == 0
    rows = list(csv.DictReader((tmp_path / "a.csv").read_text().splitlines()))
    assert [row["image"] for row in rows] == ["photos/c.png", "photos/deep/d.jpeg"]
    assert set(rows[0]) == {"image", "label", "score"}


def test_a_broken_image_is_named_and_skipped_only_on_request(run: Call) -> None:
    code, out, error = run("a.png", "broken")
    assert code == 1
    assert "broken/bad.png: not an image that can be read" in error
    assert "--skip-bad" in error
    assert [line.split("\t")[0] for line in out.splitlines()] == ["a.png"]
    code, out, error = run("a.png", "broken", "--skip-bad")
    assert code == 0
    assert "broken/bad.png: not an image that can be read" in error
    assert [line.split("\t")[0] for line in out.splitlines()] == ["a.png", "broken/good.png"]


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (["gone.png"], "there is no file or folder gone.png"),
        (["*.gif"], "no file matches *.gif"),
        ([], "no images: give files, folders or patterns"),
        (["a.png", "--file", "list.txt"], "give either images on the command line or --file, not both"),
        (["a.png", "--top", "0"], "top must be at least 1, got 0"),
        (["a.png", "--top", "2", "--all"], "give the number of labels or ask for all, not both"),
        (["a.png", "--pair"], "leave out pairs and the threshold"),
        (["model"], "model contains no images"),
    ],
)
def test_wrong_usage_is_one_sentence(run: Call, asked: list[str], why: str) -> None:
    code, out, error = run(*asked)
    assert (code, out) == (2, "")
    assert why in error


def test_paths_from_standard_input(run: Call) -> None:
    assert [line.split("\t")[0] for line in run("-", stdin="b.JPG\na.png\n")[1].splitlines()] == ["b.JPG", "a.png"]
    assert run("-", stdin="")[0] == 2
