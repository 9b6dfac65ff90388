"""Experiment trackers, in addition to metrics.jsonl: TensorBoard and Weights & Biases."""

from __future__ import annotations

import secrets
import tomllib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from qkv.common.errors import QkvError, unknown
from qkv.data.optional import need

EXTRA = "'qkv[track]'"


@dataclass(frozen=True, kw_only=True)
class LogConfig:
    """Where to log metrics besides metrics.jsonl.

    Attributes:
        track: auto (TensorBoard if it is installed), tensorboard, wandb (Weights & Biases) or none.
        project: the Weights & Biases project.
        online: upload to Weights & Biases during the run. Otherwise, or without a network, everything is kept in the
            folder `wandb` of the run for `wandb sync`.
    """

    track: str = "auto"
    project: str = "qkv"
    online: bool = False


class Tracker(Protocol):
    """An experiment tracker."""

    def write(self, step: int, values: dict[str, float]) -> None:
        """Log the values of a step."""

    def close(self) -> None:
        """Flush."""


def check_tracker(config: LogConfig) -> None:
    """Raise an error for a tracker that does not exist or is not installed, before anything slow starts."""
    if config.track not in TRACKERS:
        raise unknown("tracker log.track", config.track, TRACKERS)
    if config.track in ("tensorboard", "wandb"):
        need(config.track, f"log.track={config.track}", EXTRA)


def tracker_of(config: LogConfig, folder: Path, from_step: int) -> Tracker | None:
    """Open the tracker that a recipe selects."""
    check_tracker(config)
    return TRACKERS[config.track](config, folder, from_step)


class TensorBoard:
    """Event files in the run's folder."""

    def __init__(self, config: LogConfig, folder: Path, from_step: int) -> None:
        del config
        from torch.utils.tensorboard import SummaryWriter

        self.board: Any = SummaryWriter(str(folder / "tensorboard"), purge_step=from_step + 1 if from_step else None)

    def write(self, step: int, values: dict[str, float]) -> None:
        """Add a point to each curve."""
        for name, value in values.items():
            self.board.add_scalar(name, value, step)

    def close(self) -> None:
        """Flush."""
        self.board.close()


class WeightsAndBiases:
    """A run of Weights & Biases, with the recipe as its config. Resuming continues the same run."""

    def __init__(self, config: LogConfig, folder: Path, from_step: int) -> None:
        self.wandb = need("wandb", "log.track=wandb", EXTRA)
        known, recipe = folder / "wandb.id", folder / "recipe.toml"
        if not (from_step and known.is_file()):
            known.write_text(secrets.token_hex(4), "utf-8")
        self.options: dict[str, Any] = {
            "project": config.project,
            "name": folder.name,
            "dir": str(folder),
            "id": known.read_text("utf-8"),
            "resume": "allow",
            "config": tomllib.loads(recipe.read_text("utf-8")) if recipe.is_file() else {},
        }
        self.run = self._online() if config.online else self._offline()

    def _online(self) -> Any:
        try:
            return self.wandb.init(**self.options, mode="online")
        except (self.wandb.Error, OSError) as error:
            kept = Path(self.options["dir"], "wandb")
            warnings.warn(f"Weights & Biases cannot be reached ({error}): metrics are kept in {kept}", stacklevel=2)
            return self._offline()

    def _offline(self) -> Any:
        try:
            return self.wandb.init(**self.options, mode="offline")
        except (self.wandb.Error, OSError) as error:
            raise QkvError(f"Weights & Biases cannot start a run: {error}") from None

    def write(self, step: int, values: dict[str, float]) -> None:
        """Log a step; the losses and the validation of a step are two calls."""
        self.run.log(values, step=step)

    def close(self) -> None:
        """Flush."""
        self.run.finish()


def _auto(config: LogConfig, folder: Path, from_step: int) -> Tracker | None:
    try:
        return TensorBoard(config, folder, from_step)
    except ImportError:
        return None


TRACKERS: dict[str, Callable[[LogConfig, Path, int], Tracker | None]] = {
    "auto": _auto,
    "tensorboard": TensorBoard,
    "wandb": WeightsAndBiases,
    "none": lambda *_: None,
}
