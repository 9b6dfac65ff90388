"""The end of a run: write the final weights, which must be finite."""

from __future__ import annotations

import torch
from torch import nn

from qkv.checkpoints.state import read_checkpoint, steps
from qkv.checkpoints.update import DIGESTS, update_folder
from qkv.checkpoints.weights import WHOLE
from qkv.common import disk
from qkv.common.errors import QkvError
from qkv.training.averaging import mean_of
from qkv.training.run import Run


def finish(run: Run) -> None:
    """Write the final weights: the best validated ones, or the last or averaged ones."""
    if run.in_a_row >= run.step > 0:
        raise QkvError(f"none of the {run.step} steps had a finite loss: lower optim.lr (now {run.optim.lr:g})")
    disk.recover(run.best_folder)
    if run.ends_with_best and run.best_folder.is_dir():
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
    """Raise an error if any weight is not finite."""
    for name, tensor in model.state_dict().items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise QkvError(f"{what} is broken: {name} holds values that are not finite")


def _write(run: Run) -> None:
    check_weights(run.job.model, "the trained model")
    with disk.no_space(str(run.job.folder)):
        run.job.finish(run.job.model.eval(), run.job.folder)


def _copy_best(run: Run) -> None:
    """Copy the best model to the run's folder, and other models, such as a generator, to their subfolders.

    If the run is killed here, it repeats the copy when it is resumed.
    """
    best, place = run.best_folder, run.job.folder
    others = [folder for folder in best.iterdir() if (folder / WHOLE).is_file() and (folder / DIGESTS).is_file()]
    for folder in (best, *others):
        files = [path for path in folder.rglob("*") if path.is_file() and path.name != DIGESTS]
        mine = [path for path in files if folder != best or not any(path.is_relative_to(other) for other in others)]
        target = place / folder.relative_to(best)
        with disk.no_space(str(target)):
            target.mkdir(exist_ok=True)
            update_folder(target, {path.relative_to(folder).as_posix(): path.read_bytes() for path in mine})
