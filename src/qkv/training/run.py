"""The state of a run: everything that decides its next step, and so everything that a checkpoint holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from qkv.checkpoints.state import Checkpoint, keep_checkpoints, write_checkpoint
from qkv.common.batch import layouts
from qkv.common.cuda.static_shape import StaticShape
from qkv.common.cuda.triton import buildable
from qkv.common.errors import QkvError, UsageError, unknown
from qkv.nn.kernels import recordable
from qkv.objectives.parts import Losses
from qkv.training.averaging import MovingAverage
from qkv.training.config import TrainConfig
from qkv.training.energy import Energy, Meter
from qkv.training.learner import Learner
from qkv.training.memory import keep_memory
from qkv.training.optim import OptimConfig, Optimizer
from qkv.training.precision import wants_bf16
from qkv.training.schedule import rate

COMPILES = ("auto", "record", "yes", "no")
COMPILING_PAYS = 1e17  # products and sums of a run: some minutes of a large GPU, where compiling takes one
MANY_STEPS = 8_000  # however small: compiled, a step has fewer kernels and takes some milliseconds less
# Padded rows of scores would be copied where a kernel or a bias of our own needs them as they are.
COMPILING: dict[str, Any] = {"comprehensive_padding": False}


def check_compile(mode: str, device: torch.device) -> None:
    """Refuse to compile where it cannot be done."""
    if mode == "yes" and device.type == "cuda" and not buildable(device):
        raise UsageError(
            "train.compile = yes needs Triton, a C compiler and Python's headers, and something of that is missing "
            "here: use auto, record or no"
        )


@dataclass(frozen=True)
class Job:
    """What the loop is given.

    Attributes:
        model: on its device.
        objective: (model, batch) to losses; `weights` of its parts, `counts(batch)` the targets of each.
        batches: from a data position to (batch, position after it), without end.
        total: optimizer steps in all.
        folder: the run's.
        valid: the validation batches, from the first each time, or None.
        finish: writes the model folder from the weights in the model.
        say: prints a line for the user.
        callbacks: called with the step and the values of each line of the log.
    """

    model: nn.Module
    objective: Any
    batches: Callable[[int], Iterator[tuple[Any, int]]]
    total: int
    folder: Path
    valid: Callable[[], Iterable[Any]] | None
    finish: Callable[[nn.Module, Path], None]
    say: Callable[[str], None]
    callbacks: Sequence[Callable[[int, dict[str, float]], None]] = ()


def ready(batch: Any) -> Any:
    """Work out once, outside what is compiled, what layouts are asked for."""
    for layout in layouts(batch):
        _ = layout.position_of
    return batch


class Run:
    """The state of a run: all that a checkpoint must hold."""

    def __init__(self, job: Job, train: TrainConfig, optim: OptimConfig) -> None:
        self.job, self.train, self.optim = job, train, optim
        self.device = next(job.model.parameters()).device
        if self.device.type == "cpu":
            keep_memory()
        self.learner: nn.Module = Learner(job.model, job.objective)  # a distributed run wraps it here
        self.optimizer = Optimizer(job.model, optim)
        self.average = MovingAverage(job.model, train.ema) if train.ema else None
        self.step = self.position = self.skipped = self.in_a_row = self.roll_backs = self.worse = 0
        self.best: float | None = None
        self.best_step: int | None = None
        self.slower = 1.0  # lowered by each roll-back
        self.meter = Meter(self.device)
        self.bf16 = wants_bf16(train.precision, self.device)
        self.losses = torch.compile(self.plain_losses, options=COMPILING) if self._compiles() else self.plain_losses
        self.shape: StaticShape | None = None  # of recorded steps; see common/cuda/recorder.py

    FACTS = ("position", "skipped", "in_a_row", "roll_backs", "worse", "best", "best_step", "slower")

    def checkpoint(self) -> Checkpoint:
        """Take everything down."""
        parts: dict[str, dict[str, Tensor]] = {
            "model": self.weights(),
            "optimizer": self.optimizer.tensors(),
            "random": {"cpu": torch.get_rng_state()},
        }
        if self.device.type == "cuda":
            parts["random"]["cuda"] = torch.cuda.get_rng_state(self.device)
        if self.average is not None:
            parts["average"] = self.average.weights
        energy = self.meter.read()
        facts = {name: getattr(self, name) for name in self.FACTS}
        facts["shape"] = None if self.shape is None else asdict(self.shape)
        facts["average_steps"] = self.average.steps if self.average else 0
        facts["energy"] = {"seconds": energy.seconds, "joules": energy.joules}
        return Checkpoint(self.step, parts, facts)

    def restore(self, found: Checkpoint) -> None:
        """Become what a checkpoint holds."""
        self.load(found.parts["model"])
        self.optimizer = Optimizer(self.job.model, self.optim)
        self.optimizer.restore(found.parts["optimizer"])
        if self.average is not None:
            for name, tensor in found.parts["average"].items():
                self.average.weights[name].copy_(tensor)
            self.average.steps = found.facts["average_steps"]
        torch.set_rng_state(found.parts["random"]["cpu"])
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(found.parts["random"]["cuda"], self.device)
        self.step = found.step
        for name in self.FACTS:
            setattr(self, name, found.facts.get(name))  # earlier versions did not write best_step
        shape = found.facts.get("shape", found.facts.get("form"))  # its name before
        self.shape = None if shape is None else StaticShape.read(shape)
        self.meter = Meter(self.device, Energy(sources={}, **found.facts["energy"]))

    def weights(self) -> dict[str, Tensor]:
        """Return every tensor of the model once: two models that share a table have it under one name."""
        model = self.job.model
        return {name: tensor.detach() for name, tensor in [*model.named_parameters(), *model.named_buffers()]}

    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Put weights into the model, all of them."""
        if missing := self.weights().keys() - weights.keys():
            raise QkvError(f"the checkpoint lacks {min(missing)}")
        self.job.model.load_state_dict(dict(weights), strict=False)

    @property
    def root(self) -> Path:
        """Where the checkpoints are."""
        return self.job.folder / "checkpoints"

    @property
    def best_folder(self) -> Path:
        """Where the weights of the best validation are."""
        return self.job.folder / "best"

    def save(self) -> None:
        """Write a checkpoint, then let the oldest go."""
        write_checkpoint(self.root, self.checkpoint())
        keep_checkpoints(self.root, max(self.train.keep, self.train.average_last))

    def advance(self) -> None:
        """Count a step that was taken."""
        self.step += 1
        if self.average is not None:
            self.average.update(self.job.model)

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Have the moving average in the model for a while."""
        if self.average is None:
            yield
            return
        kept = {name: tensor.clone() for name, tensor in self.weights().items()}
        self.job.model.load_state_dict(self.average.weights, strict=False)
        try:
            yield
        finally:
            self.load(kept)

    def plain_losses(self, batch: Any) -> Losses:
        """Compute the losses of a batch on the device, in bf16 where the run does, with the weights in fp32."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
            return self.learner(batch)

    def recordable(self) -> bool:
        """Whether its steps can be recorded: their shapes are fixed, and each is of one batch."""
        dtype = torch.bfloat16 if self.bf16 else torch.float32
        return self.train.accumulate == 1 and recordable(self.job.model, self.device, dtype)

    def _compiles(self) -> bool:
        if self.train.compile not in COMPILES:
            raise unknown("train.compile", self.train.compile, COMPILES)
        weights = sum(parameter.numel() for parameter in self.job.model.parameters())
        work = 6.0 * weights * self.train.tokens * self.train.accumulate * self.job.total
        pays = work > COMPILING_PAYS or (self.job.total >= MANY_STEPS and self.recordable())
        return self.train.compile == "yes" or (self.train.compile == "auto" and pays and buildable(self.device))

    def rate(self) -> float:
        """Return the share of the peak rate for the step at hand."""
        warmup = self.optim.warmup * self.job.total if self.optim.warmup < 1 else self.optim.warmup
        return self.slower * rate(self.optim.schedule, self.step + 1, warmup=int(warmup), total=self.job.total)
