"""Triton's kernels run by its interpreter on a CPU, in a process of their own: it is chosen when Triton is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def run_interpreted(code: str) -> None:
    """Run a program that must end by printing "same"."""
    source = str(Path(__file__).parents[1] / "src")
    path = os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "same\n", done.stderr
