import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from qkv.common.ragged import Ragged
from qkv.nn.cache import KeyValueCache


def append(cache, parts, layers=1):
    """Add one tensor of rows per sequence; keys are the rows, values their negatives."""
    cache.begin(Ragged.of([len(part) for part in parts]))
    rows = torch.cat(parts)
    return [cache.write(layer, rows + layer, -rows - layer) for layer in range(layers)]


def held(cache, k):
    return cache.keys.split(k)


def test_new_tokens_follow_the_old_ones_of_their_sequence():
    cache = KeyValueCache(2, capacity=8)
    a, b = torch.randn(3, 2, 4), torch.randn(1, 2, 4)
    append(cache, [a, b])
    c, d = torch.randn(1, 2, 4), torch.randn(2, 2, 4)
    k, v = append(cache, [c, d])[0]
    first, second = held(cache, k)
    assert torch.equal(first, torch.cat([a, c]))
    assert torch.equal(second, torch.cat([b, d]))
    assert torch.equal(v, -k)
    assert cache.keys.host_lengths == [4, 3]
    assert cache.positions.tolist() == [3, 1, 2]


@given(
    st.lists(st.lists(st.integers(0, 4), min_size=2, max_size=2), min_size=1, max_size=5).filter(lambda s: any(s[0])),
    st.integers(1, 4),
)
def test_any_steps_hold_what_was_put_in_growing_as_needed(steps, capacity):
    cache = KeyValueCache(2, capacity=capacity)
    put = [[], []]
    for step in steps:
        parts = [torch.randn(size, 1, 3) for size in step]
        for sequence, part in zip(put, parts, strict=True):
            sequence.append(part)
        written = append(cache, parts, layers=2)
        for layer, (k, v) in enumerate(written):
            for found, wanted in zip(held(cache, k), put, strict=True):
                assert torch.equal(found, torch.cat(wanted) + layer)
            assert torch.equal(held(cache, v)[0], -held(cache, k)[0])
        assert cache.keys.max_length <= cache.keys.pitch
        assert cache.keys.num_rows == len(written[0][0])
        assert not cache.keys.packed


def test_positions_of_a_step_start_where_each_sequence_stands():
    cache = KeyValueCache(3, capacity=2)
    append(cache, [torch.zeros(n, 1, 1) for n in (5, 0, 2)])
    assert cache.positions.tolist() == [0, 1, 2, 3, 4, 0, 1]
    append(cache, [torch.zeros(n, 1, 1) for n in (1, 2, 0)])
    assert cache.positions.tolist() == [5, 0, 1]


@pytest.mark.parametrize("order", [[1, 0], [1, 1], [0, 0, 1, 1], [1]])
def test_reorder_makes_slots_continue_others(order):
    cache = KeyValueCache(2, capacity=3)
    parts = [torch.randn(2, 1, 4), torch.randn(3, 1, 4)]
    append(cache, parts, layers=2)
    cache.reorder(torch.tensor(order))
    more = [torch.randn(1, 1, 4) for _ in order]
    for layer, (k, _) in enumerate(append(cache, more, layers=2)):
        for found, source, new in zip(held(cache, k), order, more, strict=True):
            assert torch.equal(found, torch.cat([parts[source], new]) + layer)


def test_a_repeated_slot_does_not_share_its_future():
    cache = KeyValueCache(1, capacity=4)
    append(cache, [torch.zeros(1, 1, 1)])
    cache.reorder(torch.tensor([0, 0]))
    k, _ = append(cache, [torch.ones(1, 1, 1), 2 * torch.ones(1, 1, 1)])[0]
    assert [part.flatten().tolist() for part in held(cache, k)] == [[0, 1], [0, 2]]


def test_memory_is_computed_once_per_layer_and_survives_a_reorder():
    cache, asked = KeyValueCache(2), []

    def compute(layer):
        asked.append(layer)
        return torch.full((3,), layer), torch.full((3,), -layer)

    first = cache.remember(1, lambda: compute(1))
    other = cache.remember(2, lambda: compute(2))
    cache.reorder(torch.tensor([1, 0]))
    again = cache.remember(1, lambda: compute(1))
    assert asked == [1, 2]
    assert again[0] is first[0]
    assert not torch.equal(other[0], first[0])


def test_as_many_sequences_as_slots():
    with pytest.raises(ValueError, match=r"zip|sequences"):
        KeyValueCache(2).begin(Ragged.of([1, 1, 1]))


@given(st.data())
def test_any_moves_keep_what_each_slot_holds(data):
    """Tokens come, slots are repeated, moved and left out, in any order, against plain lists."""
    cache, held_by = KeyValueCache(2, capacity=2), [[], []]
    count = 0
    for _ in range(data.draw(st.integers(1, 6))):
        sizes = data.draw(st.lists(st.integers(0, 2), min_size=len(held_by), max_size=len(held_by)))
        if count == 0 and not any(sizes):
            sizes[0] = 1
        parts = []
        for size in sizes:
            parts.append(torch.arange(count, count + size).float().view(-1, 1, 1))
            count += size
        written = append(cache, parts, layers=2)
        held_by = [old + part.flatten().tolist() for old, part in zip(held_by, parts, strict=True)]
        for layer, (k, v) in enumerate(written):
            assert [part.flatten().tolist() for part in held(cache, k)] == [[x + layer for x in h] for h in held_by]
            assert torch.equal(torch.cat(held(cache, v)), -torch.cat(held(cache, k)))
        order = data.draw(st.lists(st.integers(0, len(held_by) - 1), min_size=1, max_size=5))
        cache.reorder(torch.tensor(order))
        held_by = [held_by[slot] for slot in order]
        assert cache.lengths == [len(h) for h in held_by]


def test_a_move_copies_only_what_differs(monkeypatch):
    copied = []
    plain = KeyValueCache._copy

    def counting(self, origin, to, start, end):
        copied.append(int((end - start).sum()))
        plain(self, origin, to, start, end)

    monkeypatch.setattr(KeyValueCache, "_copy", counting)
    cache = KeyValueCache(2)
    append(cache, [torch.randn(10, 1, 1), torch.randn(6, 1, 1)])
    cache.reorder(torch.tensor([0, 0, 1, 1]))  # beams are born
    append(cache, [torch.randn(2, 1, 1)] * 4)
    cache.reorder(torch.tensor([1, 0, 2, 2]))  # of 12, 12 and 8 tokens the last two differ
    cache.reorder(torch.tensor([0, 1, 2, 3]))
    cache.reorder(torch.tensor([2, 3]))  # the first source leaves: its slots share nothing with the second's
    assert copied == [10 + 6 + 6, 2 + 2 + 2, 8 + 8]
