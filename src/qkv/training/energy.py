"""Energy and carbon of a run: measured if the machine allows it, otherwise estimated and marked as such.

Measured: NVML's total energy counter for GPUs, RAPL's for CPU packages. Estimated: watts per GPU or core times
the seconds. CO2 is the energy times the carbon intensity of the grid (Strubell et al. 2019), a setting.
"""

from __future__ import annotations

import ctypes
import os
import time
from dataclasses import dataclass
from pathlib import Path

import torch

WATTS_PER_CORE = 10.0
WATTS_PER_GPU = 500.0
RAPL = Path("/sys/class/powercap")


@dataclass(frozen=True)
class Energy:
    """The energy used by a run so far.

    Attributes:
        seconds: wall-clock time.
        joules: the energy by part (gpu, cpu).
        sources: the source of each part: NVML, RAPL or an estimate.
    """

    seconds: float
    joules: dict[str, float]
    sources: dict[str, str]

    @property
    def total(self) -> float:
        """The joules of all parts."""
        return sum(self.joules.values())

    @property
    def power(self) -> str:
        """Where the energy of each part comes from, in words."""
        return ", ".join(f"{part}: {source}" for part, source in self.sources.items())

    def report(self, grams_per_kwh: float) -> dict[str, object]:
        """Return the contents of energy.json."""
        kwh = self.total / 3.6e6
        return {
            "seconds": round(self.seconds, 1),
            "joules": {part: round(value, 1) for part, value in self.joules.items()},
            "sources": self.sources,
            "estimated": any(source.startswith("estimated") for source in self.sources.values()),
            "kwh": kwh,
            "carbon_intensity_g_per_kwh": grams_per_kwh,
            "co2_g": kwh * grams_per_kwh,
        }


class Meter:
    """Measures energy from its creation on; `before` is the energy used before the run was resumed."""

    def __init__(self, device: torch.device, before: Energy | None = None) -> None:
        self.device = device
        self.before = before or Energy(0.0, {}, {})
        self.start = time.perf_counter()
        self.counters = self._read()

    def read(self) -> Energy:
        """Return the energy used since the run's first step."""
        seconds = time.perf_counter() - self.start
        joules, sources = dict(self.before.joules), {}
        now = self._read()
        for part, watts in self._parts().items():
            if part in now and part in self.counters:
                used, sources[part] = now[part] - self.counters[part], "NVML" if part == "gpu" else "RAPL"
            else:
                used, sources[part] = watts * seconds, f"estimated at {watts:g} W"
            joules[part] = joules.get(part, 0.0) + max(used, 0.0)
        return Energy(self.before.seconds + seconds, joules, sources)

    def _parts(self) -> dict[str, float]:
        parts = {"cpu": WATTS_PER_CORE * len(os.sched_getaffinity(0))}
        return {"gpu": WATTS_PER_GPU} | parts if self.device.type == "cuda" else parts

    def _read(self) -> dict[str, float]:
        found = {"gpu": _nvml(self.device.index or 0) if self.device.type == "cuda" else None, "cpu": _rapl()}
        return {part: joules for part, joules in found.items() if joules is not None}


def _rapl() -> float | None:
    """Return the energy counter of all CPU packages in joules, or None if it cannot be read."""
    try:
        files = [path / "energy_uj" for path in RAPL.glob("intel-rapl:?")]
        return sum(int(file.read_text()) for file in files) / 1e6 if files else None
    except (OSError, ValueError):
        return None


def _nvml(index: int) -> float | None:
    """Return the joules that a GPU has used since its driver was loaded, or None if they cannot be read."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        handle, millijoules = ctypes.c_void_p(), ctypes.c_ulonglong()
        if nvml.nvmlInit_v2() or nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)):
            return None
        if nvml.nvmlDeviceGetTotalEnergyConsumption(handle, ctypes.byref(millijoules)):
            return None
        return millijoules.value / 1000
    except OSError:
        return None
