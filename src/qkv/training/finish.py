"""The end of a run: the weights that stay, which must be finite."""

from __future__ import annotations

import torch
from torch import nn

from qkv.checkpoints.state import read_checkpoint, steps
from qkv.common import disk
from qkv.common.errors import QkvError
from qkv.training.averaging import mean_of
from qkv.training.run import Run


def finish(run: Run) -> None:
    """Write the final weights: with patience those of the best validation, else the last or averaged ones."""
    if run.in_a_row >= run.step > 0:
        raise QkvError(f"none of the {run.step} steps had a finite loss: lower optim.lr (now {run.optim.lr:g})")
    disk.recover(run.best_folder)
    if run.train.patience and run.best_folder.is_dir():
        _copy_best(run)
        return
    if run.train.average_last:
        last = [read_checkpoint(run.root / f"step-{step}") for step in steps(run.root)[-run.train.average_last :]]
        run.load(mean_of(found.parts["model"] for found in last))
        _write(run)
        return
    with run.averaged():
        _write(run)


def check_weights(model: nn.Module, what: str) -> None:
    """Stop at the first weight that is not a finite number."""
    for name, tensor in model.state_dict().items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise QkvError(f"{what} is broken: {name} holds values that are not finite")


def _write(run: Run) -> None:
    check_weights(run.job.model, "the trained model")
    with disk.no_space(str(run.job.folder)):
        run.job.finish(run.job.model.eval(), run.job.folder)


def _copy_best(run: Run) -> None:
    """Copy a file at a time: a run that is killed here copies all of them again when it is resumed."""
    for file in (path for path in run.best_folder.rglob("*") if path.is_file()):
        place = run.job.folder / file.relative_to(run.best_folder)
        if file == run.best_folder / disk.MANIFEST:
            continue
        with disk.no_space(str(place)):
            place.parent.mkdir(exist_ok=True)
            disk.replace_file(place, file.read_bytes())
