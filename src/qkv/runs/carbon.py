"""`qkv energy RUN…`: the energy and the CO2 of runs added up, beside figures from the literature.

CO2 is energy times the carbon intensity of the grid. A run keeps the intensity it was started with
(train.carbon_intensity, 480 g/kWh unless set); another one can be asked for here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from qkv.common.config import check_range
from qkv.common.errors import UsageError
from qkv.runs.history import find_runs
from qkv.runs.layout import ENERGY, read_table

POUND = 0.45359237  # kilograms
SOURCE = "Strubell et al. 2019, Energy and Policy Considerations for Deep Learning in NLP, tables 1 and 3"
# In pounds of CO2 equivalents, as printed there.
REFERENCES = {
    "a flight New York - San Francisco, one passenger": 1984,
    "an average human life, one year": 11_023,
    "an average American life, one year": 36_156,
    "a car with its fuel, one lifetime": 126_000,
    "training Transformer (big) once": 192,
    "training BERT (base) once": 1438,
    "architecture search for a Transformer (big)": 626_155,
}


@dataclass(frozen=True)
class RunEnergy:
    """The energy of one run.

    Attributes:
        folder: the run.
        seconds: how long it trained.
        kwh: the energy it used.
        co2_g: grams of CO2.
        intensity: grams of CO2 per kWh.
        estimated: whether a part of the energy is watts times seconds, not a reading of a counter.
        sources: how the energy of each part was found.
    """

    folder: str
    seconds: float
    kwh: float
    co2_g: float
    intensity: float
    estimated: bool
    sources: dict[str, str]


@dataclass(frozen=True)
class Footprint:
    """The energy of several runs.

    Attributes:
        runs: those that say what they used.
        unknown: the folders of runs that do not: they have not ended, or an earlier version wrote them.
    """

    runs: Sequence[RunEnergy]
    unknown: Sequence[str]

    @property
    def seconds(self) -> float:
        """The seconds of all runs."""
        return sum(run.seconds for run in self.runs)

    @property
    def kwh(self) -> float:
        """The energy of all runs."""
        return sum(run.kwh for run in self.runs)

    @property
    def co2_g(self) -> float:
        """The CO2 of all runs, in grams."""
        return sum(run.co2_g for run in self.runs)

    def shares(self) -> dict[str, float]:
        """Return the CO2 of all runs as a share of each reference."""
        return {name: self.co2_g / 1000 / (pounds * POUND) for name, pounds in REFERENCES.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return everything for JSON."""
        shares = self.shares()
        beside = [
            {"what": name, "co2_kg": round(pounds * POUND, 1), "share": shares[name]}
            for name, pounds in REFERENCES.items()
        ]
        total = {"seconds": self.seconds, "kwh": self.kwh, "co2_g": self.co2_g}
        runs = [asdict(run) for run in self.runs]
        return {"runs": runs, "unknown": list(self.unknown), "total": total, "beside": beside, "source": SOURCE}


def footprint(folders: Sequence[str], grid: float | None = None) -> Footprint:
    """Add up the energy of runs, and of all runs below some folders.

    Args:
        folders: runs, or folders with runs in them.
        grid: grams of CO2 per kWh. If None, what each run recorded.
    """
    if grid is not None:
        check_range("--grid", grid, 0)
    runs, unknown = [], []
    for folder in find_runs(folders):
        found = energy_of(folder, grid)
        runs.append(found) if found else unknown.append(str(folder))
    if not runs:
        raise UsageError(f"{', '.join(unknown)} holds no energy.json: a run writes it when it ends")
    return Footprint(runs, unknown)


def energy_of(folder: Path, grid: float | None = None) -> RunEnergy | None:
    """Return the energy of a run, or None if the run does not say."""
    table = read_table(folder / ENERGY)
    try:
        kwh = float(table["kwh"])
        intensity = float(table["carbon_intensity_g_per_kwh"] if grid is None else grid)
        seconds, sources = float(table["seconds"]), {k: str(v) for k, v in dict(table.get("sources", {})).items()}
    except (KeyError, TypeError, ValueError):
        return None
    return RunEnergy(str(folder), seconds, kwh, kwh * intensity, intensity, bool(table.get("estimated", True)), sources)


def kwh_words(kwh: float) -> str:
    """Format an energy."""
    return f"{kwh:.3g} kWh" if kwh >= 0.1 else f"{1000 * kwh:.3g} Wh"
