"""What a student learns from a teacher: by the formulas of the papers, for every objective that has logits."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from qkv.common.batch import Labelled
from qkv.common.ragged import Ragged
from qkv.objectives import Classify, weighted
from qkv.objectives.distill import Distill, DistillConfig
from qkv.objectives.soft import Hardened, Softened, soft_vectors
from qkv.objectives.teacher import Teacher
from tests.objectives.shared import bert, close, tiny
from tests.objectives.test_properties import CASES, tokens

TEACHABLE = {name: case for name, case in CASES.items() if hasattr(case[0], "soft") and "pixels" not in name}


def pair(make: Any) -> tuple[Any, Any]:
    """A student, and a teacher of the same shape with other weights."""
    student, teacher = make(), make()
    with torch.no_grad():
        for number, weight in enumerate(teacher.parameters()):
            weight.add_(0.3 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(number)))
    return student, teacher.eval().requires_grad_(False)


def test_every_objective_with_logits_can_be_taught() -> None:
    assert set(CASES) - set(TEACHABLE) == {"replaced", "pixels", "skip-gram", "cbow", "glove", "mixture"}


@pytest.mark.parametrize("targets", ["soft", "hard"])
@pytest.mark.parametrize("name", TEACHABLE)
def test_a_student_of_itself_and_one_of_another(name: str, targets: str) -> None:
    """Soft targets cost nothing where both say the same; gradients reach the student alone; counts are known."""
    objective, make, part = TEACHABLE[name]
    student, teacher = pair(make)
    config, batch = DistillConfig(targets=targets, temperature=3.0), part([0, 1, 2, 3])
    if targets == "soft":
        plain = dataclasses.replace(objective, r_drop=0.0) if getattr(objective, "r_drop", 0) else objective
        same = Distill(plain, Teacher(student), config)(student, batch)["soft"]
        close(same.total, 0.0, 1e-4)
    distil = Distill(objective, Teacher(teacher), config)
    losses = distil(student, batch)
    assert losses["soft"].total > 1e-4
    assert list(losses) == list(distil.weights)
    assert {key: loss.count for key, loss in losses.items()} == distil.counts(batch)
    losses["soft"].total.backward()
    assert all(weight.grad is None for weight in teacher.parameters())
    assert any(weight.grad is not None and weight.grad.abs().sum() > 0 for weight in student.parameters())
    with torch.no_grad():
        assert list(distil(student, batch)) == list(objective(student, batch)) == list(objective.counts(batch))
        assert distil.weights == objective.weights


@pytest.mark.parametrize("name", [name for name in TEACHABLE if name not in ("masked",)])
def test_soft_losses_of_micro_batches_add_up(name: str) -> None:
    objective, make, part = TEACHABLE[name]
    student, teacher = pair(make)
    distil = Distill(objective, Teacher(teacher), DistillConfig())
    whole = distil(student, part([0, 1, 2, 3]))["soft"]
    some = [distil(student, part(rows))["soft"] for rows in ([0], [1, 2], [3])]
    close(sum(one.total for one in some), whole.total, 1e-4)
    assert sum(int(one.count) for one in some) == int(whole.count)


def test_the_equation_of_the_paper() -> None:
    """Hinton et al. 2015: T² · KL of the softened probabilities, beside (1 - α) of the labels."""
    student, teacher = pair(bert)
    batch = Labelled(tokens([0, 1, 2, 3]), torch.tensor([0, 2, -100, 1]))
    distil = Distill(Classify(), Teacher(teacher), DistillConfig(temperature=4.0, weight=0.7))
    mine, theirs = (m.logits(m(batch.inputs), "classify") for m in (student, teacher))
    asked = batch.labels >= 0
    p, log_q = (theirs / 4).softmax(-1), (mine / 4).log_softmax(-1)
    divergence = (p * (p.log() - log_q)).sum(-1)[asked].mean()
    wanted = 0.3 * F.cross_entropy(mine, batch.labels) + 0.7 * 16 * divergence
    close(weighted(distil(student, batch), distil.weights), wanted)


def test_the_engine_of_a_teacher_changes_nothing() -> None:
    from qkv.compression.engine import accelerate

    student, teacher = pair(lambda: tiny("bert-base", heads=["classify"]))
    batch = Labelled(tokens([0, 1, 2, 3]), torch.tensor([0, 2, 1, 1]))
    plain = Distill(Classify(), Teacher(teacher), DistillConfig())(student, batch)["soft"].total
    accelerate(teacher)
    close(Distill(Classify(), Teacher(teacher), DistillConfig())(student, batch)["soft"].total, plain, 1e-4)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.floats(0.5, 8.0))
@settings(max_examples=25, deadline=None)
def test_spans_are_a_softmax_over_each_sequence(lengths: list[int], temperature: float) -> None:
    layout, draw = Ragged.of(lengths), torch.Generator().manual_seed(sum(lengths))
    mine, theirs = (torch.randn(sum(lengths), 2, generator=draw) for _ in range(2))
    found = Softened(temperature).over_sequences(mine, theirs, layout)
    hard = Hardened().over_sequences(mine, theirs, layout)
    for number, (a, b) in enumerate(zip(layout.split(mine), layout.split(theirs), strict=True)):
        for column in range(2):
            row, other = a[:, column].unsqueeze(0), b[:, column].unsqueeze(0)
            close(found[number, column], Softened(temperature).rows(row, other)[0], 1e-4)
            close(hard[number, column], F.cross_entropy(row, other.argmax(-1)), 1e-4)


def test_vectors_of_two_widths_are_compared_by_their_neighbours() -> None:
    draw = torch.Generator().manual_seed(0)
    mine = tuple(F.normalize(torch.randn(5, 6, generator=draw), dim=-1) for _ in range(2))
    asked = torch.ones(5, dtype=torch.bool)
    turn = torch.linalg.qr(torch.randn(9, 6, generator=draw))[0]  # six directions in a space of nine
    turned = (mine[0] @ turn.T, mine[1] @ turn.T)
    close(soft_vectors(mine, turned, asked, Softened(1.0)).total, 0.0, 1e-4)
    others = (turned[0].roll(1, 0), turned[1])
    assert soft_vectors(mine, others, asked, Softened(1.0)).total > 0.1
    same = soft_vectors(mine, (mine[1], mine[0]), asked, Softened(1.0))
    close(same.total, (1 - (mine[0] * mine[1]).sum(-1)).sum())
