"""Which precisions are safe on this machine."""

from __future__ import annotations

import subprocess
import sys
from functools import cache

import torch

PRODUCT = "import torch; x = torch.ones(64, 64, dtype=torch.{name}); assert float((x @ x)[0, 0]) == 64"


@cache
def cpu_multiplies(dtype: torch.dtype) -> bool:
    """Try a small matrix product in a child process: on some CPUs a reduced precision kills the process."""
    if dtype == torch.float32:
        return True
    code = PRODUCT.format(name=str(dtype).removeprefix("torch."))
    return subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0
