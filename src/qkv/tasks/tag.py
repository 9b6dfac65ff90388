"""Tagging: one tag per word; a word can have several tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from random import Random
from typing import Any, ClassVar, Self

import numpy as np

from qkv.common.batch import Labelled
from qkv.data.bad_rows import BadRows
from qkv.data.examples import Tagged
from qkv.data.files import expand
from qkv.data.iob import iob2
from qkv.data.split import sentence_key
from qkv.data.store import Store
from qkv.data.tagged import find_tag_columns, tagged
from qkv.evaluation.classification import Accuracy
from qkv.evaluation.entities import EntityF1
from qkv.evaluation.score import Score
from qkv.objectives.parts import IGNORED
from qkv.objectives.tag import Tag
from qkv.tasks.base import Array, Collate, Context, Row, Say, Task, has_head
from qkv.tasks.batches import CHUNK, known_only, limit_of, tokens_of
from qkv.tasks.bpe_dropout import check_bpe_dropout, drops
from qkv.tasks.exam import Exam, chunks, graded
from qkv.tokenizers.dropout import Merges


class TagTask(Task):
    """The first token of a word has the tag as its target; the others have no target."""

    Settings: ClassVar[type[Any]] = Tag
    heads: ClassVar[tuple[str, ...]] = ("tag",)
    keeps_length: ClassVar[bool] = True
    optional_keys: ClassVar[frozenset[str]] = frozenset({"data.dropout"})
    accuracy: ClassVar[str] = "tag.correct"
    held_out_unit: ClassVar[str] = "training sentences"

    def examples(self, paths: Sequence[str], skipped: BadRows | None = None) -> Iterator[Tagged]:
        """Read sentences and their tags."""
        return tagged(list(paths), **self._columns, bad=self.data.bad, skipped=skipped)

    @property
    def _columns(self) -> dict[str, Any]:
        """The columns and encoding that the recipe sets."""
        return {"word": self.data.text or None, "tag": self.data.label or None, "encoding": self.data.encoding}

    def resolved(self, say: Say) -> Self:
        """Report the columns of the first training file."""
        path = expand(self.data.train)[0]
        found = find_tag_columns(path, **self._columns)
        said = f"words {found[0]!r}, tags {found[1]!r}" if isinstance(found, tuple) else str(found)
        say(f"{path}: {said}" + ("" if self.data.label else "; set data.label for other tags"))
        return self

    def texts(self, example: Tagged) -> Iterable[str]:
        """Return the sentence."""
        return (" ".join(example.words),)

    def key(self, example: Tagged) -> str:
        """Hold out by words."""
        return sentence_key(" ".join(example.words))

    def survey(self, examples: Iterable[Tagged], say: Say) -> dict[str, Any]:
        """Collect the tags of the training sentences; O, the most frequent one, comes first."""
        del say
        found = {tag for example in examples for tag in example.tags}
        return {"labels": tuple(sorted(found, key=lambda tag: (tag != "O", tag)))}

    def rows(self, examples: Iterable[Tagged], context: Context) -> Iterator[Row]:
        """Tokenise words and number their tags; a tag that does not occur in training makes a bad row."""
        number = {label: i for i, label in enumerate(context.labels)}
        limit = limit_of(context, self.data.max_length)
        known = known_only(examples, "tag", lambda example: example.tags, context, self.data.bad)
        for chunk in chunks(known, CHUNK):
            encoded = context.text.encode_words([example.words for example in chunk], max_length=limit)
            for example, ids, words in zip(chunk, encoded.ids, encoded.words, strict=True):
                steps = zip([-1, *words[:-1]], words, strict=True)  # the word of the previous token and of each token
                tags = [number[example.tags[w]] if w >= 0 and w != before else IGNORED for before, w in steps]
                yield {"ids": ids, "tags": tags}

    def collate(self, store: Store, context: Context) -> Collate:
        """Gather tokens and tags; with data.dropout, training words are tokenised again each time."""
        resplit = self._resplitting(store, context)

        def make(rows: Array, rng: np.random.Generator) -> Labelled:
            (ids, lengths), (tags, _) = store.gather("ids", rows), store.gather("tags", rows)
            if resplit is not None:
                ids, lengths, tags = resplit(ids, lengths, tags, rng)
            return Labelled(tokens_of(ids, lengths), tokens_of(tags, lengths).ids)

        return make

    def _resplitting(self, store: Store, context: Context) -> Resplit | None:
        """Return a function that tokenises the words of a batch with BPE-dropout, or None if it is off."""
        dropout = self.data.dropout
        if not check_bpe_dropout(dropout, context) or not drops(store, dropout):
            return None
        merges, longest = context.text.merges, limit_of(context, self.data.max_length)

        def resplit(ids: Array, lengths: Array, tags: Array, rng: np.random.Generator) -> tuple[Array, Array, Array]:
            random, cuts = Random(int(rng.integers(1 << 62))), np.cumsum(lengths)[:-1]
            found = []
            for old, named in zip(np.split(ids, cuts), np.split(tags, cuts), strict=True):
                new = _resplit(old.tolist(), named.tolist(), merges, dropout, random)
                found.append(new if len(new[0]) <= longest else (old.tolist(), named.tolist()))
            sizes = np.array([len(new) for new, _ in found])
            return np.concatenate([new for new, _ in found]), sizes, np.concatenate([named for _, named in found])

        return resplit

    @classmethod
    def can_score(cls, model: Any) -> bool:
        """Whether the model is a tagger."""
        return has_head(model, "tag")

    def score(self, exam: Exam) -> list[Score]:
        """Score whole entities, or single words for plain tags such as parts of speech."""
        if exam.model.tags_entities:
            return graded([EntityF1()], (([iob2(tag) for tag in said], right) for said, right in self._tags(exam)))
        pairs = (both for said, right in self._tags(exam) for both in zip(said, right, strict=True))
        return graded([Accuracy()], pairs)

    def _tags(self, exam: Exam) -> Iterator[tuple[list[str], tuple[str, ...]]]:
        for chunk in exam.chunks(self.examples(exam.paths, exam.skipped)):
            found = exam.model.tag([example.words for example in chunk], words=True)
            for example, words in zip(chunk, found, strict=True):
                yield [word.label for word in words], example.tags


Resplit = Callable[[Array, Array, Array, np.random.Generator], tuple[Array, Array, Array]]


def _resplit(
    ids: list[int], tags: list[int], merges: Merges, dropout: float, random: Random
) -> tuple[list[int], list[int]]:
    """Tokenise each word of a sentence again; the first token keeps the tag. Special tokens at both ends stay."""
    starts = [0, *(i for i, tag in enumerate(tags) if tag != IGNORED), len(ids) - 1, len(ids)]
    found: list[int] = []
    named: list[int] = []
    for start, end in pairwise(sorted(set(starts))):
        word = merges.split(ids[start:end], dropout, random)
        found += word
        named += [tags[start]] + [IGNORED] * (len(word) - 1)
    return found, named
