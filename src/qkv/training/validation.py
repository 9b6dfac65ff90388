"""Validation: loss and metrics on held-out examples, the best weights so far, and early stopping."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from qkv.checkpoints.update import DIGESTS
from qkv.common import disk
from qkv.common.batch import move
from qkv.common.errors import QkvError
from qkv.evaluation.report import number
from qkv.training.logging import Display, RunLog
from qkv.training.run import Run, ready


@torch.no_grad()
def validate(run: Run, log: RunLog, show: Display) -> None:
    """Measure the validation loss with the averaged weights, and keep them if they are the best."""
    model = run.job.model.eval()
    totals: dict[str, torch.Tensor] = {}  # on the device; read once, at the end
    counts: dict[str, torch.Tensor] = {}
    with run.averaged():
        for batch in run.job.valid() if run.job.valid else ():
            for name, part in run.plain_losses(ready(move(batch, run.device))).items():
                for key, value in {name: part.total, **{f"{name}.{k}": v for k, v in part.sums.items()}}.items():
                    totals[key] = totals.get(key, 0.0) + value.double()
                    counts[key] = counts.get(key, 0.0) + part.count.double()
        means = {name: float(total) / max(float(counts[name]), 1) for name, total in totals.items()}
        weights = run.job.objective.weights
        loss = sum(weights.get(name, 1.0) * value for name, value in means.items() if "." not in name)
        scores = dict(run.job.measure()) if run.job.measure else {}
        run.last_scores = {"loss": loss, **scores}
        better = math.isfinite(loss) and (run.best is None or rank(run.last_scores) > rank(run.best_scores or {}))
        if better:
            _keep(run, loss)
        else:
            run.worse += 1
    model.train()
    log.write(run.step, valid_loss=loss, **{f"valid_{name}": value for name, value in (means | scores).items()})
    show.say(f"step {run.step}: {described(run.last_scores)}{' (best)' if better else ''}")


def described(scores: Mapping[str, float]) -> str:
    """Format the scores of a validation, the first metric first."""
    named = [f"{name} {number(value)}" for name, value in scores.items() if name != "loss"]
    return ", ".join([*named, f"validation loss {number(scores['loss'])}"])


def rank(scores: Mapping[str, float]) -> tuple[float, float]:
    """Order weights by their first metric, then by loss; an undefined metric is the worst."""
    metric = next((value for name, value in scores.items() if name != "loss"), 0.0)
    return (-math.inf if math.isnan(metric) else metric), -scores.get("loss", math.inf)


def overdue(run: Run) -> bool:
    """Whether the run's patience is used up: time for early stopping."""
    return bool(run.train.patience) and run.worse >= run.train.patience


def check_best(run: Run) -> None:
    """Check the best weights of a resumed run for damage.

    If the run ends with these weights, it cannot be resumed without them. Otherwise they are only kept for the user,
    and the next validation writes new ones.
    """
    if run.best_step is None:  # none yet, or an earlier version wrote them without a manifest
        return
    disk.recover(run.best_folder)
    reason = disk.damage(run.best_folder, DIGESTS)
    if reason is None:
        return
    if run.ends_with_best:
        raise QkvError(f"{reason}; the run ends with the weights in {run.best_folder}: restore them or start again")
    run.job.say(f"{reason}; the next validation writes {run.best_folder} again")
    run.best = run.best_step = run.best_scores = None


def _keep(run: Run, loss: float) -> None:
    """Write the best weights with their digests, so that damage is detected later."""
    run.best, run.best_step, run.best_scores, run.worse = loss, run.step, run.last_scores, 0
    with disk.no_space(str(run.best_folder)), disk.new_folder(run.best_folder) as work:
        run.job.finish(run.job.model, work)
