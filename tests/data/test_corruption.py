"""Damage has the size that was asked for, spares what is protected, and can be undone."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qkv.common.errors import UsageError
from qkv.data.corruption import (
    NoiseTable,
    cbow_contexts,
    corrupt_spans,
    infill,
    keep_rates,
    mask_tokens,
    pair_sentences,
    permute_sentences,
    restore_spans,
    skip_grams,
    split_prefix,
)

V, MASK, END = 60, 3, 1
SENTINELS = range(99, 89, -1)
TEXT = st.lists(st.integers(5, V - 1), max_size=40)
ROW = st.lists(st.tuples(st.integers(5, V - 1), st.booleans(), st.booleans()), max_size=40)
SEED = st.integers(0, 2**32 - 1)
RATE = st.floats(0.0, 1.0)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def mask(ids: Any, protected: Any, seed: int = 0, **rest: Any) -> tuple[Any, Any, Any]:
    return mask_tokens(ids, protected, mask_id=MASK, vocab_size=V, rng=rng(seed), **rest)


def amount(rate: float, size: int) -> int:
    return max(1, round(rate * size)) if rate > 0 and size else 0


@given(ROW, SEED, RATE)
def test_masking_is_exact_spares_the_protected_and_can_be_undone(row: Any, seed: int, rate: float) -> None:
    ids, protected = [i for i, _, _ in row], np.array([p for _, p, _ in row], dtype=bool)
    corrupted, rows, wanted = mask(ids, protected, seed, rate=rate, random_ids=range(5, V))
    assert len(rows) == amount(rate, int((~protected).sum()))
    assert not protected[rows].any()
    assert (np.diff(rows) > 0).all()
    untouched = np.setdiff1d(np.arange(len(ids)), rows)
    assert (corrupted[untouched] == np.array(ids, dtype=int)[untouched]).all()
    corrupted[rows] = wanted
    assert corrupted.tolist() == ids


@given(ROW, SEED, st.floats(0.01, 1.0))
def test_whole_words_are_hidden_until_the_rate_is_reached(row: Any, seed: int, rate: float) -> None:
    ids, protected = [i for i, _, _ in row], [p for _, p, _ in row]
    starts = [s for _, _, s in row]
    _, rows, _ = mask(ids, protected, seed, rate=rate, word_starts=starts)
    words: list[list[int]] = []
    for i in range(len(ids)):
        if protected[i]:
            continue
        if starts[i] or i == 0 or protected[i - 1] or not words:
            words.append([])
        words[-1].append(i)
    chosen = set(rows.tolist())
    hit = [w for w in words if chosen & set(w)]
    assert sorted(i for w in hit for i in w) == rows.tolist()
    number = amount(rate, sum(map(len, words)))
    assert len(rows) >= number
    assert not hit or len(rows) - max(map(len, hit)) < number


def test_eight_of_ten_are_masked_one_is_random_one_is_kept() -> None:
    ids = rng().integers(5, V, 4000)
    corrupted, rows, wanted = mask(ids, np.zeros(4000, dtype=bool), rate=0.5, random_ids=range(30, 40))
    assert len(rows) == 2000
    masked = corrupted[rows] == MASK
    assert masked.sum() in (1599, 1600, 1601)
    other = corrupted[rows][~masked]
    changed = other != wanted[~masked]
    assert ((other[changed] >= 30) & (other[changed] < 40)).all()
    assert 150 <= changed.sum() <= 201  # a random id may be the one that stood there


def test_short_rows_get_every_kind_too() -> None:
    """One hidden token at a time: exact shares by rounding would always mask it."""
    draw = rng()
    kinds: Counter[str] = Counter()
    for _ in range(3000):
        found, _, _ = mask_tokens([7], [False], mask_id=MASK, vocab_size=V, rng=draw, random_ids=[8])
        kinds[{MASK: "masked", 8: "random", 7: "kept"}[int(found[0])]] += 1
    assert abs(kinds["masked"] / 3000 - 0.8) < 0.03
    assert abs(kinds["random"] / 3000 - 0.1) < 0.03


@given(SEED)
def test_random_replacements_are_never_special(seed: int) -> None:
    ids = [2, *range(5, 45), 4]
    protected = [True, *[False] * 40, True]
    corrupted, rows, _ = mask_tokens(ids, protected, mask_id=3, vocab_size=6, rng=rng(seed), rate=1.0)
    unmasked = corrupted[rows][corrupted[rows] != 3]
    assert not np.isin(unmasked, [2, 4]).any()
    corrupted, rows, _ = mask(ids, protected, seed, rate=1.0, random_ids=np.array([50, 52]))
    changed = corrupted[rows][(corrupted[rows] != MASK) & (corrupted[rows] != np.array(ids)[rows])]
    assert np.isin(changed, [50, 52]).all()


def test_every_token_is_as_likely_as_any_other() -> None:
    hits = np.zeros(10)
    draw = rng()
    for _ in range(4000):
        _, rows, _ = mask_tokens(np.arange(10), np.zeros(10), mask_id=MASK, vocab_size=V, rng=draw, rate=0.3)
        hits[rows] += 1
    assert np.abs(hits / 4000 - 0.3).max() < 0.04


@given(TEXT, SEED, RATE, st.floats(1.0, 6.0))
def test_spans_can_be_restored(ids: list[int], seed: int, rate: float, length: float) -> None:
    source, target = corrupt_spans(ids, sentinels=SENTINELS, end_id=END, rng=rng(seed), rate=rate, mean_length=length)
    assert target[-1] == END
    assert restore_spans(source, target, sentinels=SENTINELS, end_id=END).tolist() == ids
    used = np.isin(source, SENTINELS)
    hidden = min(amount(rate, len(ids)), len(ids) - 1) if len(ids) > 1 else 0
    assert len(ids) - (~used).sum() == hidden
    assert source[used].tolist() == list(SENTINELS)[: used.sum()]
    assert not (used[1:] & used[:-1]).any()
    if hidden:
        assert used.sum() == min(max(1, round(hidden / length)), len(ids) - hidden + 1, len(SENTINELS))


@given(TEXT.filter(lambda ids: len(ids) > 8), SEED)
def test_fewer_sentinels_make_longer_spans(ids: list[int], seed: int) -> None:
    source, target = corrupt_spans(ids, sentinels=[99, 98], end_id=END, rng=rng(seed), rate=0.5, mean_length=1.0)
    assert np.isin(source, [99, 98]).sum() == 2
    assert len(target) == round(0.5 * len(ids)) + 3
    assert restore_spans(source, target, sentinels=[99, 98], end_id=END).tolist() == ids


@given(st.lists(st.integers(END, END + 2), max_size=12), SEED)
def test_spans_of_texts_with_end_tokens_are_restored(ids: list[int], seed: int) -> None:
    source, target = corrupt_spans(ids, sentinels=SENTINELS, end_id=END, rng=rng(seed), rate=0.4)
    assert restore_spans(source, target, sentinels=SENTINELS, end_id=END).tolist() == ids


@pytest.mark.parametrize("ids", [[], [7]])
def test_spans_of_almost_nothing(ids: list[int]) -> None:
    source, target = corrupt_spans(ids, sentinels=SENTINELS, end_id=END, rng=rng())
    assert source.tolist() == ids
    assert target.tolist() == [END]


def test_spans_of_two_tokens_hide_either() -> None:
    draw = rng()
    found = {tuple(corrupt_spans([7, 8], sentinels=[99], end_id=END, rng=draw)[0].tolist()) for _ in range(50)}
    assert found == {(99, 8), (7, 99)}


def test_every_way_to_hide_is_equally_likely() -> None:
    """Two spans of three tokens in six: 2 ways to split the spans, 6 to place them."""
    draw = rng()
    seen = Counter(
        tuple(corrupt_spans(range(6), sentinels=[99, 98], end_id=77, rng=draw, rate=0.5, mean_length=1.5)[0].tolist())
        for _ in range(3000)
    )
    expected = sum(
        1 for bits in range(64) if bin(bits).count("1") == 3 and len([s for s in f"{bits:06b}".split("0") if s]) == 2
    )
    assert len(seen) == expected
    assert min(seen.values()) > 0.6 * 3000 / expected


@given(TEXT, SEED, RATE, st.floats(1.0, 6.0))
def test_infilling_hides_a_number_of_tokens_and_keeps_the_order(
    ids: list[int], seed: int, rate: float, length: float
) -> None:
    source = infill(ids, mask_id=MASK, rng=rng(seed), rate=rate, mean_length=length).tolist()
    left = [i for i in source if i != MASK]
    assert len(ids) - len(left) == amount(rate, len(ids))
    walk = iter(ids)
    assert all(i in walk for i in left)  # a subsequence
    assert (MASK in source) == bool(amount(rate, len(ids)))


def test_infilled_spans_are_poisson() -> None:
    """Spans have the mean that was asked for; e^-3 of them hide nothing."""
    source = infill(np.arange(5, 60_005), mask_id=MASK, rng=rng(), rate=0.3)
    masks = (source == MASK).sum()
    assert abs(18_000 / masks - 3.0) < 0.1
    inside = np.flatnonzero(source == MASK)
    inside = inside[(inside > 0) & (inside < len(source) - 1)]
    inserted = source[inside + 1] - source[inside - 1] == 1
    assert 0.02 < inserted.mean() < 0.08


SENTENCES = st.lists(st.lists(st.integers(10, V - 1), min_size=1, max_size=5), max_size=6)
STOP = 7


@given(SENTENCES, st.lists(st.integers(10, V - 1), max_size=4), SEED)
def test_permuted_sentences_stay_whole(sentences: list[list[int]], rest: list[int], seed: int) -> None:
    """Sentences that end in one or two full stops, and a rest without one."""
    parts = [[*words, *[STOP] * (1 + number % 2)] for number, words in enumerate(sentences)] + ([rest] if rest else [])
    ids = np.array([token for part in parts for token in part], dtype=np.int64)
    found = permute_sentences(ids, ids == STOP, rng=rng(seed)).tolist()
    order = rng(seed).permutation(len(parts)) if parts else []
    assert found == [token for number in order for token in parts[number]]


def test_every_order_of_sentences_is_equally_likely() -> None:
    ids, draw = np.array([20, STOP, 30, STOP, 40]), rng()
    found = Counter(tuple(permute_sentences(ids, ids == STOP, rng=draw).tolist()) for _ in range(6000))
    assert len(found) == 6
    assert all(abs(count - 1000) < 150 for count in found.values())


@given(TEXT, SEED)
def test_a_prefix_and_its_rest_are_the_text(ids: list[int], seed: int) -> None:
    source, target = split_prefix(ids, rng=rng(seed))
    assert [*source.tolist(), *target.tolist()] == ids
    assert (len(source) > 0) == (len(ids) > 1)
    assert (len(target) > 0) == (len(ids) > 0)


def test_every_place_splits_alike() -> None:
    draw = rng()
    found = Counter(len(split_prefix(range(5), rng=draw)[0]) for _ in range(4000))
    assert found.keys() == {1, 2, 3, 4}
    assert all(abs(count - 1000) < 120 for count in found.values())


@given(st.integers(0, 15), SEED)
def test_pairs_are_balanced(size: int, seed: int) -> None:
    seconds, others = ([f"{kind}{i}" for i in range(size)] for kind in "ab")
    beside, labels = pair_sentences(seconds, others, rng=rng(seed))
    assert abs(2 * labels.sum() - size) <= 1
    assert beside == [others[i] if label else seconds[i] for i, label in enumerate(labels)]


def test_odd_batches_of_pairs_are_balanced_in_the_long_run() -> None:
    draw = rng()
    assert 0.45 < np.mean([pair_sentences("a", "b", rng=draw)[1][0] for _ in range(2000)]) < 0.55


def naive_pairs(words: list[int], reach: list[int]) -> list[tuple[int, int]]:
    found = []
    for i, centre in enumerate(words):
        for j in range(max(0, i - reach[i]), min(len(words), i + reach[i] + 1)):
            if j != i:
                found.append((centre, words[j]))
    return found


@given(TEXT, SEED, st.integers(1, 5))
def test_skip_grams_against_the_loop(ids: list[int], seed: int, window: int) -> None:
    centres, contexts = skip_grams(ids, window=window, rng=rng(seed))
    reach = rng(seed).integers(1, window + 1, size=len(ids)).tolist()
    assert list(zip(centres.tolist(), contexts.tolist(), strict=True)) == naive_pairs(ids, reach)


@given(TEXT, SEED, st.integers(1, 5))
def test_cbow_holds_the_same_pairs(ids: list[int], seed: int, window: int) -> None:
    contexts, centres = cbow_contexts(ids, window=window, rng=rng(seed))
    assert contexts.shape == (len(ids) if len(ids) > 1 else 0, 2 * window)
    pairs = [(c, w) for c, row in zip(centres.tolist(), contexts.tolist(), strict=True) for w in row if w >= 0]
    grams = skip_grams(ids, window=window, rng=rng(seed))
    assert pairs == list(zip(*(side.tolist() for side in grams), strict=True))


def test_frequent_words_are_dropped_before_windows_are_laid() -> None:
    keep = np.ones(V)
    keep[9] = 0.0
    centres, contexts = skip_grams([7, 9, 9, 9, 8], window=1, rng=rng(), keep=keep)
    assert list(zip(centres.tolist(), contexts.tolist(), strict=True)) == [(7, 8), (8, 7)]
    assert cbow_contexts([7, 9], window=2, rng=rng(), keep=keep)[1].tolist() == []


def test_keep_rates_follow_the_paper() -> None:
    rates = keep_rates([0, 1, 99], threshold=0.04)
    assert rates == pytest.approx([1.0, 1.0, np.sqrt(0.04 / 0.99)])


def test_noise_words_follow_their_counts_to_a_power() -> None:
    table = NoiseTable([0, 1, 16, 0, 81, 0])
    drawn = table.sample(rng(), (200, 100))
    assert drawn.shape == (200, 100)
    share = np.bincount(drawn.ravel(), minlength=6) / drawn.size
    assert share == pytest.approx(np.array([0, 1, 8, 0, 27, 0]) / 36, abs=0.01)
    assert not NoiseTable([0, 3], power=0.0).sample(rng(), 50).min() < 1


@given(ROW, SEED)
@settings(max_examples=30)
def test_the_same_generator_gives_the_same_damage(row: Any, seed: int) -> None:
    ids, protected, starts = [i for i, _, _ in row], [p for _, p, _ in row], [s for _, _, s in row]

    def everything() -> list[Any]:
        draw = rng(seed)
        return [
            *mask_tokens(ids, protected, mask_id=MASK, vocab_size=V, rng=draw),
            *mask_tokens(ids, protected, mask_id=MASK, vocab_size=V, rng=draw, word_starts=starts),
            *corrupt_spans(ids, sentinels=SENTINELS, end_id=END, rng=draw),
            infill(ids, mask_id=MASK, rng=draw),
            permute_sentences(ids, starts, rng=draw),
            *split_prefix(ids, rng=draw),
            pair_sentences(ids, ids, rng=draw)[1],
            *skip_grams(ids, window=3, rng=draw, keep=np.full(V, 0.7)),
            *cbow_contexts(ids, window=3, rng=draw),
            NoiseTable(np.ones(V)).sample(draw, 5),
        ]

    before = list(ids)
    assert all(np.array_equal(a, b) for a, b in zip(everything(), everything(), strict=True))
    assert ids == before


def test_arrays_are_not_changed_in_place() -> None:
    ids, protected, starts = np.arange(5, 25), np.zeros(20, dtype=bool), np.ones(20, dtype=bool)
    protected[3] = True
    kept = ids.copy(), protected.copy(), starts.copy()
    starts[5] = kept[2][5] = False
    mask(ids, protected, rate=1.0, word_starts=starts)
    corrupt_spans(ids, sentinels=SENTINELS, end_id=END, rng=rng())
    infill(ids, mask_id=MASK, rng=rng())
    permute_sentences(ids, starts, rng=rng())
    assert all(np.array_equal(a, b) for a, b in zip((ids, protected, starts), kept, strict=True))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: mask([5], [False], rate=1.5), "got 1.5"),
        (lambda: mask(range(5, 45), [False] * 40, rate=1.0, random_ids=[]), "random_ids is empty"),
        (lambda: infill([5], mask_id=MASK, rng=rng(), mean_length=0.5), "got 0.5"),
        (lambda: corrupt_spans([5, 6], sentinels=[], end_id=END, rng=rng()), "at least one sentinel"),
        (lambda: corrupt_spans([5, 99], sentinels=[99], end_id=END, rng=rng()), "contains a sentinel"),
        (lambda: corrupt_spans([5, 6], sentinels=[99], end_id=END, rng=rng(), mean_length=0), "got 0"),
        (lambda: pair_sentences("ab", "a", rng=rng()), "2 second sentences need as many random ones, got 1"),
        (lambda: skip_grams([5], window=0, rng=rng()), "got 0"),
        (lambda: NoiseTable([0, 0]), "at least one above 0"),
    ],
)
def test_what_cannot_be_is_said(call: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        call()
