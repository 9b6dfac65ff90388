"""The output of `qkv compare` as text."""

from __future__ import annotations

from qkv.cli.run_tables import columns, duration
from qkv.evaluation.report import number
from qkv.runs.comparison import Compared, Row, Spread


def compared_table(compared: Compared) -> str:
    """Format a comparison: a line for each variant, the best of each score marked with a star."""
    scored = (
        [compared.metric] if not compared.lengths else [f"{compared.metric} x{times}" for times in compared.lengths]
    )
    several = [_scores(compared, row) for row in compared.rows]
    best = [_best(compared, [scores[place] for scores in several]) for place in range(len(scored))]
    rows = [["variant", *scored, "parameters", "tokens/s", "time", "Wh"]]
    for row, scores in zip(compared.rows, several, strict=True):
        cells = [_cell(score, mark=score.mean == top) for score, top in zip(scores, best, strict=True)]
        speed, kwh = row.of("tokens_per_second"), row.of("kwh")
        costs = [f"{row.runs[0].parameters:,}", f"{speed.mean:,.0f}", duration(row.of("seconds").mean)]
        rows.append([row.name, *cells, *costs, f"{1000 * kwh.mean:.2g}{_estimated(row)}"])
    return f"{columns(rows)}\n\n{'. '.join(_notes(compared))}."


def _scores(compared: Compared, row: Row) -> list[Spread]:
    return [row.longer(times) for times in compared.lengths] or [row.of("value")]


def _best(compared: Compared, scores: list[Spread]) -> float | None:
    known = [score.mean for score in scores if score.values]
    if len(known) < 2:
        return None
    return min(known) if compared.lower_is_better else max(known)


def _cell(score: Spread, *, mark: bool) -> str:
    if not score.values:
        return "-"
    spread = "" if score.deviation is None else f" ± {number(score.deviation)}"
    return f"{number(score.mean)}{spread}{' *' if mark else ''}"


def _estimated(row: Row) -> str:
    return " ~" if any(run.estimated for run in row.runs) else ""


def _notes(compared: Compared) -> list[str]:
    seeds = ", ".join(map(str, compared.seeds))
    spread = f"mean ± standard deviation over seeds {seeds}" if len(compared.seeds) > 1 else f"seed {seeds}"
    better = "lower" if compared.lower_is_better else "higher"
    notes = [f"{spread}; * the best mean, {better} is better; time and energy are those of one run"]
    if any(not score.values for row in compared.rows for score in _scores(compared, row)):
        notes.append("- the positions end at the length of training")
    if any(run.estimated for row in compared.rows for run in row.runs):
        notes.append("~ energy is estimated from watts and seconds")
    return notes
