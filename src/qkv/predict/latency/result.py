"""The result of a measurement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from qkv.common import disk


@dataclass(frozen=True)
class Timing:
    """The time of one engine's calls at one batch size and length.

    Attributes:
        engine: its name.
        batch: inputs of a call.
        length: tokens of each input; None for images.
        calls: how many were timed.
        p50_ms: milliseconds that half of the calls do not exceed.
        p99_ms: milliseconds that 99 % of the calls do not exceed; of fewer than 100 calls, the longest.
        per_second: inputs that are answered in a second.
        tokens_per_second: tokens read in a second or, of a model that generates, written; None for images.
    """

    engine: str
    batch: int
    length: int | None
    calls: int
    p50_ms: float
    p99_ms: float
    per_second: float
    tokens_per_second: float | None


@dataclass(frozen=True)
class Side:
    """An engine that was measured.

    Attributes:
        name: its name.
        runs_on: what computes the layers, as `qkv info` says it.
        how: how to choose it.
        exact: whether it gives the numbers of float32, up to rounding.
        agreement: how well its answers agree with those of PyTorch in float32, 1 at most; None if not compared.
    """

    name: str
    runs_on: str
    how: str
    exact: bool
    agreement: float | None


@dataclass(frozen=True)
class Recommendation:
    """Which engine to use.

    Attributes:
        alone: for the smallest batch, of the engines with the numbers of float32; None if none was measured.
        batched: the same for the largest batch.
        faster: an engine that is clearly faster but changes the numbers, or None.
        text: all of this with its reason, for people.
    """

    alone: str | None
    batched: str | None
    faster: str | None
    text: str


@dataclass(frozen=True)
class Latency:
    """The time of a model's answers with each engine.

    Attributes:
        model: its name or folder.
        verb: what was asked of it.
        device: where.
        threads: CPU threads of a matrix product.
        new_tokens: tokens of each generated answer, or None.
        beam: beam of the search, or None.
        agreement_of: how answers were compared: cosine of their vectors, or the share of the same labels or tokens.
        default: the engine that runs the model as it was loaded.
        engines: those that were measured.
        missing: for each engine that was not, the reason.
        timings: a measurement for each batch size, length and engine.
        recommendation: which engine to use.
    """

    model: str
    verb: str
    device: str
    threads: int
    new_tokens: int | None
    beam: int | None
    agreement_of: str
    default: str
    engines: Sequence[Side]
    missing: Mapping[str, str]
    timings: Sequence[Timing]
    recommendation: Recommendation

    def to_dict(self) -> dict[str, Any]:
        """Return everything for JSON."""
        return asdict(self)

    def svg(self) -> str:
        """Draw time over length and throughput over batch size, as a self-contained SVG."""
        from qkv.predict.latency.picture import picture

        return picture(self)

    def save(self, file: str | Path) -> None:
        """Write the drawing to a file."""
        disk.replace_file(Path(file), self.svg().encode())
