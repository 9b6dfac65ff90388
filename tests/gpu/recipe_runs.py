"""Short runs of one recipe in a process of its own: `python -m tests.gpu.recipe_runs ASKED.json`.

What each run gave is written to the file that ASKED.json names; a run that fails leaves its error there, so that one
broken mode hides no other.
"""

from __future__ import annotations

import json
import shutil
import sys
import traceback
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

from qkv.checkpoints.folder import read_folder
from qkv.checkpoints.state import newest_checkpoint
from qkv.models import catalogue
from qkv.recipes.schema import read_recipe
from qkv.runs.run import run_recipe
from tests.gpu.device import DEVICE
from tests.runs.killing import cut_off

STEPS = 10
COMMON = [
    f"train.steps={STEPS}", "train.log_every=1", f"train.validate_every={STEPS}", "train.workers=1", "optim.warmup=2",
]  # fmt: skip


def without_dropout(name: str, changes: list[str]) -> list[str]:
    """Say for each kind of dropout that a recipe's model has that there is none."""
    model = read_recipe(name, changes, debug=True).model
    config = read_folder(model.init).config if model.init else catalogue.preset(model.preset)
    return [f"model.set.{field.name}=0.0" for field in fields(config) if "dropout" in field.name]


def run(name: str, changes: list[str], out: Path, device: str, resume: bool = False) -> dict[str, Any]:
    """Train by a recipe and read what it left behind."""
    asked = [*COMMON, *changes, "train.keep_checkpoints=true", f"out={out}"]
    outcome = run_recipe(read_recipe(name, asked, debug=True), resume=resume, device=device, say=lambda _: None)
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if "loss" in line]
    state = newest_checkpoint(out / "checkpoints", print)
    assert state is not None
    return {
        "reason": outcome.reason,
        "losses": [line["loss"] for line in steps],
        "valid": [line["valid_loss"] for line in lines if "valid_loss" in line],
        "counted": all("share_of_peak" in line for line in steps),
        "recorded": state.facts["shape"] is not None,
    }


def resumed(name: str, changes: list[str], out: Path, device: str) -> dict[str, Any]:
    """Train twice, the second time from the middle on; says whether all weights have the same bits."""
    every = [*changes, "train.save_every=2", "train.keep=100"]
    whole = run(name, every, out / "whole", device)
    shutil.copytree(out / "whole", out / "cut")
    cut_off(out / "cut", 8, 10)
    found = run(name, every, out / "cut", device, resume=True)
    a, b = (newest_checkpoint(out / part / "checkpoints", print) for part in ("whole", "cut"))
    assert a is not None
    assert b is not None
    parts = [(part, key) for part in ("model", "optimizer") for key in a.parts[part]]
    unlike = [f"{part}.{key}" for part, key in parts if not torch.equal(a.parts[part][key], b.parts[part][key])]
    return {**found, "whole": whole["losses"], "unlike": unlike, "compared": len(parts)}


def one(name: str, changes: list[str], mode: str, out: Path) -> dict[str, Any]:
    """Do what a mode says: cpu, no, record, yes, dropout, resume-no or resume-record."""
    still = without_dropout(name, changes)
    if mode == "cpu":
        return run(name, [*changes, *still, "train.compile=no"], out, "cpu")
    if mode == "dropout":
        return run(name, [*changes, "train.compile=record"], out, DEVICE)
    if mode.startswith("resume-"):
        return resumed(name, [*changes, f"train.compile={mode.removeprefix('resume-')}"], out, DEVICE)
    return run(name, [*changes, *still, f"train.compile={mode}"], out, DEVICE)


def main() -> None:
    """Do all that is asked."""
    torch.set_num_threads(1)
    asked = json.loads(Path(sys.argv[1]).read_text())
    found: dict[str, Any] = {}
    for mode in asked["modes"]:
        try:
            found[mode] = one(asked["name"], asked["changes"], mode, Path(asked["out"]) / mode)
        except Exception:
            found[mode] = {"error": traceback.format_exc()}
    Path(asked["found"]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
