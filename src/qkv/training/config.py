"""How long and how carefully a run trains."""

from __future__ import annotations

from dataclasses import dataclass

from qkv.common.config import check_range

MOST_WORKERS = 256


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Numbers of the loop.

    Attributes:
        steps: optimizer steps in all; 0 to count by epochs.
        epochs: passes over the data where steps is 0.
        tokens: token budget of a batch.
        accumulate: batches of one optimizer step.
        seed: of weights, dropout and data order.
        workers: threads that prepare batches.
        precision: auto (bf16 on CUDA that has it, else fp32), bf16 or fp32.
        compile: auto, record, yes or no. On CUDA steps are recorded as a graph where they can be; compiling them first
            pays for a long run and is what yes asks for, auto decides, and no does neither.
        ema: decay of the exponential moving average of the weights, 0 for none.
        average_last: checkpoints whose weights are averaged at the end, 0 for none.
        validate_every: steps between validations; below 1, a share of all steps.
        save_every: steps between checkpoints; below 1, a share of all steps.
        keep: newest checkpoints kept.
        patience: validations without a better loss before the run stops early, 0 for never. With it the run's folder
            ends with the weights of the best validation; without it, with the last ones or their average.
        match_rates: for classify with one class each, move the classifier's biases at the end until it says each class
            as often on validation texts as training has it.
        log_every: steps between lines of metrics.jsonl.
        carbon_intensity: grams of CO2 per kWh of the grid.
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
    patience: int = 0
    match_rates: bool = False
    log_every: int = 10
    carbon_intensity: float = 480.0

    def __post_init__(self) -> None:
        check_range("train.seed", self.seed, 0, below=2**63)
        check_range("train.workers", self.workers, 0, below=MOST_WORKERS + 1)  # each holds a batch
        check_range("train.ema", self.ema, 0, below=1)
        for name in ("validate_every", "save_every", "patience", "carbon_intensity"):
            check_range(f"train.{name}", getattr(self, name), 0)


def every(value: float, total: int) -> int:
    """Turn an interval, in steps or as a share of all steps, into steps."""
    return max(1, round(value * total) if value < 1 else int(value))
