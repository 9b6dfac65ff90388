"""What a command imports decides how long it takes from the shell; benchmarks/cold_start.py measures the seconds."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SLOW = {"torch._dynamo", "torch._inductor", "sympy", "sacrebleu", "rich"}
SOURCE = str(Path(__file__).parents[2] / "src")
CODE = """
import sys
sys.argv = {arguments!r}
from qkv.cli.main import run
try:
    run()
finally:
    print(sorted(sys.modules), file=sys.stderr)
"""


def imported(*arguments):
    """Run a command in a process of its own and return the modules that it imported."""
    code = CODE.format(arguments=["qkv", *map(str, arguments)])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(eval(done.stderr.splitlines()[-1]))


def test_an_answer_needs_no_compiler(bert_folder):
    found = imported("embed", bert_folder, "a sentence", "--device", "cpu")
    assert "torch" in found
    assert not found & SLOW


@pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU, Triton is wanted")
def test_triton_waits_for_a_gpu():
    code = "import qkv.predict, sys; sys.exit('triton' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("arguments", [["--version"], ["recipes"], ["runs", "."]], ids=["version", "recipes", "runs"])
def test_commands_without_a_model_do_not_import_torch(arguments, tmp_path, monkeypatch):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "recipe.toml").write_text('task = "classify"\n')
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([SOURCE, os.environ.get("PYTHONPATH", "")]))
    monkeypatch.chdir(tmp_path)
    assert "torch" not in imported(*arguments)
