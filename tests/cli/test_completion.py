"""Tab completion as bash, zsh and fish ask for it, in a process of its own that must not import torch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from qkv.cli import completion

SOURCE = str(Path(__file__).parents[2] / "src")
CODE = """
import sys
sys.argv = ["qkv", *sys.argv[1:]]
from qkv.cli.main import run
try:
    run()
finally:
    assert "torch" not in sys.modules
"""


def ask(*arguments, **environment):
    where = os.environ | {"PYTHONPATH": os.pathsep.join([SOURCE, os.environ.get("PYTHONPATH", "")])} | environment
    command = [sys.executable, "-c", CODE, *arguments]
    done = subprocess.run(command, env=where, capture_output=True, text=True, check=False)
    assert "Assertion" not in done.stderr
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_recipes(shell):
    asked = {"COMP_WORDS": "qkv\ntrain\nclas", "COMP_CWORD": "2", "_TYPER_COMPLETE_ARGS": "qkv train clas"}
    said = ask(**asked, _TYPER_COMPLETE_FISH_ACTION="get-args", _QKV_COMPLETE=f"complete_{shell}")
    assert "classify" in said
    assert "translate" not in said


@pytest.mark.parametrize(
    ("shell", "file"),
    [
        ("bash", ".bash_completions/qkv.sh"),
        ("zsh", ".zfunc/_qkv"),
        ("fish", ".config/fish/completions/qkv.fish"),
    ],
    ids=["bash", "zsh", "fish"],
)
def test_one_command_installs_it(tmp_path, shell, file):
    """The shell is named here: it is found from the process that calls, and a test may have no shell above it."""
    ask("--install-completion", shell, HOME=str(tmp_path), _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    script = (tmp_path / file).read_text()
    assert f"_QKV_COMPLETE=complete_{shell}" in script


def test_what_is_offered(monkeypatch):
    assert completion.models("en-") == ["en-de", "en-fr"]
    assert completion.devices("cu") == ["cuda"]
    assert completion.recipes("phr") == ["phrasebook"]
    assert completion.settings("train.se") == ["train.seed="]
    assert {"optim.lr=", "data.train=", "model.init=", "out="} <= set(completion.settings(""))
    monkeypatch.setenv("COMP_WORDS", "qkv\ntrain\nclassify\n--set\ndata.train\n=\nt")
    monkeypatch.setenv("COMP_CWORD", "6")
    assert completion.settings("t") == []  # bash offers files
