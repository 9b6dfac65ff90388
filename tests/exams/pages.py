"""A report with everything in it, some of it hostile."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from qkv.evaluation.calibration import Calibration
from qkv.evaluation.classification import F1, Accuracy
from qkv.evaluation.confusion import Confusion
from qkv.evaluation.lengths import ByLength
from qkv.evaluation.prediction import Confidence, Item
from qkv.exams.report.contents import Report, RunFacts
from qkv.exams.report.usage import Usage
from qkv.exams.study import Mistake, Study

SCRIPT = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
ARABIC = "هذا فيلم جميل جدا"
CONTROLS = "a\x00b\x1b[31mred\u202eevil\u2066\ud800\n\ttab"
HOSTILE = [SCRIPT, ARABIC, CONTROLS, '"><svg/onload=hacked()>', "' onmouseover='x", "]]>&amp;&lt;", "长" * 3000]


def a_study(labels: list[str], **changes: Any) -> Study:
    """A study of made-up answers to texts of several lengths, in these classes."""
    metrics, trivial = [Accuracy(), F1()], [Accuracy(), F1()]
    confusion, calibration, lengths = Confusion(), Calibration(), ByLength(Accuracy)
    for number in range(200):
        gold = labels[number % len(labels)]
        said = gold if number % 3 else labels[(number + 1) % len(labels)]
        for metric in metrics:
            metric.add(said, gold)
        for metric in trivial:
            metric.add(labels[0], gold)
        confusion.add([Item(said, gold)])
        calibration.add(Confidence(0.3 + number % 7 / 10, said == gold))
        lengths.add(10 * number, said, gold)
    mistakes = tuple(
        Mistake(texts=(text, text[::-1]), answer=text[:30], correct=labels[0], chance=0.9, where=f"{text[:20]}:{place}")
        for place, text in enumerate(HOSTILE)
    )
    whole = Study(
        about=f"Test files: {SCRIPT}.",
        scores=tuple(metric.result() for metric in metrics),
        trivial={f"always {labels[0]!r}": tuple(metric.result() for metric in trivial)},
        classes=confusion.classes(),
        confusion=confusion.matrix(50),
        lengths=lengths.result(),
        calibration=calibration.result(),
        mistakes=mistakes,
        wrong=67,
        count=200,
        points=(),
        texts=2,
    )
    return replace(whole, **changes)


def a_run() -> RunFacts:
    lines: list[dict[str, Any]] = [
        {"step": 10 * n, "rate": 1 - n / 500, "loss": 3 / (1 + n), "classify": 3 / (1 + n), "gradient": 1.0}
        | {"tokens_per_second": 1000.0}
        for n in range(500)
    ]
    lines[7]["loss"] = math.inf
    lines[8]["gradient"] = None
    lines += [
        {"step": 1000 * n, "valid_loss": 2 / (1 + n), "valid_classify": 2 / (1 + n), "valid_classify.correct": n / 6}
        for n in range(6)
    ]
    energy = {"seconds": 4000.0, "joules": {"cpu": 5e4}, "sources": {"cpu": "estimated at 20 W"}, "estimated": True,
              "kwh": 0.014, "carbon_intensity_g_per_kwh": 480.0, "co2_g": 6.7}  # fmt: skip
    recipe = f'task = "classify"\nout = "{SCRIPT}"\n[train]\nsteps = 5000\n'
    return RunFacts(task="classify", ended="done", steps=5000, metrics=lines, recipe=recipe, energy=energy)


def a_report(**changes: Any) -> Report:
    whole = Report(
        title=f"runs/{SCRIPT}",
        model={"family": "bert", "weights": "1,234", "labels": SCRIPT},
        study=a_study(["good", SCRIPT, ARABIC, CONTROLS]),
        run=a_run(),
        usage=(Usage("Shell", f"qkv classify '{SCRIPT}' 'x'"), Usage("Python", "import qkv")),
        notes=(CONTROLS, SCRIPT),
        made="Written by qkv.",
    )
    return replace(whole, **changes)
