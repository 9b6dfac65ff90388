"""The tables of `qkv heads` and `qkv layers`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from qkv.insight.head_patterns import SHARES, HeadNumbers

if TYPE_CHECKING:
    from torch import Tensor

    from qkv.exams.importance import HeadImportance
    from qkv.predict import Model
    from qkv.predict.layers import Layers

DISTANCES = (-32, -16, -8, -4, -2, -1, 0, 1, 2, 4, 8, 16, 32)


def importance_of(
    model: Model,
    place: str,
    files: Sequence[str],
    ablation: bool,
    examples: int,
    say: Callable[[str], None],
    advance: Callable[[int], None],
) -> HeadImportance:
    """Measure importance on files, read as in training."""
    from qkv.exams.importance import head_importance, loss_task
    from qkv.runs.trained_on import reading_for

    read = reading_for(model, place, {}, lambda line: say(f"qkv: {line}"), files, task=loss_task(model))
    return head_importance(model, files, read.data, ablation=ablation, examples=examples, progress=advance)


def head_lines(found: Sequence[HeadNumbers], matters: HeadImportance | None) -> Iterator[str]:
    """Format a line for each head."""
    measured = [] if matters is None else ["gradient", *(["ablation"] if matters.ablation else [])]
    rows = [["kind", "layer", "head", "entropy", "distance", *SHARES, *measured, "looks at"]]
    for head in found:
        shares = [_percent(head.shares[name]) for name in SHARES]
        row = [head.kind, str(head.layer), str(head.head), f"{head.entropy:.2f}", _number(head.distance, 1), *shares]
        row += [] if matters is None else _importance(head, matters)
        rows.append([*row, head.pattern])
    yield from _aligned(rows)
    named = sum(bool(head.pattern) for head in found)
    yield ""
    yield f"{named} of {len(found)} heads give more than half of their attention to one of these tokens"
    if matters is not None:
        rho = matters.agreement
        agreed = "" if rho is None else f"; rank correlation of gradient and size of the ablation {rho:.2f}"
        yield f"importance on {matters.examples:,} examples{agreed}"


def layer_lines(found: Layers, other: str | None) -> Iterator[str]:
    """Format the tables of the layers."""
    across = f"columns: layers of {other}" if other else "with each other"
    yield f"similarity of layers (linear CKA over {found.rows}), {across}; layer 0 is the embeddings"
    count = len(found.similarity[0])
    rows = [["layer", *map(str, range(count))]]
    rows += [[str(i), *(f"{value:.2f}" for value in row)] for i, row in enumerate(found.similarity)]
    yield from _aligned(rows)
    yield ""
    yield "how alike the tokens of a text are (mean cosine)"
    rows = [["layer", *found.alike]]
    columns = [one.cosine for one in found.alike.values()]
    rows += [[str(i), *(f"{value:.3f}" for value in row)] for i, row in enumerate(zip(*columns, strict=True))]
    yield from _aligned(rows)
    for title, scores in (
        ("attention score (mean q·k over heads) by distance from the query to the key", found.scores),
        ("the same with one token at every place: what positions alone do", found.positions),
    ):
        yield ""
        yield title
        yield from _aligned(_by_distance(scores))


def _by_distance(scores: Tensor) -> list[list[str]]:
    """Return a row for each layer and a column for each distance that occurs."""
    import torch

    middle = scores.shape[-1] // 2
    mean = scores.mean(1)
    shown = [d for d in DISTANCES if abs(d) <= middle and not torch.isnan(mean[:, middle + d]).all()]
    rows = [["layer", *(f"{distance:+d}" if distance else "0" for distance in shown)]]
    return rows + [[str(i), *(_number(float(row[middle + d]), 2) for d in shown)] for i, row in enumerate(mean, 1)]


def _importance(head: HeadNumbers, matters: HeadImportance) -> list[str]:
    place = head.layer, head.head
    ablated = [] if matters.ablation is None else [f"{float(matters.ablation[head.kind][place]):+.4f}"]
    return [f"{float(matters.gradient[head.kind][place]):.4f}", *ablated]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f}%"


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Align columns to the right, but for the first."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        first, *rest = (
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join([first, *rest]).rstrip()
