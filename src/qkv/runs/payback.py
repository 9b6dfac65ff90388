"""A student's pay-back point: after how many answers a smaller model has saved what its training cost.

    answers = energy of the training / (energy of a teacher's answer - energy of a student's answer)

The training includes the teacher's answers that the student learned from. Both models answer the same texts in turns on
one device. The energy of an answer is read from the machine's counters where there are any, otherwise it is watts times
seconds; `watts` says how many. What the teacher's training cost does not count: it is spent with or without a student.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from qkv.common.config import check_range
from qkv.common.errors import UsageError
from qkv.common.progress import Bar
from qkv.data.phrasebook.named import named_pairs
from qkv.predict import Model, load
from qkv.predict.verbs import PLAIN
from qkv.runs.answers import energy_of_answers
from qkv.runs.carbon import energy_of, kwh_words
from qkv.runs.gauge import parameters
from qkv.training.energy import Meter

TEXTS = 200  # of the phrasebook, where none are given
ROUNDS = 3


@dataclass(frozen=True)
class Answering:
    """What the answers of a model cost.

    Attributes:
        model: its folder or name.
        parameters: its weights.
        seconds: of one answer, the median over rounds.
        joules: of one answer, the median over rounds.
    """

    model: str
    parameters: int
    seconds: float
    joules: float


@dataclass(frozen=True)
class Payback:
    """When a student has paid for its training.

    Attributes:
        teacher: what the teacher's answers cost.
        student: what the student's answers cost.
        training_joules: what the student's training cost.
        verb: what both were asked to do.
        texts: how many texts each answered in a round.
        device: where.
        power: where the energy comes from, such as RAPL or an estimate.
        teaching_joules: what the teacher's answers cost that the student learned from.
    """

    teacher: Answering
    student: Answering
    training_joules: float
    verb: str
    texts: int
    device: str
    power: str
    teaching_joules: float = 0.0

    @property
    def cost(self) -> float:
        """The joules of the student's training and of the answers that it learned from."""
        return self.training_joules + self.teaching_joules

    @property
    def answers(self) -> float | None:
        """How many answers it takes, or None if the student saves nothing."""
        return break_even(self.cost, self.teacher.joules, self.student.joules)

    def told(self) -> str:
        """Say when the student has paid for its training, and how that was measured."""
        cost, how = kwh_words(self.cost / 3.6e6), f"{self.verb} on {self.texts} texts, {self.device}"
        spent = f"The student's training{' and the answers that it learned from' if self.teaching_joules else ''}"
        if self.answers is None:
            end = f"{spent} cost {cost}. It never pays back: its answers cost no less than the teacher's."
        else:
            saved = self.teacher.joules - self.student.joules
            end = (
                f"{spent} cost {cost}. Each answer saves {saved:.3g} J, so it has paid for itself after "
                f"{self.answers:,.0f} answers."
            )
        return f"{end}\n({how}; power: {self.power})"

    def to_dict(self) -> dict[str, Any]:
        """Return everything for JSON."""
        return asdict(self) | {"answers": self.answers}


def break_even(training: float, before: float, after: float) -> float | None:
    """Return after how many answers the energy of a training is saved; None if an answer costs no less than before."""
    return training / (before - after) if after < before else None


def payback(
    teacher: str,
    student: str,
    texts: Sequence[str] = (),
    *,
    watts: float | None = None,
    training_kwh: float | None = None,
    device: str | None = None,
) -> Payback:
    """Time a teacher and a student on the same texts, and return the student's pay-back point.

    Args:
        teacher: a model folder or a name.
        student: the same; the folder of its run, which has energy.json, unless `training_kwh` is given.
        texts: what to answer. If empty, English sentences of the built-in phrasebook.
        watts: the power while answering. If None, the machine's counters, or the estimate of training.
        training_kwh: what the student cost in all. If None, what its run says.
        device: "cpu", "cuda" or "cuda:1". If None, CUDA if it is available.
    """
    for name, value in (("--watts", watts), ("--training-kwh", training_kwh)):
        if value is not None:
            check_range(name, value, 0)
    models = {name: load(name, device=device) for name in (teacher, student)}
    costs = costs_of(student) if training_kwh is None else (training_kwh * 3.6e6, 0.0)
    given = list(texts) or [pair.source for pair in islice(named_pairs("phrasebook:test"), TEXTS)]
    return measured(models, costs, given, watts=watts)


def measured(
    models: dict[str, Model], costs: tuple[float, float], given: Sequence[Any], *, watts: float | None = None
) -> Payback:
    """Time a teacher and a student, in this order by name, on the same inputs.

    Args:
        models: both.
        costs: the joules of the student's training, and of the answers that it learned from.
        given: what to answer.
        watts: the power while answering. If None, the machine's counters, or the estimate of training.
    """
    verb = _shared(models)
    teacher, student = models
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in models}
    power = ""
    with Bar("answering", total=2 * (ROUNDS + 1)) as bar:
        for number in range(ROUNDS + 1):
            for name, model in models.items():
                seconds, joules, power = _once(model, getattr(model, verb), given, watts)
                if number:  # the first round warms up
                    taken[name].append((seconds / len(given), joules / len(given)))
                bar.add(1)
    large, small = (_answering(name, models[name], taken[name]) for name in (teacher, student))
    return Payback(large, small, costs[0], verb, len(given), str(models[teacher].device), power, costs[1])


def _once(
    model: Model, ask: Callable[[Sequence[Any]], Any], texts: Sequence[Any], watts: float | None
) -> tuple[float, float, str]:
    """Answer all texts; return the seconds, the joules and how these were found."""
    meter = Meter(model.device)
    ask(texts)
    used = meter.read()
    if watts is not None:
        return used.seconds, watts * used.seconds, f"{watts:g} W, as given"
    return used.seconds, used.total, used.power


def _answering(name: str, model: Model, rounds: Sequence[tuple[float, float]]) -> Answering:
    return Answering(name, parameters(model), *(statistics.median(one[place] for one in rounds) for place in (0, 1)))


def costs_of(student: str) -> tuple[float, float]:
    """Return the joules of a student's training, and of the answers that it learned from, from its run's folder."""
    found = energy_of(Path(student))
    if found is None:
        raise UsageError(f"{student} has no energy.json: name the folder of its run, or give --training-kwh")
    answers = energy_of_answers(Path(student))
    return found.kwh * 3.6e6, 0.0 if answers is None else answers.total


def _shared(models: dict[str, Model]) -> str:
    if len(models) < 2:
        raise UsageError(f"teacher and student are the same model, {', '.join(models)}: name two")
    able = [verb for verb in PLAIN if all(verb in model.verbs for model in models.values())]
    if not able:
        told = "; ".join(f"{name} can {', '.join(model.verbs) or 'nothing'}" for name, model in models.items())
        raise UsageError(f"teacher and student have no verb in common of {', '.join(PLAIN)}: {told}")
    return able[0]
