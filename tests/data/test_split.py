"""The stratified split: shares by class, duplicates together, and the same each time."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from qkv.data.split import stratified

EXAMPLES = st.lists(st.tuples(st.sampled_from([f"t{i}" for i in range(60)]), st.sampled_from("abc")), max_size=120)


@given(EXAMPLES, st.floats(0.01, 0.9), st.integers(0, 3))
def test_every_class_gives_its_share_and_no_text_is_on_both_sides(examples, share, seed):
    out = stratified(examples, share, seed)
    inside = {examples[i][0] for i in range(len(examples)) if i not in out}
    assert inside.isdisjoint(examples[i][0] for i in out)
    first = {}  # a text belongs to the class it came with first
    for text, label in examples:
        first.setdefault(text, label)
    wanted = Counter(first.values())
    given_away = Counter(first[text] for text in {examples[i][0] for i in out})
    for label, count in wanted.items():
        assert given_away[label] == min(max(1, round(share * count)), count - 1)


@given(EXAMPLES, st.integers(0, 3))
def test_a_larger_share_is_a_superset_and_order_does_not_matter(examples, seed):
    small, large = stratified(examples, 0.1, seed), stratified(examples, 0.5, seed)
    assert small <= large
    alone = list({text: (text, "a") for text, _ in examples}.values())
    there = {alone[i][0] for i in stratified(alone, 0.3, seed)}
    assert there == {alone[::-1][i][0] for i in stratified(alone[::-1], 0.3, seed)}


def test_nothing_is_held_out_of_nothing():
    assert stratified([("a", "x"), ("b", "x")], 0.0, 0) == set()
    assert stratified([], 0.5, 0) == set()
    assert stratified([("a", "x")], 0.9, 0) == set()


def test_another_seed_is_another_split():
    examples = [(f"text {i}", "ab"[i % 2]) for i in range(200)]
    assert stratified(examples, 0.2, 0) == stratified(examples, 0.2, 0) != stratified(examples, 0.2, 1)
