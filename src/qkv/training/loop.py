"""The training loop, shared by every family, objective and recipe.

    batches ─► forward, backward (× accumulate) ─► clip ─► step ─► average
                                                     └─► log, validate, save, stop

`Run` holds everything that determines the next step, and a checkpoint holds `Run`, so a resumed run is bit-identical.
The loop never waits for the device: the results of a step are read while the next step is running.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch

from qkv.checkpoints.state import newest_checkpoint
from qkv.common.batch import move, size
from qkv.common.cuda.recorder import Recorder
from qkv.common.cuda.static_shape import StaticShape
from qkv.common.errors import QkvError
from qkv.objectives.parts import Losses, weighted
from qkv.training.config import TrainConfig, every
from qkv.training.finish import check_weights, finish
from qkv.training.logging import Display, RunLog
from qkv.training.optim import OptimConfig
from qkv.training.peak import work_per_unit
from qkv.training.run import Job, Run, ready
from qkv.training.running_means import RunningMeans, StepResult
from qkv.training.stopping import Stop
from qkv.training.trackers import LogConfig
from qkv.training.validation import check_best, overdue, validate

PATIENCE = 5  # consecutive steps with a non-finite loss or gradient before the run rolls back
ROLL_BACKS = 3  # before the run gives up
SAMPLE = 100  # batches that determine the static shape of recorded steps
FINISHED = ("done", "early")  # the reasons of a run that was not interrupted
SLOWER = 0.5  # each roll-back multiplies the learning rate by this


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
        reason: "done", "early" or the name of a signal.
        step: the number of steps taken.
        best: the validation loss of the best weights.
        energy: seconds, joules and grams of CO2.
        weights_of: the step whose weights the run's folder holds, if they were validated.
        scores: "loss" and the metrics of these weights.
    """

    reason: str
    step: int
    best: float | None
    energy: dict[str, object]
    weights_of: int | None = None
    scores: dict[str, float] | None = None

    @property
    def finished(self) -> bool:
        """Whether the run is complete, so that there is nothing to resume."""
        return self.reason in FINISHED


def train(
    job: Job, config: TrainConfig, optim: OptimConfig, log: LogConfig | None = None, *, resume: bool = False
) -> Outcome:
    """Train a model to the end, or until a signal stops the run."""
    run = Run(job, config, optim)
    check_weights(job.model, "the model to start from")
    found = newest_checkpoint(run.root, job.say) if resume else None
    if found is not None:
        run.restore(found)
        check_best(run)
        job.say(f"resumed from step {run.step}")
    written = RunLog(job.folder, log, from_step=run.step, callbacks=job.callbacks)
    try:
        with Display(job.total, run.step, "training") as show, Stop() as stop:
            reason = _steps(run, written, show, stop)
    finally:
        written.close()
    if reason in FINISHED:
        finish(run)
    else:
        run.save()
        job.say(f"{reason}: saved at step {run.step} of {job.total}; continue with --resume")
    of, scores = (run.best_step, run.best_scores) if run.ends_with_best else (run.step, run.last_scores)
    return Outcome(reason, run.step, run.best, run.meter.read().report(config.carbon_intensity), of, scores)


def _steps(run: Run, log: RunLog, show: Display, stop: Stop) -> str:
    """Take steps until the end, an early stop or a signal."""
    job, config = run.job, run.train
    validating, saving = every(config.validate_every, job.total), every(config.save_every, job.total)
    batches, recorder = job.batches(run.position), recorder_of(run)
    means, waiting = RunningMeans(work_per_unit(run)), list[StepResult]()
    while run.step < job.total and not overdue(run):
        if stop.signal:
            _settle(run, waiting, means)
            return stop.signal
        share = run.rate()
        waiting.append(one_step(run, batches, recorder))
        last = run.step == job.total
        logs, validates, saves = (last or run.step % n == 0 for n in (config.log_every, validating, saving))
        if not _settle(run, waiting, means, but=0 if logs or validates or saves else 1):
            batches, waiting = _roll_back(run, show), []
            recorder = recorder_of(run)  # rolling back creates a new optimizer
            continue
        show.step(run.step, means.facts())
        if logs:
            log.write(run.step, rate=share, skipped=run.skipped, **means.take())
        if validates and job.valid is not None:
            validate(run, log, show)
        if saves or overdue(run):
            run.save()
    return "early" if overdue(run) else "done"


def one_step(run: Run, batches: Iterator[tuple[Any, int]], recorder: Recorder | None = None) -> StepResult:
    """Take one optimizer step. If the loss or gradient is not finite, the weights do not change."""
    micro = [next(batches) for _ in range(run.train.accumulate)]
    run.optimizer.set_rate(run.rate())
    if recorder is None:
        names, values = _update(run, _gradients(run, [move(batch, run.device) for batch, _ in micro]))
    else:
        names, values = recorder(micro[0][0], run.device)
        run.shape = recorder.shape
    run.position = micro[-1][1]
    run.advance()
    sizes = [size(batch) for batch, _ in micro]
    return StepResult(names, values, sum(one.amount for one in sizes), sizes[-1].unit)


def recorder_of(run: Run) -> Recorder | None:
    """Return a recorder for the steps of a run, or None if they cannot be recorded."""
    if run.train.compile == "no" or not run.recordable():
        return None
    shape = run.shape or StaticShape.of([batch for batch, _ in islice(run.job.batches(0), SAMPLE)])
    if shape is None:
        return None
    return Recorder(
        shape,
        gradients=lambda batch: _gradients(run, [batch]),
        plain=lambda batch: _gradients(run, [batch], run.plain_losses),
        update=lambda losses: _update(run, losses),
        forget=run.optimizer.forget,
    )


def _gradients(run: Run, micro: list[Any], losses: Callable[[Any], Losses] | None = None) -> dict[str, torch.Tensor]:
    """Sum the gradients of the micro-batches; each part of the loss is divided by its targets in all micro-batches."""
    objective, sums = run.job.objective, dict[str, torch.Tensor]()
    counts = _counts(objective, micro) if len(micro) > 1 else None  # a single batch brings its own counts
    for batch in micro:
        parts = (losses or run.losses)(ready(batch))
        for name, part in parts.items():
            share = weighted({name: part}, objective.weights, counts).detach()
            sums[name] = sums[name] + share if name in sums else share
        weighted(parts, objective.weights, counts).backward()
    return sums


def _update(run: Run, losses: dict[str, torch.Tensor]) -> tuple[tuple[str, ...], torch.Tensor]:
    """Update the weights; return the losses and the gradient norm."""
    norm = run.optimizer.norm()
    values = torch.stack([*losses.values(), norm])
    sound = values.sum()  # not finite if any value is not finite
    run.optimizer.step(torch.where(sound.isfinite(), norm, sound))
    return tuple(losses), values


def _settle(run: Run, waiting: list[StepResult], means: RunningMeans, but: int = 0) -> bool:
    """Read the results of all steps except the newest `but`; return False if too many in a row were not finite."""
    while len(waiting) > but:
        result = waiting.pop(0)
        *losses, norm = result.values.tolist()
        if all(map(math.isfinite, (*losses, norm))):
            means.add(dict(zip(result.names, losses, strict=True)), norm, result.size, result.unit)
            run.in_a_row = 0
        else:
            run.skipped += 1
            run.in_a_row += 1
    return run.in_a_row < PATIENCE


def _counts(objective: Any, micro: list[Any]) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    for batch in micro:
        for name, count in objective.counts(batch).items():
            found[name] = found.get(name, torch.tensor(0)) + count
    return found


def _roll_back(run: Run, show: Display) -> Iterator[tuple[Any, int]]:
    """Return to the last checkpoint with a lower learning rate, or give up."""
    found = newest_checkpoint(run.root, show.say)
    if found is None or run.roll_backs >= ROLL_BACKS:
        raise QkvError(
            f"the loss has not been finite since step {run.step - run.in_a_row} and {run.roll_backs} roll-backs "
            f"did not help: lower optim.lr (now {run.optim.lr:g}) or raise optim.warmup"
        )
    skipped, roll_backs, slower, position = run.skipped, run.roll_backs + 1, run.slower * SLOWER, run.position
    run.restore(found)
    # The same batches may fail again even at a lower rate: continue with the data after them.
    run.skipped, run.roll_backs, run.slower, run.position, run.in_a_row = skipped, roll_backs, slower, position, 0
    show.say(f"the loss is not finite: back to step {run.step} with {slower:g} of the learning rate")
    return run.job.batches(run.position)
