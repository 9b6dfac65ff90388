"""Batches of one shape: nothing real changes, nothing is asked of fillers."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from qkv.common.batch import IGNORED, Batch, Images, Labelled, SentencePairs, Tokens, layouts, pad
from qkv.common.cuda.static_shape import StaticShape
from qkv.common.ragged import Ragged
from qkv.models import catalogue
from qkv.objectives.distill import Distill, DistillConfig
from qkv.objectives.parts import weighted
from qkv.objectives.teacher import Teacher
from tests.common.kinds import KINDS, REPLACED, masked, replaced_model, tokens, translated
from tests.contracts.entries import make, shrink

LENGTHS = st.lists(st.integers(2, 9), min_size=1, max_size=6)


@pytest.mark.parametrize("kind", KINDS)
@given(several=st.lists(LENGTHS, min_size=2, max_size=5))
@settings(max_examples=15, deadline=None)
def test_the_loss_is_the_same_and_all_shapes_are_one(kind: str, several: list[list[int]]) -> None:
    preset, build, objective, changes = KINDS[kind]
    model = make(dataclasses.replace(shrink(catalogue.preset(preset, **changes))))
    batches = [build(lengths) for lengths in several]
    shape = StaticShape.of(batches)
    assert shape is not None
    seen = set()
    for batch in batches:
        fixed = shape.fill(batch)
        assert fixed is not None
        seen.add(str([(side.num_rows, side.num_sequences, side.max_length) for side in layouts(fixed)]))
        with torch.no_grad():
            mine, theirs = (weighted(objective(model, b), objective.weights) for b in (fixed, batch))
        torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-5)
    assert len(seen) == 1


@pytest.mark.parametrize("kind", KINDS)
@given(several=st.lists(LENGTHS, min_size=2, max_size=3))
@settings(max_examples=5, deadline=None)
def test_a_student_learns_nothing_from_fillers(kind: str, several: list[list[int]]) -> None:
    preset, build, objective, changes = KINDS[kind]
    student, teacher = (make(shrink(catalogue.preset(preset, **changes))).eval() for _ in range(2))
    with torch.no_grad():
        for weight in teacher.parameters():
            weight.add_(0.3 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(0)))
    distil = Distill(objective, Teacher(teacher), DistillConfig(teacher="teacher"))
    batches = [build(lengths) for lengths in several]
    shape = StaticShape.of(batches)
    assert shape is not None
    for batch in batches:
        mine, theirs = (distil(student, one) for one in (shape.fill(batch), batch))
        torch.testing.assert_close(mine["soft"].total, theirs["soft"].total, atol=1e-4, rtol=1e-4)
        assert mine["soft"].total > 1e-4
        assert mine["soft"].count == theirs["soft"].count


@pytest.mark.parametrize("kind", REPLACED)
@given(several=st.lists(LENGTHS, min_size=2, max_size=5))
@settings(max_examples=15, deadline=None)
def test_electra_asks_nothing_of_fillers(several: list[list[int]], kind: str) -> None:
    torch.manual_seed(0)
    objective = REPLACED[kind]
    model, batches = replaced_model(objective).eval(), [masked(lengths) for lengths in several]
    shape = StaticShape.of(batches)
    assert shape is not None
    for batch in batches:
        fixed = shape.fill(batch)
        assert fixed is not None
        with torch.no_grad():
            mine, theirs = (objective(model, b) for b in (fixed, batch))
        torch.testing.assert_close(
            weighted(mine, objective.weights), weighted(theirs, objective.weights), atol=1e-4, rtol=1e-4
        )
        for name, count in objective.counts(fixed).items():
            assert mine[name].count == theirs[name].count == count


def test_given_positions_stay_with_their_tokens() -> None:
    batch, larger = masked([3, 2]), masked([6, 7, 5])
    positions = torch.tensor([4, 5, 6, 1, 2])
    moved = dataclasses.replace(batch, tokens=dataclasses.replace(batch.tokens, positions=positions))
    shape = StaticShape.of([batch, larger])
    assert shape is not None
    fixed = shape.fill(moved)
    assert fixed is not None
    assert fixed.tokens.positions.tolist() == [4, 5, 6, 1, 2] + [0] * (shape.rows[0] - 5)


@given(small=LENGTHS, large=LENGTHS)
@settings(max_examples=50, deadline=None)
def test_a_form_grows_to_hold_what_it_could_not(small: list[int], large: list[int]) -> None:
    shape = StaticShape.of([translated(small), translated(small)])
    assert shape is not None
    grown = shape.grown(translated(large))
    assert grown.fill(translated(large)) is not None
    assert grown.fill(translated(small)) is not None
    assert StaticShape.read(dataclasses.asdict(grown)) == grown


@given(small=LENGTHS, large=LENGTHS)
@settings(max_examples=30, deadline=None)
def test_each_part_of_a_mixture_has_a_shape_of_its_own(small: list[int], large: list[int]) -> None:
    first, second = ({"masked": masked(n), "translated": translated(n)} for n in (small, large))
    shape = StaticShape.of([first, first])
    assert shape is not None
    grown = shape.grown(second)
    assert StaticShape.read(dataclasses.asdict(grown)) == grown
    for batch in (first, second):
        filled = grown.fill(batch)
        assert filled.keys() == batch.keys()
        for name, part in batch.items():
            assert [side.num_rows for side in layouts(filled[name])] == list(grown.parts[name].rows)
            assert filled[name].num_targets == (grown.parts[name].targets if part.num_targets else 0)
    alone = {"masked": masked(small)}
    assert grown.fill(alone) is None
    assert grown.grown(alone) == grown  # nothing to record: an ordinary step


def test_only_batches_of_as_many_images_fit() -> None:
    full, last = (Labelled(Images(torch.zeros(n, 3, 8, 8)), torch.zeros(n)) for n in (4, 3))
    shape = StaticShape.of([full, last, full])
    assert shape is not None
    assert shape.fill(full) is full
    assert shape.fill(last) is None
    assert shape.grown(last) == shape  # a filler would be mixed into a real image
    assert StaticShape.read(dataclasses.asdict(shape)) == shape


def test_batches_whose_examples_see_one_another_have_no_form() -> None:
    assert StaticShape.of([SentencePairs(tokens([3, 4]), tokens([2, 2]))]) is None
    assert StaticShape.of([{"pairs": SentencePairs(tokens([3, 4]), tokens([2, 2]))}]) is None
    assert StaticShape.of([{"one": masked([3, 4])}, masked([3, 4])]) is None
    assert StaticShape.of([{"one": masked([3, 4])}, {"other": masked([3, 4])}]) is None
    assert StaticShape.of([masked([3, 4]), SentencePairs(tokens([3, 4]), tokens([2, 2]))]) is None
    assert StaticShape.of([]) is None


@dataclasses.dataclass(frozen=True, eq=False)
class Graded(Batch):
    """A user's own kind: a grade for each text, and words of it that are named by their rows."""

    tokens: Tokens
    grades: torch.Tensor
    named: torch.Tensor
    is_static = True

    @property
    def num_targets(self) -> int:
        return len(self.named)

    def filled(self, shape: StaticShape, layouts: list[Ragged]) -> Graded:
        grades, named = pad(self.grades, shape.sequences, IGNORED), pad(self.named, shape.targets, 0)
        return Graded(self.tokens.padded(layouts[0]), grades, named)


def test_a_kind_of_your_own_brings_itself_to_a_static_shape() -> None:
    batches = [Graded(tokens(n), torch.ones(len(n)), torch.arange(n[0])) for n in ([3, 2], [6, 7, 5])]
    shape = StaticShape.of(batches)
    assert shape is not None
    for batch in batches:
        fixed = shape.fill(batch)
        assert fixed is not None
        assert fixed.size == (shape.rows[0], "tok")
        assert (len(fixed.grades), len(fixed.named)) == (shape.sequences, shape.targets)
        assert fixed.grades.tolist()[: len(batch.grades)] == batch.grades.tolist()
