import dataclasses

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from qkv.common.outputs import Hidden
from qkv.common.ragged import Ragged
from tests.common.layouts import spaced

LENGTHS = st.lists(st.integers(0, 6), min_size=1, max_size=8)


def slack_layout(slots):
    """A layout with room to grow, from (length, spare) pairs, and what each of its rows holds."""
    owner = [b for b, slot in enumerate(slots) for _ in range(sum(slot))]
    place = [i for slot in slots for i in range(sum(slot))]
    return spaced(*zip(*slots, strict=True)), owner, place


SLOTS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=6)


@given(LENGTHS)
def test_rows_know_their_sequence_and_place(lengths):
    layout = Ragged.of(lengths)
    assert layout.sequence_of.tolist() == [b for b, length in enumerate(lengths) for _ in range(length)]
    assert layout.position_of.tolist() == [i for length in lengths for i in range(length)]


@given(LENGTHS)
def test_numbers_of_a_packed_layout(lengths):
    layout = Ragged.of(lengths)
    assert layout.host_lengths == lengths
    assert layout.num_sequences == len(lengths)
    assert layout.num_rows == sum(lengths)
    assert layout.max_length == max(lengths)
    assert layout.packed
    assert layout.offsets.dtype == layout.lengths.dtype == torch.int32
    assert layout.offsets.tolist() == [sum(lengths[:b]) for b in range(len(lengths) + 1)]


@given(SLOTS)
def test_rows_of_a_layout_with_slack_know_their_slot_and_place(slots):
    layout, owner, place = slack_layout(slots)
    assert layout.sequence_of.tolist() == owner
    assert layout.position_of.tolist() == place


@pytest.mark.parametrize(
    ("lengths", "pitch"), [([3, 3, 3], 3), ([4], 4), ([1, 2], None), ([0, 0], 0), ([2, 0], None), ([], None)]
)
def test_pitch_is_known_where_all_lengths_are_equal(lengths, pitch):
    assert Ragged.of(lengths).pitch == pitch


def test_no_sequences_at_all():
    layout = Ragged.of([])
    assert (layout.num_sequences, layout.num_rows, layout.max_length) == (0, 0, 0)
    assert layout.split(torch.empty(0, 2)) == []


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6))
def test_first_and_last_rows(lengths):
    layout = Ragged.of(lengths)
    starts = [sum(lengths[:b]) for b in range(len(lengths))]
    assert layout.first.tolist() == starts
    assert layout.last.tolist() == [start + length - 1 for start, length in zip(starts, lengths, strict=True)]


@given(LENGTHS)
def test_split_undoes_concatenation(lengths):
    parts = [torch.randn(length, 2) for length in lengths]
    found = Ragged.of(lengths).split(torch.cat(parts))
    assert len(found) == len(parts)
    assert all(torch.equal(a, b) for a, b in zip(found, parts, strict=True))


@given(SLOTS)
def test_split_leaves_the_slack_out(slots):
    layout, owner, place = slack_layout(slots)
    rows = torch.tensor(list(zip(owner, place, strict=True))).reshape(-1, 2)
    for b, part in enumerate(layout.split(rows)):
        assert part.tolist() == [[b, i] for i in range(slots[b][0])]


@given(LENGTHS)
def test_mean_is_the_mean_of_each_sequence_and_zero_for_an_empty_one(lengths):
    x = torch.randn(sum(lengths), 3, dtype=torch.float64)
    found = Ragged.of(lengths).mean(x)
    wanted = [part.mean(0) if len(part) else torch.zeros(3, dtype=x.dtype) for part in x.split(lengths)]
    torch.testing.assert_close(found, torch.stack(wanted))


@given(SLOTS)
def test_mean_leaves_the_slack_out(slots):
    layout, _, _ = slack_layout(slots)
    x = torch.randn(layout.num_rows, 3, dtype=torch.float64)
    wanted = [part.mean(0) if len(part) else torch.zeros(3, dtype=x.dtype) for part in layout.split(x)]
    torch.testing.assert_close(layout.mean(x), torch.stack(wanted))


@given(st.data())
def test_select_keeps_some_sequences_cut_short_where_they_are(data):
    lengths = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=6))
    chosen = sorted(data.draw(st.sets(st.integers(0, len(lengths) - 1), min_size=1)))
    cut = [data.draw(st.integers(1, lengths[b])) for b in chosen]
    layout = Ragged.of(lengths)
    x = torch.arange(sum(lengths))
    kept = layout.select(torch.tensor(chosen), torch.tensor(cut))
    whole = layout.split(x)
    assert [part.tolist() for part in kept.split(x)] == [
        whole[b][:length].tolist() for b, length in zip(chosen, cut, strict=True)
    ]
    assert kept.host_lengths == cut
    assert kept.max_length == max(cut)
    assert kept.num_rows == len(x)
    assert not kept.packed


def test_hidden_splits_its_states():
    hidden = Hidden(torch.arange(6).view(3, 2), Ragged.of([1, 2]))
    assert [part.tolist() for part in hidden.split()] == [[[0, 1]], [[2, 3], [4, 5]]]


def test_a_copy_knows_no_plans_and_a_fresh_one_no_lengths():
    layout = Ragged.of([2, 1])
    layout.plans["kernel"] = "worked out"
    assert layout.twice().host_lengths == [2, 1, 2, 1]
    assert layout.fresh().known_lengths is None
    assert layout.fresh().plans == dataclasses.replace(layout).plans == {}
    assert "plans" not in repr(layout)


def test_a_fresh_layout_reads_its_lengths_again():
    layout = Ragged.of([2, 1])
    fresh = layout.fresh()
    layout.lengths.copy_(torch.tensor([1, 2]))
    assert fresh.host_lengths == [1, 2]
