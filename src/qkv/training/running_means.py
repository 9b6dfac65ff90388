"""Results of training steps, and their means since the last log line."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch

from qkv.common.batch import UNITS


@dataclass(frozen=True)
class StepResult:
    """The result of a step: its losses and gradient norm, still on the device, and its size."""

    names: tuple[str, ...]
    values: torch.Tensor
    size: int
    unit: str


class RunningMeans:
    """Running means since the last log line.

    Args:
        work: the share of the device's peak that one unit per second takes, or None if it is not known.
    """

    def __init__(self, work: float | None = None) -> None:
        self.work = work
        self.sums: dict[str, float] = {}
        self.steps = self.size = 0
        self.unit = "tok"
        self.start = time.perf_counter()
        self.loss = 0.0
        self.text = ""

    def add(self, losses: dict[str, float], norm: float, size: int, unit: str) -> None:
        """Add a step."""
        self.steps += 1
        self.size += size
        self.unit = unit
        self.loss = sum(losses.values())
        for name, value in {"loss": self.loss, "gradient": norm, **losses}.items():
            self.sums[name] = self.sums.get(name, 0.0) + value

    def facts(self) -> str:
        """Return the text of the progress bar; right after a log line, the previous text."""
        if self.steps:
            share = "" if self.work is None else f"  {self.speed * self.work:.0%} of peak"
            self.text = f"loss {self.loss:.3f}  {self.speed:,.0f} {self.unit}/s{share}"
        return self.text

    @property
    def speed(self) -> float:
        """Units per second."""
        return self.size / (time.perf_counter() - self.start)

    def take(self) -> dict[str, float]:
        """Return the means and reset them."""
        means = {name: value / self.steps for name, value in self.sums.items()}
        means[f"{UNITS[self.unit]}_per_second"] = self.speed
        if self.work is not None:
            means["share_of_peak"] = self.speed * self.work
        text = self.facts()
        self.__init__(self.work)  # type: ignore[misc]
        self.text = text
        return means
