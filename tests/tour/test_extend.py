"""Opening the house without forking: each example runs by itself, and the package knows no task by name."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import qkv
from qkv.common.batch import Labelled, Tokens
from qkv.common.errors import UsageError
from qkv.models import catalogue
from qkv.models.catalogue import Family, add_family
from qkv.objectives.classify import Classify
from qkv.recipes.schema import read_recipe
from qkv.runs.run import run_recipe
from qkv.tasks.table import TASKS, find_task

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "extend"
SAID = {
    "own_objective": "focal loss",
    "own_task": "order accuracy 1.000",
    "own_metric": "balanced-accuracy 1.000",
    "own_position": "swapping two tokens changes the third state",
    "own_family": "conv: ['pos', 'neg']",
}


def python(file: Path | str, place: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *map(str, [file])], cwd=place, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("name", SAID)
def test_an_example_runs_from_anywhere(name: str, tmp_path: Path) -> None:
    done = python(EXAMPLES / f"{name}.py", tmp_path)
    assert done.returncode == 0, done.stderr
    assert SAID[name] in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_every_example_is_on_the_page_and_tested() -> None:
    page = (ROOT / "docs" / "extending.md").read_text("utf-8")
    assert {file.stem for file in EXAMPLES.glob("*.py")} == set(SAID)
    assert all(f"examples/extend/{name}.py" in page for name in SAID)


# GLUE and `qkv train FILE` choose between shipped recipes, and some of those have the names of their tasks.
NAMES_RECIPES = ("renamed.py", "glue_files.py", "recognise.py", "recognise_table.py", "recognise_text.py")


def test_no_other_room_knows_a_task() -> None:
    """Adding a task is its own file and a line of the table: nothing else imports one."""
    general = {"base", "batches", "exam", "facts", "split", "table"}
    for file in (ROOT / "src" / "qkv").rglob("*.py"):
        if "tasks" in file.relative_to(ROOT).parts:
            continue
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("qkv.tasks."):
                assert (node.module or "").split(".")[2] in general, f"{file} imports {node.module}"
            rooms = file.parent.name in ("recipes", "runs", "exams", "training")
            if isinstance(node, ast.Constant) and rooms and file.name not in NAMES_RECIPES:
                # finetune's default recipe has the name of its task
                assert node.value not in TASKS.keys() - {"classify", "mixture"}, f"{file} names a task"


def test_a_recipe_names_a_task_of_your_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text((EXAMPLES / "own_task.py").read_text())
    lines = [f"{'first' if n % 2 == 0 else 'then'} comes number {n // 2}" for n in range(120)]
    (tmp_path / "text.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.chdir(tmp_path)
    asked = ["task=mine:SentenceOrderTask", "data.train=text.txt", "out=run", "model.preset=bert-tiny", "train.steps=2"]
    outcome = run_recipe(read_recipe("classify", asked, debug=True), device="cpu", say=lambda _: None)
    assert outcome.finished
    assert qkv.load("run", device="cpu").labels == ("in order", "swapped")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing_here:Task", "the task 'nothing_here:Task' cannot be imported: No module named 'nothing_here'"),
        ("json:Absent", "the task 'json:Absent' cannot be imported"),
        ("json:JSONDecoder", "is not a subclass of qkv.tasks.base.Task"),
        ("clasify", "unknown task 'clasify'; did you mean 'classify'"),
    ],
)
def test_a_task_that_is_none_is_refused(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        find_task(name)


def test_batches_and_a_model_of_your_own(tmp_path: Path) -> None:
    """A module that the catalogue does not know learns from batches that no file holds."""

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(10, 2)

        def states_for(self, batch: Tokens, _name: str) -> torch.Tensor:
            return batch.layout.mean(self.table(batch.ids))

        def logits(self, states: torch.Tensor, _name: str) -> torch.Tensor:
            return states

    def batches(position: int) -> object:
        while True:
            draw = torch.Generator().manual_seed(position)
            rows = torch.randint(0, 10, (8, 3), generator=draw)
            yield Labelled(Tokens.of(rows.tolist()), (rows[:, 0] > 4).long()), position + 1
            position += 1

    seen: list[int] = []
    changes = {"out": str(tmp_path / "run"), "train.steps": 40, "optim.lr": 0.1, "model.preset": "bert-tiny"}
    outcome = qkv.train(
        "classify",
        objective=Classify(),
        model=Net(),
        batches=batches,
        callbacks=[lambda step, _: seen.append(step)],
        changes=changes,
        device="cpu",
        say=lambda _: None,
    )
    assert outcome.finished
    assert seen == [10, 20, 30, 40]
    assert (tmp_path / "run" / "model.safetensors").is_file()
    assert not (tmp_path / "run" / "config.json").exists()
    with pytest.raises(UsageError, match=r"your own batches have no epochs: set train\.steps"):
        qkv.train("classify", batches=batches, model=Net(), changes={**changes, "train.steps": 0}, say=lambda _: None)
    with pytest.raises(UsageError, match="task takes a subclass or an instance of"):
        qkv.train("classify", task="classify", changes=changes, say=lambda _: None)  # type: ignore[arg-type]


def test_a_family_keeps_its_name_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    for table in (catalogue.FAMILIES, catalogue.PRESETS):
        monkeypatch.setattr(catalogue, "FAMILIES" if table is catalogue.FAMILIES else "PRESETS", dict(table))
    mine = Family(int, lambda _: None, {"mine-tiny": 1})  # type: ignore[arg-type, return-value]
    add_family("mine", mine)
    add_family("mine", mine)  # once more, as where a module is imported again
    assert catalogue.PRESETS["mine-tiny"] == 1
    with pytest.raises(UsageError, match="there is a family bert already"):
        add_family("bert", mine)
    with pytest.raises(UsageError, match="there is a preset bert-tiny already"):
        add_family("other", Family(int, lambda _: None, {"bert-tiny": 1}))  # type: ignore[arg-type, return-value]
