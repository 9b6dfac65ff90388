"""What benchmarks/serve.py prints: tables as docs/results.md has them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

TIMES = "\N{MULTIPLICATION SIGN}"


def middle(rounds: Sequence[Any], pick: Callable[[Any], float]) -> float:
    """Return the median of a figure over the rounds that have it."""
    values = [value for value in map(pick, rounds) if not math.isnan(value)]
    return statistics.median(values) if values else math.nan


def of_texts(found: dict[str, Any]) -> list[str]:
    """Return the tables of throughput, latency, overload and memory."""
    return [
        *where(found),
        *throughput(found["rounds"]),
        *(["", *overload(found)] if found["overload"] else []),
        *(["", *memory(found["memory"])] if "memory" in found else []),
    ]


def where(found: dict[str, Any]) -> list[str]:
    versions = ", ".join(f"{name} {number}" for name, number in found["versions"].items())
    return [f"{found['cores']} cores ({found['cpu']}), load {found['load_average']:.1f}, {versions}:", ""]


def throughput(rounds: list[dict[str, Any]]) -> list[str]:
    lines = ["| | the library | `qkv serve` | |", "| --- | ---: | ---: | ---: |"]
    whole = middle(rounds, lambda one: one["library"])
    for size in rounds[0]["texts"]:
        rate = middle(rounds, lambda one, size=size: one["texts"][size]["rate"])
        share = middle(rounds, lambda one, size=size: one["texts"][size]["rate"] / one["library"])
        asked = f"{size} text{'s' * (size != 1)} a request"
        lines.append(f"| batched, {asked} | {whole:,.0f} texts/s | {rate:,.0f} texts/s | {share:.2f} {TIMES} |")
    ours, theirs = (1000 * middle(rounds, lambda one, key=key: one[key]) for key in ("library one", "serve one"))
    more = 1000 * middle(rounds, lambda one: one["serve one"] - one["library one"])
    return [*lines, f"| one by one, p50 | {ours:.2f} ms | {theirs:.2f} ms | {more:+.2f} ms |"]


def overload(found: dict[str, Any]) -> list[str]:
    rounds = found["overload"]

    def of(key: str) -> float:
        return middle(rounds, lambda one: one[key])

    def ms(key: str) -> str:
        return "none" if math.isnan(of(key)) else f"{1000 * of(key):,.0f} ms"

    times, goodput = (middle(rounds, lambda one, k=k: one[k] / one["capacity"]) for k in ("offered", "goodput"))
    lost = sum(count for one in rounds for status, count in one["statuses"].items() if status not in (200, 429))
    return [
        f"| offered {times:.1f} times the capacity | |",
        "| --- | ---: |",
        f"| capacity, requests of {found['settings']['overload_texts']} texts | {of('capacity'):,.0f} per s |",
        f"| answered | {of('goodput'):,.0f} per s, {100 * goodput:.0f} % of the capacity |",
        f"| accepted, p50 and p99 | {ms('accepted p50')}, {ms('accepted p99')} |",
        f"| refused (429), p50 and p99 | {ms('refused p50')}, {ms('refused p99')} |",
        f"| other answers, and none | {lost} |",
        f"| not sent: no connection was free | {sum(one['unsent'] for one in rounds)} |",
    ]


def memory(samples: list[dict[str, float]]) -> list[str]:
    """Return the memory of both processes at the start, after a tenth of the time and at the end, and its growth."""
    early = next(one for one in samples if one["minutes"] >= samples[-1]["minutes"] / 10)
    lines = [
        f"| memory, {samples[-1]['minutes']:.1f} minutes | start | after a tenth | end | most | growth since |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, shown in (("http", "HTTP process"), ("compute", "compute process")):
        first, then, last = (one[name] for one in (samples[0], early, samples[-1]))
        most = max(one[name] for one in samples)
        lines.append(f"| {shown} | {first:.0f} MB | {then:.0f} | {last:.0f} | {most:.0f} | {last - then:+.1f} MB |")
    return lines


def of_streams(found: dict[str, Any]) -> list[str]:
    """Return the table of generation."""
    rounds, settings = found["rounds"], found["settings"]
    ours, theirs = (middle(rounds, lambda one, key=key: one[key]) for key in ("library", "serve"))
    share = middle(rounds, lambda one: one["serve"] / one["library"])
    asked = f"{settings['generate']}, {settings['streams']} {TIMES} {settings['length']} tokens"
    return [
        *where(found),
        "| | the library | `qkv serve` | |",
        "| --- | ---: | ---: | ---: |",
        f"| {asked} | {ours:,.0f} tok/s | {theirs:,.0f} tok/s | {share:.2f} {TIMES} |",
    ]
