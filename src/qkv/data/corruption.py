"""Damage that a model learns to repair: masks, sentinels, holes, wrong neighbours, noise words.

mask_tokens      BERT: 15 % asked for, of which 80 % masked, 10 % random, 10 % kept (Devlin et al. 2019)
corrupt_spans    T5: each hidden span is a sentinel, the target says what it hid (Raffel et al. 2020)
infill           BART: each hidden span is one mask, whatever its length (Lewis et al. 2020)
pair_sentences   BERT: the next sentence, or another one (Devlin et al. 2019)
skip_grams, cbow_contexts, NoiseTable   word vectors (Mikolov et al. 2013)

Everything is a pure function of id arrays and a random generator: the same generator state gives the same damage. How
much is damaged is a number and not a coin per token, so that every batch of a size has the same work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from qkv.common.errors import UsageError

Ids = NDArray[np.int64]
Flags = NDArray[np.bool_]
T = TypeVar("T")


def mask_tokens(
    ids: ArrayLike,
    protected: ArrayLike,
    *,
    mask_id: int,
    vocab_size: int,
    rng: Generator,
    rate: float = 0.15,
    word_starts: ArrayLike | None = None,
    random_ids: range | ArrayLike | None = None,
) -> tuple[Ids, Ids, Ids]:
    """Hide some tokens. The row may be one sequence or a whole packed batch.

    round(rate · n) of the n tokens that are not protected are asked for, and at least one, as in BERT's own code.

    Args:
        ids: Shape: [L].
        protected: true for tokens that stay (specials). Shape: [L].
        mask_id: the mask token.
        vocab_size: V.
        rng: where chance comes from.
        rate: share of the tokens to ask for.
        word_starts: true where a word begins; whole words are then drawn until the rate is reached. Shape: [L].
        random_ids: what a random replacement may be; without it, any id but the mask and the protected ones seen here.

    Returns:
        The damaged ids, the rows that are asked for in rising order, and the ids that stood there.
    """
    ids, protected = _ids(ids), np.asarray(protected, dtype=bool)
    free = np.flatnonzero(~protected)
    number = _amount(rate, len(free))
    if word_starts is None:
        rows = np.sort(rng.choice(free, number, replace=False)) if number else free[:0]
    else:
        rows = _whole_words(protected, np.asarray(word_starts, dtype=bool), number, rng)
    # Evenly spaced draws in random order: each is uniform by itself, and together they hit 80/10/10 within one token.
    draw = (rng.permutation(len(rows)) + rng.random()) / max(len(rows), 1)
    corrupted = ids.copy()
    corrupted[rows[draw < 0.8]] = mask_id
    other = rows[(draw >= 0.8) & (draw < 0.9)]
    corrupted[other] = _replacements(ids, other, np.append(ids[protected], mask_id), vocab_size, random_ids, rng)
    return corrupted, rows, ids[rows]


def corrupt_spans(
    ids: ArrayLike,
    *,
    sentinels: Sequence[int],
    end_id: int,
    rng: Generator,
    rate: float = 0.15,
    mean_length: float = 3.0,
) -> tuple[Ids, Ids]:
    """Replace spans by sentinels (Raffel et al. 2020, section 3.1.4).

        ids      Thank you for inviting me to your party last week
        source   Thank you <X> me to your party <Y> week
        target   <X> for inviting <Y> last <end>

    round(rate · L) tokens are hidden, at least one and never all; below two tokens nothing is. They form
    round(hidden / mean_length) spans that do not touch, drawn evenly from all ways to do so (T5's own code always hides
    the last token). Where there are fewer sentinels than spans, there are as many spans as sentinels, and longer ones.
    The source has no end token; it gets one where every source does.
    """
    ids = _ids(ids)
    _check_length(mean_length)
    if not len(sentinels):
        raise UsageError("span corruption needs at least one sentinel")
    if np.isin(ids, sentinels).any():
        raise UsageError("the text holds a sentinel itself: it could not be restored")
    hidden = min(_amount(rate, len(ids)), len(ids) - 1)
    if hidden < 1:
        return ids.copy(), np.array([end_id], dtype=np.int64)
    shown = len(ids) - hidden
    count = min(max(1, round(hidden / mean_length)), hidden, shown + 1, len(sentinels))
    sizes = 1 + _split(hidden - count, count, rng)
    gaps = _split(shown - (count - 1), count + 1, rng)
    gaps[1:-1] += 1  # spans do not touch
    source: list[ArrayLike] = []
    target: list[ArrayLike] = []
    for sentinel, (gap, span) in zip(sentinels, _pieces(ids, gaps, sizes), strict=False):
        source += [gap, [sentinel]]
        target += [[sentinel], span]
    return _join([*source, ids[len(ids) - gaps[-1] :]]), _join([*target, [end_id]])


def restore_spans(source: ArrayLike, target: ArrayLike, *, sentinels: Sequence[int], end_id: int) -> Ids:
    """Undo `corrupt_spans`: put each span of the target back where its sentinel stands."""
    source, target = _ids(source), _ids(target)
    if len(target) and target[-1] == end_id:
        target = target[:-1]
    known = set(map(int, sentinels))
    starts = np.flatnonzero(np.isin(target, sentinels))
    spans = {int(piece[0]): piece[1:] for piece in np.split(target, starts)[1:]}  # nothing is said before the first
    return _join([spans.get(token, source[:0]) if token in known else [token] for token in source.tolist()])


def infill(ids: ArrayLike, *, mask_id: int, rng: Generator, rate: float = 0.3, mean_length: float = 3.0) -> Ids:
    """Replace spans of Poisson lengths by one mask each (Lewis et al. 2020, section 2.2); the target is `ids`.

    round(rate · L) tokens are hidden, the last span cut to hit the number. A span of length 0 puts a mask where
    nothing was.
    """
    ids = _ids(ids)
    _check_length(mean_length)
    left, lengths = _amount(rate, len(ids)), []
    while left:
        lengths.append(min(left, int(rng.poisson(mean_length))))
        left -= lengths[-1]
    sizes = rng.permutation(np.array(lengths, dtype=np.int64))  # else the cut one would always be the last
    gaps = _split(len(ids) - int(sizes.sum()), len(sizes) + 1, rng)
    source: list[ArrayLike] = []
    for gap, _ in _pieces(ids, gaps, sizes):
        source += [gap, [mask_id]]
    return _join([*source, ids[len(ids) - gaps[-1] :]])


def pair_sentences(seconds: Sequence[T], others: Sequence[T], *, rng: Generator) -> tuple[list[T], Ids]:
    """Give each of some first sentences its second (label 0) or another (label 1), half of the batch each.

    Args:
        seconds: what follows each of B first sentences.
        others: sentences from elsewhere, one for each.
        rng: where chance comes from; of an odd batch, it also says which half is larger.

    Returns:
        What stands beside each first sentence, and the labels. Shape: [B].
    """
    if len(seconds) != len(others):
        raise UsageError(f"{len(seconds)} second sentences need as many others, got {len(others)}")
    labels = rng.permutation((np.arange(len(seconds)) + rng.integers(2)) % 2)
    return [other if label else second for second, other, label in zip(seconds, others, labels, strict=True)], labels


def skip_grams(
    ids: ArrayLike, *, window: int, rng: Generator, keep: NDArray[np.float64] | None = None
) -> tuple[Ids, Ids]:
    """Pair each word with each word around it.

    Args:
        ids: Shape: [L].
        window: the furthest word; each centre draws its own reach from 1 to here, so that near words count more.
        rng: where chance comes from.
        keep: how likely each word of the vocabulary is to stay, see `keep_rates`. Words go before windows are laid.
            Shape: [V].

    Returns:
        The words read and the words asked for. Shape: [pairs] each.
    """
    words = _ids(ids) if keep is None else _subsample(_ids(ids), keep, rng)
    around = _around(words, window, rng)
    centre, place = np.nonzero(around >= 0)
    return words[centre], around[centre, place]


def cbow_contexts(
    ids: ArrayLike, *, window: int, rng: Generator, keep: NDArray[np.float64] | None = None
) -> tuple[Ids, Ids]:
    """Pair all words around a word with it; arguments as in `skip_grams`.

    Returns:
        The words around, -1 for none, and the words asked for. A word that stands alone is left out.
        Shape: [words, 2 · window], [words].
    """
    words = _ids(ids) if keep is None else _subsample(_ids(ids), keep, rng)
    around = _around(words, window, rng)
    company = (around >= 0).any(axis=1)
    return around[company], words[company]


def keep_rates(counts: ArrayLike, *, threshold: float = 1e-5) -> NDArray[np.float64]:
    """How likely each word is to stay: √(threshold / frequency), at most 1 (Mikolov et al. 2013, equation 5)."""
    counts = np.asarray(counts, dtype=np.float64)
    frequency = np.maximum(counts, 1e-12) / max(counts.sum(), 1e-12)
    return np.minimum(1.0, np.sqrt(threshold / frequency))


class NoiseTable:
    """Draws words that are not there, each as often as its count to a power.

    The power ¾ lies between the words as they are and all words alike (Mikolov et al. 2013, section 2.2).
    """

    def __init__(self, counts: ArrayLike, power: float = 0.75) -> None:
        counts = np.asarray(counts, dtype=np.float64)
        if not len(counts) or counts.min() < 0 or not counts.any():
            raise UsageError("noise words need counts: at least one above 0, none below")
        # A count of 0 stays 0 for every power, also for the power 0.
        self._steps = np.cumsum(np.where(counts > 0, counts**power, 0.0))
        self._steps /= self._steps[-1]

    def sample(self, rng: Generator, shape: int | tuple[int, ...]) -> Ids:
        """Draw ids of a shape."""
        return np.searchsorted(self._steps, rng.random(shape), side="right")


def _ids(ids: ArrayLike) -> Ids:
    return np.asarray(ids, dtype=np.int64)


def _join(parts: Sequence[ArrayLike]) -> Ids:
    return np.concatenate([_ids(part) for part in parts]) if parts else np.zeros(0, dtype=np.int64)


def _amount(rate: float, size: int) -> int:
    """round(rate · size), and at least one of something."""
    if not 0 <= rate <= 1:
        raise UsageError(f"rate must lie between 0 and 1, got {rate}")
    return max(1, round(rate * size)) if rate and size else 0


def _check_length(mean_length: float) -> None:
    if mean_length < 1:
        raise UsageError(f"mean_length must be at least 1, got {mean_length}")


def _split(total: int, parts: int, rng: Generator) -> Ids:
    """Cut `total` into numbers from 0 up; every way to do it is equally likely (stars and bars)."""
    bars = np.sort(rng.choice(total + parts - 1, parts - 1, replace=False))
    return np.diff(bars, prepend=-1, append=total + parts - 1) - 1


def _pieces(ids: Ids, gaps: Ids, sizes: Ids) -> list[tuple[Ids, Ids]]:
    """Cut ids into what is shown and what is hidden, in turn; what is shown last is left over."""
    ends = np.cumsum(gaps[:-1] + sizes)
    begins = ends - sizes
    return [(ids[b - g : b], ids[b:e]) for g, b, e in zip(gaps, begins, ends, strict=False)]


def _whole_words(protected: Flags, starts: Flags, number: int, rng: Generator) -> Ids:
    """Draw words until `number` tokens are reached. A protected token ends a word and belongs to none."""
    word = np.cumsum(starts | protected)
    names, sizes = np.unique(word[~protected], return_counts=True)
    order = rng.permutation(len(names))
    enough = np.searchsorted(np.cumsum(sizes[order]), number) + 1 if number else 0
    return np.flatnonzero(np.isin(word, names[order[:enough]]) & ~protected)


def _replacements(
    ids: Ids, rows: Ids, special: Ids, vocab_size: int, random_ids: range | ArrayLike | None, rng: Generator
) -> Ids:
    if random_ids is not None:
        allowed = random_ids if isinstance(random_ids, range) else _ids(random_ids)
        if not len(allowed):
            raise UsageError("random_ids is empty: a random replacement needs at least one id")
        drawn = rng.integers(len(allowed), size=len(rows))
        # A range is counted, not written out: it is the whole vocabulary for every text.
        return allowed.start + allowed.step * drawn if isinstance(allowed, range) else allowed[drawn]
    drawn = rng.integers(vocab_size, size=len(rows))
    return np.where(np.isin(drawn, special), ids[rows], drawn)  # a drawn special is a token kept


def _subsample(words: Ids, keep: NDArray[np.float64], rng: Generator) -> Ids:
    return words[rng.random(len(words)) < keep[words]]


def _around(words: Ids, window: int, rng: Generator) -> Ids:
    """Return the words around each word, from left to right, -1 where none is or its reach ends. Shape: [L, 2w]."""
    if window < 1:
        raise UsageError(f"window must be at least 1, got {window}")
    steps = np.concatenate([np.arange(-window, 0), np.arange(1, window + 1)])
    place = np.arange(len(words))[:, None] + steps
    reach = rng.integers(1, window + 1, size=(len(words), 1))
    there = (place >= 0) & (place < len(words)) & (np.abs(steps) <= reach)
    padded = np.append(words, -1)  # index -1 reads it
    return padded[np.where(there, place, -1)]
