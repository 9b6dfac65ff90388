"""The precision of a run: bf16 where it is fast and safe, fp32 everywhere else."""

from __future__ import annotations

import torch

from qkv.common.errors import UsageError, unknown
from qkv.nn.precision import cpu_multiplies

PRECISIONS = ("auto", "bf16", "fp32")


def wants_bf16(precision: str, device: torch.device) -> bool:
    """Decide whether to use bf16: never on a CPU by default, and only after a test in a child process."""
    if precision not in PRECISIONS:
        raise unknown("precision", precision, PRECISIONS)
    if precision == "fp32" or (precision == "auto" and device.type != "cuda"):
        return False
    if device.type == "cuda":
        able = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        able = cpu_multiplies(torch.bfloat16)
    if not able and precision == "bf16":
        raise UsageError(f"bf16 is not safe on this {device.type}: use train.precision = auto or fp32")
    return able
