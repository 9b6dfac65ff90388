import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from qkv.common.ragged import Ragged
from qkv.nn.rectangles import FILL, gather, rectangles
from tests.common.layouts import spaced

# Any lengths, and keys of nearly one length under queries of any.
PAIRS = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=12) | st.lists(
    st.tuples(st.integers(1, 12), st.integers(8, 10)), min_size=1, max_size=4
)


def layouts(pairs):
    return Ragged.of([q for q, _ in pairs]), Ragged.of([k for _, k in pairs])


def area(sizes):
    return len(sizes) * max(sizes)


@settings(max_examples=200)
@given(PAIRS)
@example([(9, 8), (1, 9)])
def test_queries_are_padded_by_less_than_one_over_fill(pairs):
    plan = rectangles(*layouts(pairs))
    assert sum(area(r.q_lengths) for r in plan) <= sum(q for q, _ in pairs) / FILL + 1e-9


@given(PAIRS)
def test_keys_are_padded_by_less_than_one_over_fill(pairs):
    plan = rectangles(*layouts(pairs))
    assert sum(area(r.k_lengths) for r in plan) <= sum(k for _, k in pairs) / FILL + 1e-9


@given(st.lists(st.integers(1, 60), min_size=1, max_size=12))
def test_self_attention_is_padded_by_less_than_one_over_fill(lengths):
    layout = Ragged.of(lengths)
    plan = rectangles(layout, layout)
    assert sum(area(r.q_lengths) for r in plan) <= sum(lengths) / FILL + 1e-9
    assert all(min(r.q_lengths) >= FILL * max(r.q_lengths) for r in plan)


def test_equal_lengths_are_one_rectangle_without_padding():
    layout = Ragged.of([5] * 4)
    (only,) = rectangles(layout, layout)
    x = torch.arange(20)
    assert only.queries(x).tolist() == x.view(4, 5).tolist()
    assert not only.ragged_keys
    assert only.shift is None


@given(PAIRS)
def test_every_sequence_is_in_one_rectangle_with_its_own_rows(pairs):
    queries, keys = layouts(pairs)
    x, y = torch.randn(queries.num_rows, 2), torch.randn(keys.num_rows, 2)
    plan, seen = rectangles(queries, keys), []
    for r in plan:
        seen += r.sequences
        for row, b in enumerate(r.sequences):
            assert (r.q_lengths[row], r.k_lengths[row]) == pairs[b]
            assert torch.equal(r.queries(x)[row, : pairs[b][0]], queries.split(x)[b])
            assert torch.equal(r.keys(y)[row, : pairs[b][1]], keys.split(y)[b])
            before = 0 if r.shift is None else int(r.shift[row])
            assert before == pairs[b][1] - pairs[b][0]
    assert sorted(seen) == list(range(len(pairs)))


@given(PAIRS)
def test_the_order_of_the_row_is_restored(pairs):
    queries, keys = layouts(pairs)
    x = torch.randn(queries.num_rows, 2)
    plan = rectangles(queries, keys)
    moved = torch.cat([r.rows(r.queries(x)) for r in plan])
    assert torch.equal(gather(moved, plan[0].inverse, plan[0].order), x)


@settings(max_examples=200)
@given(PAIRS)
@example([(9, 8), (1, 9)])
def test_one_rectangle_keeps_the_order_of_the_row(pairs):
    # The kernels rely on this: they put nothing back where there is one rectangle.
    queries, keys = layouts(pairs)
    plan = rectangles(queries, keys)
    if len(plan) == 1:
        assert plan[0].sequences == list(range(len(pairs)))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8).filter(any))
def test_a_sequence_that_asks_nothing_is_in_no_rectangle(lengths):
    plan = rectangles(Ragged.of(lengths), Ragged.of([9] * len(lengths)))
    assert sorted(b for r in plan for b in r.sequences) == [b for b, length in enumerate(lengths) if length]


def test_where_nobody_asks_there_is_no_rectangle():
    assert rectangles(Ragged.of([0, 0]), Ragged.of([3, 4])) == []


def cached(lengths, pitch):
    return spaced(lengths, [pitch - length for length in lengths], pitch=pitch)


def test_a_cache_is_viewed_not_copied():
    keys = cached([2, 7, 3], 8)
    (only,) = rectangles(Ragged.of([1, 1, 1]), keys)
    x = torch.randn(24, 2)
    assert only.keys(x).data_ptr() == x.data_ptr()
    assert only.keys(x).shape == (3, 7, 2)
    assert only.ragged_keys


def test_a_plan_is_made_once_for_a_pair_of_layouts():
    queries, keys, other = Ragged.of([1, 2]), Ragged.of([3, 4]), Ragged.of([2, 2])
    first = rectangles(queries, keys)
    assert rectangles(queries, keys) is first
    assert rectangles(queries, other) is not first
    assert rectangles(queries, other)[0].k_lengths != first[0].k_lengths


@given(PAIRS)
def test_moving_rows_there_and_back_passes_the_gradient_on(pairs):
    queries, keys = layouts(pairs)
    x = torch.randn(queries.num_rows, 2, dtype=torch.float64, requires_grad=True)
    plan = rectangles(queries, keys)
    back = gather(torch.cat([r.rows(r.queries(x) ** 2) for r in plan]), plan[0].inverse, plan[0].order)
    upstream = torch.randn_like(x)
    (found,) = torch.autograd.grad(back, x, upstream)
    torch.testing.assert_close(found, 2 * x * upstream)
