"""Whether Triton works here: it comes with torch for CUDA, and needs a C compiler and Python's headers."""

from __future__ import annotations

import functools
import importlib.util
import os

import torch

# Importing Triton and declaring our kernels takes 0.1 s, so it waits for a GPU to use them, or for the interpreter.
# Counting devices through NVML does not initialise CUDA.
USEFUL = os.environ.get("TRITON_INTERPRET") == "1" or torch.cuda.device_count() > 0
HERE = USEFUL and importlib.util.find_spec("triton") is not None

if HERE:
    import triton

    @triton.jit
    def _nothing(x):
        pass


def buildable(device: torch.device) -> bool:
    """Whether Triton kernels run here. Compiled code needs no check: the compiler builds kernels itself."""
    return HERE and device.type == "cuda" and (torch.compiler.is_compiling() or _works(device))


@functools.cache
def _works(device: torch.device) -> bool:
    try:
        _nothing[(1,)](torch.empty(1, device=device))
    except Exception:  # whatever is missing, the plain code does not need it
        return False
    return True
