"""The loop. One for every family, objective and recipe.

    batches ─► forward, backward (× accumulate) ─► clip ─► step ─► average
                                                     └─► log, validate, save, stop

All that decides the next step is in `Run`, and `Run` is what a checkpoint holds: resuming continues bit for bit. The
loop never waits for the device: what a step gave is read when the next one is under way.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch

from qkv.checkpoints.state import newest_checkpoint
from qkv.common.batch import move, size
from qkv.common.cuda.recorder import Recorder
from qkv.common.cuda.static_shape import StaticShape
from qkv.common.errors import QkvError
from qkv.objectives.parts import weighted
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

PATIENCE = 5  # steps in a row whose loss or gradient is not finite, before the run rolls back
ROLL_BACKS = 3  # before it gives up
SAMPLE = 100  # batches from which the shape of recorded steps is taken
FINISHED = ("done", "early")  # how a run ends that nobody stopped
SLOWER = 0.5  # what the rate is multiplied by at each roll-back


@dataclass(frozen=True)
class Outcome:
    """How a run ended: "done", "early" or the name of a signal."""

    reason: str
    step: int
    best: float | None
    energy: dict[str, object]

    @property
    def finished(self) -> bool:
        """Whether there is nothing to go on with."""
        return self.reason in FINISHED


def train(
    job: Job, config: TrainConfig, optim: OptimConfig, log: LogConfig | None = None, *, resume: bool = False
) -> Outcome:
    """Train a model to the end, or until it is asked to stop."""
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
        job.say(f"{reason}: saved at step {run.step} of {job.total}; go on with --resume")
    return Outcome(reason, run.step, run.best, run.meter.read().report(config.carbon_intensity))


def _steps(run: Run, log: RunLog, show: Display, stop: Stop) -> str:
    """Take steps until the end, an early stop or a signal."""
    job, config = run.job, run.train
    validating, saving = every(config.validate_every, job.total), every(config.save_every, job.total)
    batches, recorder = job.batches(run.position), recorder_of(run)
    tally, waiting = RunningMeans(work_per_unit(run)), list[StepResult]()
    while run.step < job.total and not overdue(run):
        if stop.asked:
            _settle(run, waiting, tally)
            return stop.asked
        share = run.rate()
        waiting.append(one_step(run, batches, recorder))
        last = run.step == job.total
        logs, validates, saves = (last or run.step % n == 0 for n in (config.log_every, validating, saving))
        if not _settle(run, waiting, tally, but=0 if logs or validates or saves else 1):
            batches, waiting = _roll_back(run, show), []
            recorder = recorder_of(run)  # the optimizer is a new one
            continue
        show.step(run.step, tally.facts())
        if logs:
            log.write(run.step, rate=share, skipped=run.skipped, **tally.take())
        if validates and job.valid is not None:
            validate(run, log, show)
        if saves or overdue(run):
            run.save()
    return "early" if overdue(run) else "done"


def one_step(run: Run, batches: Iterator[tuple[Any, int]], recorder: Recorder | None = None) -> StepResult:
    """Take one optimizer step; one whose loss or gradient is not finite moves nothing."""
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
    """Return what records steps, where they can be."""
    if run.train.compile == "no" or not run.recordable():
        return None
    shape = run.shape or StaticShape.of([batch for batch, _ in islice(run.job.batches(0), SAMPLE)])
    if shape is None:
        return None
    return Recorder(
        shape,
        gradients=lambda batch: _gradients(run, [batch]),
        update=lambda losses: _update(run, losses),
        forget=run.optimizer.forget,
    )


def _gradients(run: Run, micro: list[Any]) -> dict[str, torch.Tensor]:
    """Sum the gradients of the micro-batches, each part divided once by its targets in all of them."""
    objective, sums = run.job.objective, dict[str, torch.Tensor]()
    counts = _counts(objective, micro) if len(micro) > 1 else None  # one batch by itself counts as it goes
    for batch in micro:
        parts = run.losses(ready(batch))
        for name, part in parts.items():
            share = weighted({name: part}, objective.weights, counts).detach()
            sums[name] = sums[name] + share if name in sums else share
        weighted(parts, objective.weights, counts).backward()
    return sums


def _update(run: Run, losses: dict[str, torch.Tensor]) -> tuple[tuple[str, ...], torch.Tensor]:
    """Move the weights; returns the losses and the norm of the gradient."""
    norm = run.optimizer.norm()
    values = torch.stack([*losses.values(), norm])
    sound = values.sum()  # not finite if any of them is not
    run.optimizer.step(torch.where(sound.isfinite(), norm, sound))
    return tuple(losses), values


def _settle(run: Run, waiting: list[StepResult], tally: RunningMeans, but: int = 0) -> bool:
    """Read what steps gave, all `but` the newest; false once too many in a row were not finite."""
    while len(waiting) > but:
        taken = waiting.pop(0)
        *losses, norm = taken.values.tolist()
        if all(map(math.isfinite, (*losses, norm))):
            tally.add(dict(zip(taken.names, losses, strict=True)), norm, taken.size, taken.unit)
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
    """Go back to the last checkpoint with a lower rate, or give up."""
    found = newest_checkpoint(run.root, show.say)
    if found is None or run.roll_backs >= ROLL_BACKS:
        raise QkvError(
            f"the loss is not finite since step {run.step - run.in_a_row} and {run.roll_backs} roll-backs did not "
            f"help: lower optim.lr (now {run.optim.lr:g}) or raise optim.warmup"
        )
    skipped, roll_backs, slower, position = run.skipped, run.roll_backs + 1, run.slower * SLOWER, run.position
    run.restore(found)
    # The same batches at a lower rate may fail again: go on with the data after them.
    run.skipped, run.roll_backs, run.slower, run.position, run.in_a_row = skipped, roll_backs, slower, position, 0
    show.say(f"the loss is not finite: back to step {run.step} with {slower:g} of the rate")
    return run.job.batches(run.position)
