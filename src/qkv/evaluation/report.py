"""Formats scores as a plain-text table, as JSON or as a row of Markdown."""

from __future__ import annotations

import math
from collections.abc import Sequence

from qkv.evaluation.score import Score

Json = dict[str, dict[str, object]]


def number(value: float) -> str:
    """Format a number with four decimals, or two if it is 10 or more."""
    if math.isnan(value):
        return "undefined"
    return f"{value:.4f}" if abs(value) < 10 else f"{value:.2f}"


def table(scores: Sequence[Score], *, parts: bool = True) -> str:
    """Format scores as a plain-text table: one line per score, with its parts below."""
    rows = [["metric", "value", "95% interval", "examples", "signature"]]
    for score in scores:
        interval = f"[{number(score.low)}, {number(score.high)}]"
        rows.append([score.name, number(score.value), interval, str(score.count), score.signature])
        if parts:
            rows += [[f"  {name}", number(value), "", "", ""] for name, value in score.parts.items()]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(line.rstrip() for line in lines)


def as_json(scores: Sequence[Score]) -> Json:
    """Return the scores by metric name, ready for `json.dumps`; undefined and infinite values become None.

    If two scores have the same name (BLEU with and without case), the second gets a number as suffix.
    """
    report: Json = {}
    for score in scores:
        same = sum(name.split("#")[0] == score.name for name in report)
        report[f"{score.name}#{same + 1}" if same else score.name] = {
            "value": _plain(score.value),
            "low": _plain(score.low),
            "high": _plain(score.high),
            "count": score.count,
            "signature": score.signature,
            "parts": {name: _plain(value) for name, value in score.parts.items()},
        }
    return report


def _plain(value: float) -> float | None:
    # JSON has neither nan nor infinity.
    return value if math.isfinite(value) else None


def markdown_row(title: str, scores: Sequence[Score]) -> str:
    """Format one row of a Markdown table: the title, then each score with its interval."""
    cells = [f"{number(score.value)} ({number(score.low)} to {number(score.high)})" for score in scores]
    return _row([title, *cells])


def markdown_head(title: str, scores: Sequence[Score]) -> str:
    """Format the two header lines of a Markdown table."""
    return _row([title, *(score.name for score in scores)]) + "\n" + _row(["---"] * (1 + len(scores)))


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
