"""Masked language modelling: predict masked tokens in packed windows or in sentence pairs (Devlin et al. 2019).

a group of sentences   A1 A2 | B1 B2 B3                   split at a random place, drawn for every batch
a true pair            [CLS] A1 A2 [SEP] B1 B2 B3 [SEP]   label 0
a false pair           [CLS] A1 A2 [SEP] X3 X4    [SEP]   label 1, with the second half from another document
segments                 0   0  0    0   1  1       1

ELECTRA's original code reads pairs too, all of them true and without a label (Clark et al. 2020).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from qkv.common.batch import Masked
from qkv.common.errors import UsageError
from qkv.data.corruption import pair_sentences
from qkv.data.examples import Document
from qkv.data.order import BucketSampler, Sampler
from qkv.data.sentences import split_sentences
from qkv.data.store import Store
from qkv.objectives.language import MaskedToken
from qkv.tasks.base import Array, Collate, Context, Row
from qkv.tasks.batches import limit_of, tokens_of
from qkv.tasks.exam import chunks
from qkv.tasks.facts import Rule
from qkv.tasks.language import CHUNK, Hiding, WindowTask, framed, hiding
from qkv.tasks.pretraining_rules import MASKED, rules

AROUND = 3  # [CLS] and two [SEP]
SHORT = 0.1  # of the groups of sentences are shorter


@dataclass(frozen=True, kw_only=True)
class MaskedSettings(Hiding):
    """Settings of masked language modelling.

    Attributes:
        next_sentence: read pairs of sentences and predict whether the second follows the first.
    """

    next_sentence: bool = False


class MaskedTask(WindowTask):
    """Masked tokens in packed windows or, with `objective.next_sentence` or `objective.pairs`, in sentence pairs.

    Every piece of text in a window has the form [CLS] ... [SEP], as texts do at inference (Liu et al. 2019, section
    4.2); if the window splits a text, these replace its first and last token. The token budget of a batch counts true
    pairs; the second half of a false pair may be longer or shorter.
    """

    distilled_by: ClassVar[str] = "adapt"
    Settings: ClassVar[type[Any]] = MaskedSettings
    heads: ClassVar[tuple[str, ...]] = ("mlm",)
    rules: ClassVar[Mapping[str, Rule]] = rules(MASKED)

    @property
    def next_sentence(self) -> bool:
        """Whether sentence pairs have a label."""
        return bool(getattr(self.settings, "next_sentence", False))

    @property
    def paired(self) -> bool:
        """Whether the model reads sentence pairs."""
        return bool(self.settings.pairs or self.next_sentence)

    def allows(self, key: str) -> bool:
        """Sentence pairs do not support data.short."""
        return super().allows(key) and not (key == "data.short" and self.paired)

    def model_heads(self) -> tuple[str, ...]:
        """Include the next-sentence head if pairs have a label."""
        return (*self.heads, "nsp") if self.next_sentence else self.heads

    def rows(self, examples: Iterable[Document], context: Context) -> Iterator[Row]:
        """Group the sentences of each document; documents with one sentence are skipped and counted."""
        if not self.paired:
            yield from super().rows(examples, context)
            return
        room, number, lone, rng = self._room(context), 0, 0, np.random.default_rng(0)
        for chunk in chunks((document.text for document in examples), CHUNK):
            for sentences in _encoded(chunk, context, room // 2):
                groups = list(grouped(sentences, room, rng))
                lone += not groups
                number += bool(groups)
                for group in groups:
                    yield {"ids": np.concatenate(group), "sentences": [len(ids) for ids in group], "document": number}
        if not number:
            why = "data.unit defines a document: line, blank or file"
            raise UsageError(f"{', '.join(self.data.train)} has no document with two sentences, as pairs need ({why})")
        if lone:
            context.say(f"{lone} documents have fewer than two sentences and were skipped")

    def sampler(self, store: Store, context: Context, *, tokens: int, seed: int, shuffle: bool) -> Sampler:
        """Sample windows, or pairs of similar length; the special tokens of a pair count too."""
        if not self.paired:
            return super().sampler(store, context, tokens=tokens, seed=seed, shuffle=shuffle)
        return BucketSampler(store.lengths("ids") + AROUND, tokens=tokens, seed=seed, shuffle=shuffle)

    def collate(self, store: Store, context: Context) -> Collate:
        """Mask tokens and pair halves at random in every batch."""
        return self._pairs(store, context) if self.paired else self._windows(store, context)

    def _windows(self, store: Store, context: Context) -> Collate:
        windows, hide = self.windows(store, context), hiding(self.settings, context)

        def make(rows: Array, rng: np.random.Generator) -> Masked:
            flat, lengths = windows.gather(rows)
            hidden, places, wanted = hide(framed(flat, lengths, context.text.specials), rng)
            return Masked(self.placed(hidden, lengths, windows, context, rng), places, wanted)

        return make

    def _pairs(self, store: Store, context: Context) -> Collate:
        hide, room, owners = hiding(self.settings, context), self._room(context), np.asarray(store.values("document"))
        cls, sep = (context.text.specials[role] for role in ("cls", "sep"))
        if self.next_sentence and owners[0] == owners[-1]:
            where = f"the {store.folder.name} examples have only one"
            raise UsageError(f"next_sentence needs at least two documents with two sentences each, but {where}")

        def make(rows: Array, rng: np.random.Generator) -> Masked:
            first, second = halves(store, rows, np.full(len(rows), room), rng)
            labels = None
            if self.next_sentence:
                _, other = halves(store, elsewhere(owners, rows, rng), room - first[:, 1], rng)
                drawn, labels = pair_sentences(list(second), list(other), rng=rng)
                second = np.stack(drawn)
            starts, lengths = np.stack([first, second], axis=1).reshape(-1, 2).T
            sizes = lengths + np.tile([2, 1], len(rows))
            hidden, places, wanted = hide(_joined(store.spans("ids", starts, lengths), sizes, cls, sep), rng)
            segments = np.repeat(np.tile([0, 1], len(rows)), sizes)
            tokens = tokens_of(hidden, sizes.reshape(-1, 2).sum(1), segments)
            return Masked(tokens, places, wanted, None if labels is None else torch.from_numpy(labels))

        return make

    def _room(self, context: Context) -> int:
        """Return the maximum number of tokens of both sentences together."""
        limit = limit_of(context, self.data.max_length)
        if (found := context.num_segments) < 2:
            raise UsageError(f"sentence pairs need a model with num_segments = 2, but this one has {found}")
        if limit < AROUND + 2:
            raise UsageError(f"sentence pairs need at least {AROUND + 2} tokens, got data.max_length {limit}")
        if missing := {"cls", "sep"} - context.text.specials.keys():
            kind = "(tokenizer.specials = bert)"
            raise UsageError(f"sentence pairs need a tokenizer with a {min(missing)} token {kind}")
        return limit - AROUND

    def objective(self) -> Any:
        """Return cross-entropy over the masked tokens, and over the pairs if they have a label."""
        return MaskedToken(next_sentence=self.next_sentence)


def grouped(sentences: Sequence[Array], room: int, rng: np.random.Generator) -> Iterator[list[Array]]:
    """Group consecutive sentences: as many as fit into `room` tokens, but at least two; none is longer than half of it.

    As in BERT's original code, some groups are shorter, since texts at inference are often short. A single last
    sentence is skipped.
    """

    def drawn() -> int:
        return int(rng.integers(2, room + 1)) if rng.random() < SHORT else room

    group: list[Array] = []
    size, limit = 0, drawn()
    for sentence in sentences:
        if len(group) > 1 and size + len(sentence) > limit:
            yield group
            group, size, limit = [], 0, drawn()
        group.append(sentence)
        size += len(sentence)
    if len(group) > 1:
        yield group


def elsewhere(owners: Array, rows: Array, rng: np.random.Generator) -> Array:
    """Draw a row of another document for each row, uniformly; the rows of a document are contiguous."""
    mine = owners[rows]
    first, last = owners.searchsorted(mine, "left"), owners.searchsorted(mine, "right")
    drawn = rng.integers(len(owners) - (last - first))
    return drawn + (drawn >= first) * (last - first)


def halves(store: Store, rows: Array, space: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Split each group between two of its sentences.

    Returns:
        The start and length of the first halves and of the second halves. A second half has as many whole sentences as
        fit into `space`, or the beginning of one if none fits. Shape: [B, 2] each.
    """
    starts, sizes = store.stretches("ids", rows)
    lengths, counts = store.gather("sentences", rows)
    before = np.cumsum(counts) - counts  # the first sentence of each group
    ends = np.cumsum(lengths) - np.repeat(np.cumsum(sizes) - sizes, counts)
    cut = ends[before + rng.integers(1, counts) - 1]
    after = ends - np.repeat(cut, counts)
    whole = np.maximum.reduceat(np.where(after <= np.repeat(space, counts), after, 0), before)
    second = np.where(whole > 0, whole, np.minimum(space, sizes - cut))
    return np.stack([starts, cut], axis=1), np.stack([starts + cut, second], axis=1)


def _joined(flat: Array, sizes: Array, cls: int, sep: int) -> Array:
    """Put [CLS] before each first half and [SEP] after each half; `sizes` includes these tokens."""
    last = np.cumsum(sizes) - 1
    first = (last - sizes + 1)[::2]
    ids, plain = np.full(sizes.sum(), sep), np.ones(sizes.sum(), dtype=bool)
    plain[last] = plain[first] = False
    ids[first], ids[plain] = cls, flat
    return ids


def _encoded(texts: Sequence[str], context: Context, most: int) -> Iterator[list[Array]]:
    """Yield the sentences of each document with at least two, as ids; sentences above `most` tokens are split."""
    cut = [[sentence for sentence, _ in split_sentences(text) if sentence] for text in texts]
    special = {number for role, number in context.text.specials.items() if role != "unk"}
    found = iter(context.text.encode([sentence for document in cut for sentence in document]).ids)
    for document in cut:
        whole = ([number for number in next(found) if number not in special] for _ in document)
        plain = [np.array(ids, dtype=np.int64) for ids in whole if ids]
        yield [i[start : start + most] for i in plain for start in range(0, len(i), most)] if len(plain) > 1 else []
