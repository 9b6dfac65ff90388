"""The tables of `qkv latency`."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from qkv.cli.run_tables import columns
from qkv.predict.latency.recommend import rate

if TYPE_CHECKING:
    from qkv.predict.latency.result import Latency, Timing

WIDTH = 24  # columns of the longest bar


def latency_table(found: Latency) -> str:
    """Format the times, the engines with their agreement, what is missing, and the recommendation."""
    parts = [_head(found), columns(_times(found)), columns(_engines(found))]
    if found.missing:
        parts.append("\n".join(f"not measured: {name}: {why}" for name, why in found.missing.items()))
    return "\n\n".join([*parts, found.recommendation.text])


def _head(found: Latency) -> str:
    """Say what was timed."""
    threads = f"{found.threads} thread{'s' if found.threads > 1 else ''}"
    told = [found.verb, *([] if found.new_tokens is None else [f"{found.new_tokens} new tokens", f"beam {found.beam}"])]
    return f"{found.model}: {', '.join(told)}; {found.device}, {threads}"


def _times(found: Latency) -> list[list[str]]:
    """Return a row for each batch size, length and engine; the bar shows p50 beside the slowest engine's."""
    texts = any(one.length is not None for one in found.timings)
    rows = [["batch", *(["tokens"] if texts else []), "engine", "calls", "p50 ms", "p99 ms", "answers/s"]]
    rows[0] += [*(["tokens/s"] if texts else []), ""]
    for _, group in groupby(found.timings, key=lambda one: (one.batch, one.length)):
        several = list(group)
        slowest = max(one.p50_ms for one in several)
        rows += [_row(one, slowest) for one in several]
    return rows


def _row(one: Timing, slowest: float) -> list[str]:
    sizes = [str(one.batch), *([] if one.length is None else [str(one.length)])]
    rates = [rate(one.per_second)]
    rates += [] if one.tokens_per_second is None else [f"{one.tokens_per_second:,.0f}"]
    bar = "█" * max(1, round(WIDTH * one.p50_ms / slowest))
    return [*sizes, one.engine, str(one.calls), f"{one.p50_ms:.3g}", f"{one.p99_ms:.3g}", *rates, bar]


def _engines(found: Latency) -> list[list[str]]:
    rows = [["engine", "runs on", f"agreement with float32 ({found.agreement_of})"]]
    for side in found.engines:
        agreement = "not compared" if side.agreement is None else f"{side.agreement:.4f}"
        rows.append([side.name, side.runs_on, agreement])
    return rows
