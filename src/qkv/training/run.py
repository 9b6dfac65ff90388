"""The state of a run: everything that determines its next step, and therefore everything that a checkpoint holds."""

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
from qkv.common.cuda.static_shape import Shape, StaticShape
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
COMPILING_PAYS = 1e17  # FLOPs of a run: a few minutes on a large GPU, while compiling takes about one
MANY_STEPS = 8_000  # pays off for any size: a compiled step has fewer kernels and is a few milliseconds faster
# Padded rows of attention scores would have to be copied where our kernels or biases need them unpadded.
COMPILING: dict[str, Any] = {"comprehensive_padding": False}


def check_compile(mode: str, device: torch.device) -> None:
    """Raise an error if train.compile is yes but the machine cannot compile."""
    if mode == "yes" and device.type == "cuda" and not buildable(device):
        raise UsageError(
            "train.compile = yes needs Triton, a C compiler and Python's headers, and at least one of them is missing: "
            "use auto, record or no"
        )


@dataclass(frozen=True)
class Job:
    """The inputs of the loop.

    Attributes:
        model: the model, on its device.
        objective: maps (model, batch) to losses, with the `weights` of its parts and `counts(batch)`, their targets.
        batches: maps a data position to an endless stream of (batch, position after it).
        total: the total number of optimizer steps.
        folder: the run's folder.
        valid: returns the validation batches, starting from the first on each call, or None.
        finish: writes the model folder from the weights in the model.
        say: prints a line for the user.
        callbacks: called with the step and the values of each line of the log.
        measure: scores the weights in the model on validation examples, or None. Higher is better, and the first metric
            decides which weights are best.
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
    measure: Callable[[], Mapping[str, float]] | None = None


def ready(batch: Any) -> Any:
    """Compute the cached properties of layouts once, outside the compiled code."""
    for layout in layouts(batch):
        _ = layout.position_of
    return batch


class Run:
    """The state of a run: everything that a checkpoint must hold."""

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
        self.best_scores: dict[str, float] | None = None  # the metrics of the best weights,
        self.last_scores: dict[str, float] | None = None  # and of the last validated ones
        self.slower = 1.0  # lowered by each roll-back
        self.meter = Meter(self.device)
        self.bf16 = wants_bf16(train.precision, self.device)
        self.losses = torch.compile(self.plain_losses, options=COMPILING) if self._compiles() else self.plain_losses
        self.shape: Shape | None = None  # of recorded steps; see common/cuda/recorder.py

    FACTS = (
        "position",
        "skipped",
        "in_a_row",
        "roll_backs",
        "worse",
        "best",
        "best_step",
        "slower",
        "best_scores",
        "last_scores",
    )

    def checkpoint(self) -> Checkpoint:
        """Return the state of the run as a checkpoint."""
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
        """Restore the state of a run from a checkpoint."""
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
            setattr(self, name, found.facts.get(name))  # earlier versions wrote fewer
        shape = found.facts.get("shape", found.facts.get("form"))  # "form" in earlier versions
        self.shape = None if shape is None else StaticShape.read(shape)
        self.meter = Meter(self.device, Energy(sources={}, **found.facts["energy"]))

    def weights(self) -> dict[str, Tensor]:
        """Return every tensor of the model once: a table that two models share appears under one name."""
        model = self.job.model
        return {name: tensor.detach() for name, tensor in [*model.named_parameters(), *model.named_buffers()]}

    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Load a complete set of weights into the model."""
        if missing := self.weights().keys() - weights.keys():
            raise QkvError(f"the checkpoint lacks {min(missing)}")
        self.job.model.load_state_dict(dict(weights), strict=False)

    @property
    def ends_with_best(self) -> bool:
        """Whether the run's folder ends with the best validated weights, not with the last ones."""
        return bool(self.train.patience) or self.train.keep_best

    @property
    def root(self) -> Path:
        """The folder of the checkpoints."""
        return self.job.folder / "checkpoints"

    @property
    def best_folder(self) -> Path:
        """The folder of the best validated weights."""
        return self.job.folder / "best"

    def save(self) -> None:
        """Write a checkpoint, then remove the oldest one."""
        write_checkpoint(self.root, self.checkpoint())
        keep_checkpoints(self.root, max(self.train.keep, self.train.average_last))

    def advance(self) -> None:
        """Count a completed step."""
        self.step += 1
        if self.average is not None:
            self.average.update(self.job.model)

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Use the moving average as the model's weights inside the `with` block."""
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
        """Compute the losses of a batch on the device, with autocast if the run uses bf16; weights stay in fp32."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
            return self.learner(batch)

    def recordable(self) -> bool:
        """Whether steps can be recorded: shapes are static, and each step has one batch."""
        dtype = torch.bfloat16 if self.bf16 else torch.float32
        models = (self.job.model, *getattr(self.job.objective, "frozen", ()))
        return self.train.accumulate == 1 and all(recordable(model, self.device, dtype) for model in models)

    def _compiles(self) -> bool:
        if self.train.compile not in COMPILES:
            raise unknown("train.compile", self.train.compile, COMPILES)
        weights = sum(parameter.numel() for parameter in self.job.model.parameters())
        work = 6.0 * weights * self.train.tokens * self.train.accumulate * self.job.total
        pays = work > COMPILING_PAYS or (self.job.total >= MANY_STEPS and self.recordable())
        return self.train.compile == "yes" or (self.train.compile == "auto" and pays and buildable(self.device))

    def rate(self) -> float:
        """Return the learning rate of the current step as a share of the peak."""
        warmup = self.optim.warmup * self.job.total if self.optim.warmup < 1 else self.optim.warmup
        return self.slower * rate(self.optim.schedule, self.step + 1, warmup=int(warmup), total=self.job.total)
