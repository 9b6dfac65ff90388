"""The sections of the page about a model's answers: scores, classes, calibration, lengths, mistakes."""

from __future__ import annotations

import math

from qkv.evaluation.confusion import NOTHING, Matrix
from qkv.evaluation.report import number
from qkv.evaluation.score import Score
from qkv.exams.report import charts
from qkv.exams.report.markup import escaped, quoted, section, table
from qkv.exams.report.naming import beats, interval_of, name_of, scale_of
from qkv.exams.study import Mistake, Study

DEEP = 0.55  # cells above this share of their row have white numbers
SHORT = 60  # characters of two answers that fit on one line
BESIDE = 6  # classes of a matrix that leaves room for the table beside it
CLASSES = 40  # rows of the table of classes


def tiles(study: Study) -> str:
    """Return the most important numbers, large."""
    found = []
    for place, score in enumerate(study.scores[:4]):
        trivial = "".join(
            f"<span>{escaped(name)}: {number(scores[place].value)}</span>" for name, scores in study.trivial.items()
        )
        told = f"<span>95 % interval {interval_of(score)}</span>"
        found.append(
            f'<div class="tile"><span>{escaped(name_of(score))}</span><b>{number(score.value)}</b>{told}{trivial}</div>'
        )
    return f'<div class="tiles">{"".join(found)}</div>' if found else ""


def scores(study: Study) -> str:
    """Return the table of scores, each with its interval, beside the trivial answers."""
    head = ["metric", "value", "95 % interval", "", *map(escaped, study.trivial), "examples"]
    rows = []
    for place, score in enumerate(study.scores):
        others = [found[place] for found in study.trivial.values()]
        row = [escaped(name_of(score)), f"<b>{number(score.value)}</b>", interval_of(score), _range(score, others)]
        rows.append([*row, *(_trivial(score, other) for other in others), f"{score.count:,}"])
    signatures = "".join(f"<dd><code>{escaped(name_of(s))}: {escaped(s.signature)}</code></dd>" for s in study.scores)
    key = "A bar is the interval, its dark line the value; a circle is a trivial answer." if study.trivial else ""
    below = f"<details><summary>Signatures: how each number was computed</summary>{signatures}</details>"
    return section("scores", "Scores", table(head, rows) + below, f"{escaped(study.about)} {key}")


def classes(study: Study) -> str:
    """Return the confusion matrix, and precision, recall and support of each class."""
    if study.confusion is None:
        return ""
    rows = [
        [quoted(c.label), _rate(c.precision), _rate(c.recall), _rate(c.f1), f"{c.support:,}", f"{c.predicted:,}"]
        for c in study.classes[:CLASSES]
    ]
    left = len(study.classes) - len(rows)
    more = f'<p class="lead">{left} less frequent classes are in scores.json.</p>' if left else ""
    rates = table(["class", "precision", "recall", "F1", "support", "predicted"], rows)
    lead = "Rows are the correct classes, columns the predicted ones. A colour is a cell's share of its row."
    if NOTHING in study.confusion.labels:
        lead += f" {NOTHING} stands for what the model missed or made up."
    drawn = f'<div><h3>Confusion matrix</h3><div class="wide">{_matrix(study.confusion)}</div></div>'
    beside = "beside" if len(study.confusion.labels) <= BESIDE else ""
    body = f'<div class="{beside}">{drawn}<div><h3>By class</h3>{rates}{more}</div></div>'
    return section("classes", "Classes", body, lead)


def calibration(study: Study) -> str:
    """Return the reliability diagram."""
    found = study.calibration
    if found is None:
        return ""
    chart = charts.reliability([(one.chance, one.accuracy, one.count) for one in found.bins])
    lead = (
        f"Expected calibration error <b>{found.error:.3f}</b>. Answers have a mean probability of {found.chance:.1%}; "
        f"{found.accuracy:.1%} are correct. Below the dashed line, the model is too sure of itself."
    )
    return section("calibration", "Calibration", chart, lead)


def points(study: Study) -> str:
    """Return predicted over correct numbers."""
    chart = charts.scatter(study.points)
    return section("points", "Predicted and correct numbers", chart, "On the dashed line, both are equal.")


def lengths(study: Study) -> str:
    """Return the first score for texts of each length."""
    if not study.lengths:
        return ""
    rows = [
        [f"{one.low:,} to {one.high:,}", f"{one.score.count:,}", _with_interval(one.score), _range(one.score, [])]
        for one in study.lengths
    ]
    body = table(["characters", "counted", escaped(name_of(study.lengths[0].score)), ""], rows)
    return section("lengths", "By text length", body, "Do long or short texts score worse?")


def mistakes(study: Study) -> str:
    """Return the worst mistakes with their texts."""
    if not study.mistakes:
        return ""
    body = f'<ol class="worst">{"".join(map(_mistake, study.mistakes))}</ol>'
    if study.points:
        lead = f"The {len(study.mistakes)} largest errors of {study.count:,} examples."
    else:
        which = "all of them" if study.wrong == len(study.mistakes) else f"the {len(study.mistakes)} worst"
        lead = f"{study.wrong:,} of {study.count:,} answers differ from the correct ones; here are {which}."
    return section("mistakes", "Largest errors" if study.points else "Worst mistakes", body, lead)


def _mistake(found: Mistake) -> str:
    texts = "".join(f"<p>{quoted(text)}</p>" for text in found.texts)
    sure = "" if found.chance is None else f" <small>({found.chance:.2f})</small>"
    said = f'<span><small>model</small> <span class="bad">{quoted(found.answer)}</span>{sure}</span>'
    right = f'<span><small>correct</small> <span class="good">{quoted(found.correct)}</span></span>'
    kind = "pair" if len(found.answer) + len(found.correct) <= SHORT else "lines"
    return f'<li>{texts}<div class="{kind}">{said}{right}<span class="where">{escaped(found.where)}</span></div></li>'


def _matrix(found: Matrix) -> str:
    """Return the matrix as a table whose cells are shaded by their share of the row."""
    top = "".join(f'<th scope="col" title="{escaped(name)}">{quoted(name)}</th>' for name in found.labels)
    lines = []
    for row, (name, counts) in enumerate(zip(found.labels, found.counts, strict=True)):
        total = sum(counts) or 1
        cells = "".join(_cell(count, count / total, hit=row == column) for column, count in enumerate(counts))
        lines.append(f'<tr><th scope="row" title="{escaped(name)}">{quoted(name)}</th>{cells}</tr>')
    body = "".join(lines)
    return f'<table class="matrix"><thead><tr><th></th>{top}</tr></thead><tbody>{body}</tbody></table>'


def _cell(count: int, share: float, *, hit: bool) -> str:
    if not count:
        return '<td class="zero">0</td>'
    kind = f"{'hit' if hit else 'miss'}{' deep' if share > DEEP else ''}"
    return f'<td class="{kind}" style="--p:{0.08 + 0.92 * share:.3f}" title="{share:.1%} of the row">{count:,}</td>'


def _range(score: Score, trivial: list[Score]) -> str:
    """Draw the interval of a score on its scale, with the trivial answers as circles."""
    scale = scale_of(score)
    if scale is None:
        return ""
    low, high = scale

    def at(value: float) -> float:
        return 100 * min(max((value - low) / (high - low), 0.0), 1.0)

    circles = "".join(f'<u style="left:{at(one.value):.1f}%"></u>' for one in trivial if not math.isnan(one.value))
    band = f'<i style="left:{at(score.low):.1f}%;width:{at(score.high) - at(score.low):.1f}%"></i>'
    return f'<span class="range">{circles}{band}<b style="left:{at(score.value):.1f}%"></b></span>'


def _with_interval(score: Score) -> str:
    return f"{number(score.value)}<small>{interval_of(score)}</small>"


def _trivial(score: Score, trivial: Score) -> str:
    kind = {True: "good", False: "bad", None: ""}[beats(score, trivial)]
    return f'<span class="{kind}">{number(trivial.value)}</span>'


def _rate(value: float) -> str:
    return f'{value:.3f}<span class="bar"><i style="width:{100 * value:.0f}%"></i></span>'
