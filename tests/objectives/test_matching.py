"""Matched layers: by the formulas of the papers, sequence by sequence, for any width and number of heads."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from qkv.common.batch import Following, Labelled, Pairs, Translated
from qkv.insight.capture import capture
from qkv.models import catalogue
from qkv.nn.tap import recording
from qkv.objectives import Classify, NextToken, Translate
from qkv.objectives.distill import Distill, DistillConfig
from qkv.objectives.matching import (
    PROJECTIONS,
    Matching,
    Seen,
    add_projections,
    even_map,
    relation_heads,
    relations,
    stacks_of,
    without_projections,
)
from qkv.objectives.teacher import Teacher
from tests.contracts.entries import make, shrink
from tests.objectives.shared import LENGTHS, V, close
from tests.objectives.test_properties import per_token, tokens


def model(name: str, **changes: Any) -> Any:
    return make(shrink(catalogue.preset(name), vocab_size=V, **changes), train=True)


def one_by_one(x_LD: torch.Tensor, y_LD: torch.Tensor, heads: int, causal: bool) -> torch.Tensor:
    """Equations 3 and 4 of MiniLMv2 for one sequence and one relation, head by head."""
    rows = torch.zeros(len(x_LD))
    mask = torch.full((len(x_LD), len(x_LD)), -1e4).triu(1) if causal else 0.0
    for a, b in zip(x_LD.chunk(heads, -1), y_LD.chunk(heads, -1), strict=True):
        p = (b @ b.T / b.shape[-1] ** 0.5 + mask).softmax(-1)
        q = (a @ a.T / a.shape[-1] ** 0.5 + mask).softmax(-1)
        rows += (p * (p.log() - q.log()).nan_to_num(0.0, 0.0, 0.0)).sum(-1) / heads
    return rows


@pytest.mark.parametrize("name", ["bert-base", "gpt2"])
def test_relations_of_models_of_two_widths(name: str) -> None:
    student, teacher = model(name, dim=24, num_heads=3), model(name, dim=32, num_heads=4)
    calls = []
    for net in (student, teacher):
        with recording(seen := Seen(net)):
            net(tokens([0, 1, 2, 3]))
        calls.append(seen.calls["stack"][1][0])
    mine, theirs = calls
    found = relations(mine, theirs, 4)
    wanted = torch.zeros(sum(LENGTHS))
    for x, y in ((mine.q, theirs.q), (mine.k, theirs.k), (mine.v, theirs.v)):
        both = (z.flatten(1).split(LENGTHS) for z in (x, y))
        wanted += torch.cat([one_by_one(a, b, 4, mine.causal) for a, b in zip(*both, strict=True)])
    close(found, wanted, 1e-4)
    assert relations(theirs, theirs, 4).abs().max() < 1e-5


def test_relation_heads_divide_both_widths() -> None:
    assert relation_heads(384, 768, 12) == 12
    assert relation_heads(256, 384, 12) == 8
    assert relation_heads(7, 384, 12) == 1


def test_states_are_those_after_each_layer_also_where_the_head_reads_the_first_token() -> None:
    net = model("bert-base", heads=["classify"])
    with torch.no_grad(), recording(seen := Seen(net)):
        net.logits(net.states_for(tokens([0, 1, 2, 3]), "classify"), "classify")
        whole = net(tokens([0, 1, 2, 3])).states
    first, second = seen.states["stack"][net.stack.depth - 1]
    close(first, whole)
    close(second, whole)
    assert sorted(seen.states["stack"]) == list(range(-1, net.stack.depth))
    with capture(net) as found:  # other recorders still see what a model computes without them
        net.logits(net.states_for(tokens([0, 1, 2, 3]), "classify"), "classify")
    assert len(found.weights()) == net.stack.depth


def test_a_projection_is_learned_and_not_stored() -> None:
    student, teacher = model("bert-base", dim=24, heads=["classify"]), model("bert-base", dim=32, heads=["classify"])
    names = set(student.state_dict())
    add_projections(student, teacher, ["stack"])
    assert set(student.state_dict()) - names == {f"{PROJECTIONS}.stack.weight"}
    with without_projections(student):
        assert set(student.state_dict()) == names
    matching = Matching(2.0, 0.0, {"stack": [(1, 1)]})
    distil = Distill(Classify(), Teacher(teacher.requires_grad_(False)), DistillConfig(), matching)
    batch = Labelled(tokens([0, 1, 2, 3]), torch.tensor([0, 1, 1, 0]))
    losses = distil(student, batch)
    assert list(losses) == ["classify", "soft", "hidden"] == list(distil.weights) == list(distil.counts(batch))
    with recording(mine := Seen(student)), recording(theirs := Seen(teacher)):
        teacher(batch.inputs)
        student(batch.inputs)
    x, y = mine.states["stack"][1][0], theirs.states["stack"][1][0]
    close(losses["hidden"].total, (x @ student.projections["stack"].weight.T - y).square().mean(-1).sum(), 1e-4)
    losses["hidden"].total.backward()
    assert student.projections["stack"].weight.grad.abs().sum() > 0
    assert all(weight.grad is None for weight in teacher.parameters())


PAIRS = {
    "bert": (lambda: model("bert-base", heads=["classify"]), Classify(), {"stack": [(0, 1), (1, 0)]}),
    "gpt": (lambda: model("gpt2"), NextToken(), {"stack": [(1, 1)]}),
    "t5": (lambda: model("t5-small"), Translate(), {"encoder": [(0, 1)], "decoder": [(1, 1)]}),
    "transformer": (lambda: model("transformer-base"), Translate(), {"encoder": [(1, 1)], "decoder": [(0, 0), (1, 1)]}),
}


def part(name: str, rows: list[int]) -> Any:
    if name == "bert":
        return Labelled(tokens(rows), torch.tensor([0, 1, 1, 0])[rows])
    if name == "gpt":
        return Following(tokens(rows), per_token(rows))
    return Translated(Pairs(tokens(rows, 7), tokens(rows)), per_token(rows))


@pytest.mark.parametrize("name", PAIRS)
def test_matched_micro_batches_add_up(name: str) -> None:
    build, objective, pairs = PAIRS[name]
    student, teacher = build(), build()
    with torch.no_grad():
        for weight in teacher.parameters():
            weight.mul_(1.3)
    heads = dict.fromkeys(stacks_of(teacher), 2)
    distil = Distill(
        objective, Teacher(teacher.requires_grad_(False)), DistillConfig(), Matching(1.0, 1.0, pairs, heads)
    )
    whole = distil(student, part(name, [0, 1, 2, 3]))
    some = [distil(student, part(name, rows)) for rows in ([2], [0, 3], [1])]
    for key in ("hidden", "attention"):
        assert whole[key].total > 0
        close(sum(one[key].total for one in some), whole[key].total, 1e-3)
        assert sum(int(one[key].count) for one in some) == int(whole[key].count)
    same = Distill(
        objective, Teacher(student), DistillConfig(), Matching(1.0, 1.0, {k: [(1, 1)] for k in pairs}, heads)
    )
    losses = same(student, part(name, [0, 1, 2, 3]))
    close(losses["hidden"].total, 0.0)
    close(losses["attention"].total, 0.0, 1e-4)


@pytest.mark.parametrize(("student", "teacher", "wanted"), [(2, 6, (2, 5)), (3, 12, (3, 7, 11)), (1, 4, (3,))])
def test_layers_are_matched_evenly_up_to_the_last(student: int, teacher: int, wanted: tuple[int, ...]) -> None:
    assert even_map(student, teacher) == wanted
