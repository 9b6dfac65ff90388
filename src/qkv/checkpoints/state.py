"""Checkpoints of a run: everything needed to resume it bit for bit, verified before a tensor is used.

checkpoints/step-1200/   one .safetensors per part, facts.json, manifest.json
checkpoints/step-1600/
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load
from torch import Tensor

from qkv.checkpoints.weights import weight_bytes
from qkv.common import disk
from qkv.common.errors import QkvError

FACTS = "facts.json"
NAME = re.compile(r"step-(\d+)")


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run at one step.

    Attributes:
        step: the number of optimizer steps so far.
        parts: tensors by part (model, optimizer, average, random) and name.
        facts: plain values: the data position, the best score, the counters.
    """

    step: int
    parts: Mapping[str, Mapping[str, Tensor]]
    facts: Mapping[str, Any]


def write_checkpoint(root: Path, checkpoint: Checkpoint) -> Path:
    """Write a checkpoint atomically."""
    target = root / f"step-{checkpoint.step}"
    files = {f"{part}.safetensors": weight_bytes(tensors) for part, tensors in checkpoint.parts.items()}
    files[FACTS] = json.dumps({"step": checkpoint.step, **checkpoint.facts}, sort_keys=True).encode()
    with disk.no_space(str(target)):
        disk.replace_folder(target, files, manifest=True)
    return target


def read_checkpoint(folder: Path) -> Checkpoint:
    """Read a checkpoint. Raises an error that names the first file that is missing or damaged."""
    if reason := disk.damage(folder):
        raise QkvError(reason)
    facts = json.loads((folder / FACTS).read_bytes())
    parts = {file.stem: load(file.read_bytes()) for file in sorted(folder.glob("*.safetensors"))}
    return Checkpoint(facts.pop("step"), parts, facts)


def steps(root: Path) -> list[int]:
    """List the steps that have a checkpoint, oldest first."""
    names = [NAME.fullmatch(path.name) for path in root.glob("step-*")] if root.is_dir() else []
    return sorted(int(name[1]) for name in names if name)


def newest_checkpoint(root: Path, say: Callable[[str], None]) -> Checkpoint | None:
    """Read the newest intact checkpoint. A damaged one is reported, and the previous one is tried."""
    for target in root.glob(".step-*.old") if root.is_dir() else []:
        disk.recover(root / target.name.removeprefix(".").removesuffix(".old"))
    for step in reversed(steps(root)):
        try:
            return read_checkpoint(root / f"step-{step}")
        except QkvError as error:
            say(f"checkpoint step-{step} cannot be used: {error}; trying the previous one")
    return None


def keep_checkpoints(root: Path, last: int, also: frozenset[int] = frozenset()) -> None:
    """Remove all but the newest `last` checkpoints and those in `also`, and the remains of interrupted saves."""
    for step in steps(root)[: -last or None]:
        if step not in also:
            disk.remove(root / f"step-{step}")
    for left in root.glob(".step-*"):
        if not left.name.endswith(".old"):
            disk.remove(left)
