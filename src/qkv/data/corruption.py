"""Corruption that a model learns to undo: masks, sentinels, infilling, wrong sentences, negative samples.

mask_tokens      BERT: predict 15 %, of which 80 % masked, 10 % random, 10 % kept (Devlin et al. 2019)
corrupt_spans    T5: a sentinel replaces each hidden span, the target holds the spans (Raffel et al. 2020)
infill           BART: one mask replaces each hidden span, whatever its length (Lewis et al. 2020)
permute_sentences  BART: the sentences of a document in random order (Lewis et al. 2020)
split_prefix     prefix LM: the beginning is read, the rest is predicted (Raffel et al. 2020)
pair_sentences   BERT: the next sentence, or a random one (Devlin et al. 2019)
skip_grams, cbow_contexts, NoiseTable   word vectors (Mikolov et al. 2013)

Everything is a pure function of id arrays and a random generator: the same generator state gives the same result. The
number of corrupted tokens is fixed, not drawn per token, so that batches of the same size take the same work.
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
    """Mask some tokens of one sequence or of a whole packed batch.

    round(rate · n) of the n unprotected tokens are predicted, and at least one, as in BERT's own code.

    Args:
        ids: Shape: [L].
        protected: true for tokens that must stay (special tokens). Shape: [L].
        mask_id: the mask token.
        vocab_size: V.
        rng: the random generator.
        rate: fraction of the tokens to predict.
        word_starts: true where a word begins; whole words are then drawn until the rate is reached. Shape: [L].
        random_ids: the ids for random replacements; by default, any id but the mask and the protected ones in `ids`.

    Returns:
        The corrupted ids, the rows to predict in ascending order, and their original ids.
    """
    ids, protected = _ids(ids), np.asarray(protected, dtype=bool)
    free = np.flatnonzero(~protected)
    number = _amount(rate, len(free))
    if word_starts is None:
        rows = np.sort(rng.choice(free, number, replace=False)) if number else free[:0]
    else:
        rows = _whole_words(protected, np.asarray(word_starts, dtype=bool), number, rng)
    # Evenly spaced draws in random order: each is uniform, and together they meet 80/10/10 within one token.
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
    the last token). If there are fewer sentinels than spans, the spans are fewer and longer.
    The source has no end token; add it as for every other source.
    """
    ids = _ids(ids)
    _check_length(mean_length)
    if not len(sentinels):
        raise UsageError("span corruption needs at least one sentinel")
    marks = _ids(sentinels)
    if ((ids >= marks.min()) & (ids <= marks.max())).any() and np.isin(ids, marks).any():  # the first test is faster
        raise UsageError("the text contains a sentinel itself and could not be restored")
    hidden = min(_amount(rate, len(ids)), len(ids) - 1)
    if hidden < 1:
        return ids.copy(), np.array([end_id], dtype=np.int64)
    shown = len(ids) - hidden
    count = min(max(1, round(hidden / mean_length)), hidden, shown + 1, len(sentinels))
    sizes = 1 + _split(hidden - count, count, rng)
    gaps = _split(shown - (count - 1), count + 1, rng)
    gaps[1:-1] += 1  # spans do not touch
    begins = np.cumsum(gaps[:-1] + sizes) - sizes
    is_hidden = np.repeat(np.arange(2 * count + 1) % 2 == 1, np.append(np.c_[gaps[:-1], sizes].ravel(), gaps[-1]))
    source, stays = ids.copy(), ~is_hidden
    source[begins], stays[begins] = marks[:count], True  # a sentinel takes the place of the first hidden token
    target = np.append(np.insert(ids[is_hidden], np.cumsum(sizes) - sizes, marks[:count]), end_id)
    return source[stays], target


def restore_spans(source: ArrayLike, target: ArrayLike, *, sentinels: Sequence[int], end_id: int) -> Ids:
    """Undo `corrupt_spans`: put each span of the target back where its sentinel stands."""
    source, target = _ids(source), _ids(target)
    if len(target) and target[-1] == end_id:
        target = target[:-1]
    known = set(map(int, sentinels))
    starts = np.flatnonzero(np.isin(target, sentinels))
    spans = {int(piece[0]): piece[1:] for piece in np.split(target, starts)[1:]}  # nothing comes before the first
    return _join([spans.get(token, source[:0]) if token in known else [token] for token in source.tolist()])


def infill(ids: ArrayLike, *, mask_id: int, rng: Generator, rate: float = 0.3, mean_length: float = 3.0) -> Ids:
    """Replace spans of Poisson lengths by one mask each (Lewis et al. 2020, section 2.2); the target is `ids`.

    round(rate · L) tokens are hidden, the last span cut to hit the number. A span of length 0 inserts a
    mask.
    """
    ids = _ids(ids)
    _check_length(mean_length)
    left, lengths = _amount(rate, len(ids)), []
    while left:
        lengths.append(min(left, int(rng.poisson(mean_length))))
        left -= lengths[-1]
    sizes = rng.permutation(np.array(lengths, dtype=np.int64))  # else the shortened span would always be the last
    gaps = _split(len(ids) - int(sizes.sum()), len(sizes) + 1, rng)
    source: list[ArrayLike] = []
    for gap, _ in _pieces(ids, gaps, sizes):
        source += [gap, [mask_id]]
    return _join([*source, ids[len(ids) - gaps[-1] :]])


def permute_sentences(ids: ArrayLike, ends: ArrayLike, *, rng: Generator) -> Ids:
    """Put the sentences of a text in random order (Lewis et al. 2020, section 2.2); every order is equally likely.

    Args:
        ids: Shape: [L].
        ends: true where a token ends a sentence. A row of such tokens ("?!") ends one sentence; what follows the last
            one is a sentence too. Shape: [L].
        rng: the random generator.
    """
    ids, ends = _ids(ids), np.asarray(ends, dtype=bool)
    last = ends & ~np.append(ends[1:], False)
    sentences = np.split(ids, np.flatnonzero(last[:-1]) + 1)
    return _join([sentences[number] for number in rng.permutation(len(sentences))])


def split_prefix(ids: ArrayLike, *, rng: Generator) -> tuple[Ids, Ids]:
    """Split a text at a random place: the beginning is the source, the rest is the target (Raffel et al. 2020, 3.2.3).

    Both have at least one token, and every place is equally likely. Below two tokens, the source is empty.
    """
    ids = _ids(ids)
    place = int(rng.integers(1, len(ids))) if len(ids) > 1 else 0
    return ids[:place], ids[place:]


def pair_sentences(seconds: Sequence[T], others: Sequence[T], *, rng: Generator) -> tuple[list[T], Ids]:
    """Pair first sentences with the next sentence (label 0) or a random one (label 1), half of the batch each.

    Args:
        seconds: what follows each of B first sentences.
        others: random sentences, one for each.
        rng: the random generator; for an odd batch it also decides which half is larger.

    Returns:
        The second sentence of each pair, and the labels. Shape: [B].
    """
    if len(seconds) != len(others):
        raise UsageError(f"{len(seconds)} second sentences need as many random ones, got {len(others)}")
    labels = rng.permutation((np.arange(len(seconds)) + rng.integers(2)) % 2)
    return [other if label else second for second, other, label in zip(seconds, others, labels, strict=True)], labels


def skip_grams(
    ids: ArrayLike, *, window: int, rng: Generator, keep: NDArray[np.float64] | None = None
) -> tuple[Ids, Ids]:
    """Pair each word with each word around it.

    Args:
        ids: Shape: [L].
        window: the largest distance; each centre draws its own from 1 to this, so that near words count more.
        rng: the random generator.
        keep: the probability to keep each word of the vocabulary, see `keep_rates`; applied before the windows.
            Shape: [V].

    Returns:
        The input words and the target words. Shape: [pairs] each.
    """
    words = _ids(ids) if keep is None else _subsample(_ids(ids), keep, rng)
    around = _around(words, window, rng)
    centre, place = np.nonzero(around >= 0)
    return words[centre], around[centre, place]


def cbow_contexts(
    ids: ArrayLike, *, window: int, rng: Generator, keep: NDArray[np.float64] | None = None
) -> tuple[Ids, Ids]:
    """Pair each word with all words around it; the arguments are those of `skip_grams`.

    Returns:
        The context words, -1 for none, and the target words. A word without context is left out.
        Shape: [words, 2 · window], [words].
    """
    words = _ids(ids) if keep is None else _subsample(_ids(ids), keep, rng)
    around = _around(words, window, rng)
    company = (around >= 0).any(axis=1)
    return around[company], words[company]


def keep_rates(counts: ArrayLike, *, threshold: float = 1e-5) -> NDArray[np.float64]:
    """Return the probability to keep each word: √(threshold / frequency), at most 1 (Mikolov et al. 2013, eq. 5)."""
    counts = np.asarray(counts, dtype=np.float64)
    frequency = np.maximum(counts, 1e-12) / max(counts.sum(), 1e-12)
    return np.minimum(1.0, np.sqrt(threshold / frequency))


class NoiseTable:
    """Draws negative samples in proportion to a power of their counts.

    The power ¾ lies between the word frequencies and a uniform distribution (Mikolov et al. 2013, section 2.2).
    """

    def __init__(self, counts: ArrayLike, power: float = 0.75) -> None:
        counts = np.asarray(counts, dtype=np.float64)
        if not len(counts) or counts.min() < 0 or not counts.any():
            raise UsageError("negative samples need counts: at least one above 0 and none below")
        # A count of 0 stays 0, even for the power 0.
        self._steps = np.cumsum(np.where(counts > 0, counts**power, 0.0))
        self._steps /= self._steps[-1]

    def sample(self, rng: Generator, shape: int | tuple[int, ...]) -> Ids:
        """Draw ids in the given shape."""
        return np.searchsorted(self._steps, rng.random(shape), side="right")


def _ids(ids: ArrayLike) -> Ids:
    return np.asarray(ids, dtype=np.int64)


def _join(parts: Sequence[ArrayLike]) -> Ids:
    return np.concatenate([_ids(part) for part in parts]) if parts else np.zeros(0, dtype=np.int64)


def _amount(rate: float, size: int) -> int:
    """Return round(rate · size), but at least 1."""
    if not 0 <= rate <= 1:
        raise UsageError(f"rate must be between 0 and 1, got {rate}")
    return max(1, round(rate * size)) if rate and size else 0


def _check_length(mean_length: float) -> None:
    if mean_length < 1:
        raise UsageError(f"mean_length must be at least 1, got {mean_length}")


def _split(total: int, parts: int, rng: Generator) -> Ids:
    """Split `total` into nonnegative parts; every way to do so is equally likely (stars and bars)."""
    bars = np.sort(rng.choice(total + parts - 1, parts - 1, replace=False))
    return np.diff(np.concatenate([[-1], bars, [total + parts - 1]])) - 1


def _pieces(ids: Ids, gaps: Ids, sizes: Ids) -> list[tuple[Ids, Ids]]:
    """Split ids into shown and hidden pieces in turn; the last shown piece is not included."""
    ends = np.cumsum(gaps[:-1] + sizes)
    begins = ends - sizes
    return [(ids[b - g : b], ids[b:e]) for g, b, e in zip(gaps, begins, ends, strict=False)]


def _whole_words(protected: Flags, starts: Flags, number: int, rng: Generator) -> Ids:
    """Draw words until they have `number` tokens. A protected token ends a word and belongs to none."""
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
        # Compute with a range, do not expand it: it is the whole vocabulary for every text.
        return allowed.start + allowed.step * drawn if isinstance(allowed, range) else allowed[drawn]
    drawn = rng.integers(vocab_size, size=len(rows))
    return np.where(np.isin(drawn, special), ids[rows], drawn)  # drawing a special token keeps the original


def _subsample(words: Ids, keep: NDArray[np.float64], rng: Generator) -> Ids:
    return words[rng.random(len(words)) < keep[words]]


def _around(words: Ids, window: int, rng: Generator) -> Ids:
    """Return the words around each word from left to right, -1 outside the text or the window. Shape: [L, 2w]."""
    if window < 1:
        raise UsageError(f"window must be at least 1, got {window}")
    steps = np.concatenate([np.arange(-window, 0), np.arange(1, window + 1)])
    place = np.arange(len(words))[:, None] + steps
    reach = rng.integers(1, window + 1, size=(len(words), 1))
    there = (place >= 0) & (place < len(words)) & (np.abs(steps) <= reach)
    padded = np.append(words, -1)  # index -1 reads it
    return padded[np.where(there, place, -1)]
