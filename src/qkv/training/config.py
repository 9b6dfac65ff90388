"""The `[train]` table of a recipe: settings of the training loop."""

from __future__ import annotations

from dataclasses import dataclass

from qkv.common.config import check_range

MOST_WORKERS = 256


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Settings of the training loop.

    Attributes:
        steps: the total number of optimizer steps. 0 uses epochs instead.
        epochs: passes over the data, used if steps is 0.
        tokens: the token budget of a batch.
        accumulate: batches per optimizer step (gradient accumulation).
        seed: the seed for weights, dropout and data order.
        workers: threads that prepare batches.
        precision: auto (bf16 on CUDA devices that support it, otherwise fp32), bf16 or fp32.
        compile: auto, record, yes or no. On CUDA, record captures each step as a CUDA graph where possible; yes also
            compiles the step first, which pays off in long runs; auto chooses between them; no does neither.
        ema: the decay of the exponential moving average (EMA) of the weights. 0 turns it off.
        average_last: how many of the last checkpoints to average at the end. 0 turns it off.
        validate_every: steps between validations. Below 1, a share of all steps.
        save_every: steps between checkpoints. Below 1, a share of all steps.
        keep: how many of the newest checkpoints to keep.
        keep_checkpoints: keep checkpoints/ when the run is finished. They hold the optimizer state, several times the
            size of the model, and a finished run does not need them.
        patience: stop after this many validations that are not the best so far. 0 never stops early. If set, the run's
            folder ends with the best validated weights.
        keep_best: end with the weights that validated best, by the task's own metric if it has one, otherwise by the
            loss. If false, end with the last weights or their average.
        balance: for single-label classify, weigh each class in the loss by 1 / √(its number of examples).
        match_rates: for single-label classify, shift the classifier's biases at the end so that each class is predicted
            on the validation set as often as it occurs in the training set.
        threads: CPU threads for training. 0 uses torch's own number, one per core.
        log_every: steps between lines of metrics.jsonl.
        carbon_intensity: grams of CO2 per kWh of your power grid.
    """

    steps: int = 0
    epochs: float = 1.0
    tokens: int = 4096
    accumulate: int = 1
    seed: int = 1
    workers: int = 2
    precision: str = "auto"
    compile: str = "auto"
    ema: float = 0.0
    average_last: int = 0
    validate_every: float = 0.1
    save_every: float = 0.1
    keep: int = 2
    keep_checkpoints: bool = False
    patience: int = 0
    keep_best: bool = False
    balance: bool = False
    match_rates: bool = False
    threads: int = 0
    log_every: int = 10
    carbon_intensity: float = 480.0

    def __post_init__(self) -> None:
        check_range("train.seed", self.seed, 0, below=2**63)
        check_range("train.workers", self.workers, 0, below=MOST_WORKERS + 1)  # each worker holds a batch
        check_range("train.threads", self.threads, 0, below=MOST_WORKERS + 1)
        check_range("train.ema", self.ema, 0, below=1)
        for name in ("validate_every", "save_every", "patience", "carbon_intensity"):
            check_range(f"train.{name}", getattr(self, name), 0)


def every(value: float, total: int) -> int:
    """Convert an interval to steps; a value below 1 is a share of all steps."""
    return max(1, round(value * total) if value < 1 else int(value))
