"""The report as one HTML file. It loads nothing and runs no script; its content security policy forbids both."""

from __future__ import annotations

from pathlib import Path

from qkv.exams.report import sections, training
from qkv.exams.report.contents import Report
from qkv.exams.report.markup import escaped, facts, section, table
from qkv.exams.report.naming import verdict

STYLE = Path(__file__).with_name("page.css")
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
LINKS = {
    "scores": "Scores", "teacher": "Teacher",
    "curves": "Curves", "classes": "Classes", "points": "Numbers", "calibration": "Calibration",
    "lengths": "Length", "mistakes": "Mistakes", "use": "Use it", "model": "Model", "cost": "Time and energy",
    "recipe": "Recipe",
}  # fmt: skip


def page(report: Report) -> str:
    """Return the page."""
    body = "".join(_sections(report))
    there = {name: title for name, title in LINKS.items() if f'<section id="{name}"' in body}
    links = "".join(f'<a href="#{name}">{title}</a>' for name, title in there.items())
    title = escaped(report.title)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f"<title>{title} · qkv report</title><style>{STYLE.read_text('utf-8')}</style></head><body><main>"
        f'<header><h1>{title}</h1><p class="sub">{_summary(report)}</p></header><nav>{links}</nav>'
        f"{_notes(report)}{body}<footer>{escaped(report.made)}</footer></main></body></html>\n"
    )


def _sections(report: Report) -> list[str]:
    study, run = report.study, report.run
    found = []
    if study is not None:
        found += [sections.tiles(study), sections.scores(study)]
    elif run is not None:
        found.append(training.losses(run))
    found.append(_teacher(report))
    if run is not None:
        found.append(training.curves(run))
    if study is not None:
        two = sections.calibration(study) + sections.points(study) + sections.lengths(study)
        found += [sections.classes(study), f'<div class="sections">{two}</div>', sections.mistakes(study)]
    found += [_use(report), section("model", "Model", facts((k, escaped(v)) for k, v in report.model.items()))]
    if run is not None:
        found += [training.cost(run), training.recipe(run)]
    return found


def _summary(report: Report) -> str:
    facts = [report.run.task] if report.run else []
    facts += [f"{report.model[key]}{unit}" for key, unit in (("family", ""), ("weights", " weights")) if report.model]
    if report.run is not None:
        facts.append(f"trained in {training.duration(float(report.run.energy.get('seconds', 0.0)))}")
    return " · ".join(map(escaped, facts))


def _notes(report: Report) -> str:
    told = [*([verdict(report.study)] if report.study else []), *report.notes]
    return "".join(f'<p class="note">{escaped(note)}</p>' for note in told if note)


def _teacher(report: Report) -> str:
    if not report.teacher:
        return ""
    head, *rows = ([escaped(cell) for cell in row] for row in report.teacher)
    return section("teacher", "Teacher and student", table(head, rows), escaped(report.teacher_told))


def _use(report: Report) -> str:
    blocks = []
    for one in report.usage:
        lines = "\n".join(map(escaped, one.lines.splitlines()))
        blocks.append(f"<div><h3>{escaped(one.where)}</h3><pre>{lines}</pre></div>")
    return section("use", "Use it", "".join(blocks))
