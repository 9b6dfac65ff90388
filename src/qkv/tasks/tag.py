"""Tagging: one tag per word; a word can have several tokens."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any, ClassVar, Self

import numpy as np

from qkv.common.batch import Labelled
from qkv.data.bad_rows import BadRows
from qkv.data.examples import Tagged
from qkv.data.files import expand
from qkv.data.iob import iob2, to_iob2
from qkv.data.split import sentence_key
from qkv.data.store import Store
from qkv.data.tagged import find_tag_columns, tagged
from qkv.data.unanswered import read_words
from qkv.evaluation.classification import TagAccuracy
from qkv.evaluation.entities import EntityF1, entity_items
from qkv.evaluation.prediction import Confidence, Item, Prediction
from qkv.objectives.parts import IGNORED
from qkv.objectives.tag import Tag
from qkv.tasks import finetuning
from qkv.tasks.base import Array, Collate, Context, Row, Say, Task, Trivial, has_head
from qkv.tasks.batches import CHUNK, known_only, limit_of, tokens_of
from qkv.tasks.bpe_dropout import check_bpe_dropout, drops
from qkv.tasks.exam import Exam, Metric, chunks
from qkv.tasks.facts import Rule
from qkv.tokenizers.dropout import Merges


class TagTask(Task):
    """The first token of a word has the tag as its target; the others have no target."""

    distilled_by: ClassVar[str] = "tag"
    rules: ClassVar[Mapping[str, Rule]] = finetuning.rules(lr=2e-4)
    measured: ClassVar[bool] = True
    Settings: ClassVar[type[Any]] = Tag
    heads: ClassVar[tuple[str, ...]] = ("tag",)
    keeps_length: ClassVar[bool] = True
    starts_from_encoder: ClassVar[bool] = True
    optional_keys: ClassVar[frozenset[str]] = frozenset({"data.dropout"})
    predicts_classes: ClassVar[bool] = True
    answerable: ClassVar[bool] = True
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

    def unanswered(self, paths: Sequence[str], skipped: BadRows | None = None) -> Iterator[Tagged]:
        """Read sentences without tags."""
        return (Tagged(words, (), where) for where, words in read_words(paths, self.data, skipped))

    def answered(self, examples: Sequence[Any], model: Any, labels: Sequence[str]) -> Iterator[Tagged]:
        """Tag the words of each sentence. An I- that continues no entity becomes a B-, as the scores count it."""
        names = dict(zip(model.label_names, labels or model.label_names, strict=True))
        found = model.tag([example.words for example in examples], words=True)
        for example, words in zip(examples, found, strict=True):
            tags = [names[word.label] for word in words]
            scheme = "IOB1" if model.tags_entities else "plain"
            yield replace(example, tags=to_iob2([iob2(tag) for tag in tags], scheme))

    def record(self, example: Tagged) -> dict[str, Any]:
        """Return two lists, with the names that the recipe gives or that are detected."""
        return {self.data.text or "words": list(example.words), self.data.label or "tags": list(example.tags)}

    @classmethod
    def can_score(cls, model: Any) -> bool:
        """Whether the model is a tagger."""
        return has_head(model, "tag")

    def metrics(self, exam: Exam) -> list[Metric]:
        """Score whole entities, or single words for plain tags such as parts of speech."""
        return [EntityF1() if exam.model.tags_entities else TagAccuracy()]

    def predictions(self, exam: Exam) -> Iterator[Prediction]:
        """Tag the words of each sentence."""
        for chunk in exam.chunks(exam.examples(self)):
            found = exam.model.tag([example.words for example in chunk], words=True)
            for example, words in zip(chunk, found, strict=True):
                yield _prediction(example, words, entities=exam.model.tags_entities)

    def trivial(self, exam: Exam, known: Iterable[Tagged], *, trained: bool) -> dict[str, Trivial]:
        """Always predict O or, for plain tags, the most frequent one; or each word's most frequent tag in training."""
        counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for example in known:
            for word, tag in zip(_spaceless(example.words), example.tags, strict=True):
                counts[word][tag] += 1
        best = "O" if exam.model.tags_entities else _most_frequent(sum(counts.values(), Counter()))
        found: dict[str, Trivial] = {f"every tag {best}": lambda answered: [best] * len(answered.gold)}
        if trained:  # a table of the scored words themselves would be no comparison
            table = {word: _most_frequent(tags) for word, tags in counts.items()}
            found["each word's most frequent tag"] = lambda answered: [
                table.get(word, best) for word in answered.texts[0].split(" ")
            ]
        return found


def _prediction(example: Tagged, words: Sequence[Any], *, entities: bool) -> Prediction:
    """Return the prediction of a sentence; confident mistakes in many words are the worst."""
    labels = [word.label for word in words]
    said = [iob2(tag) for tag in labels] if entities else labels
    sure = tuple(Confidence(word.score, tag == gold) for word, tag, gold in zip(words, said, example.tags, strict=True))
    wrong = [place for place, one in enumerate(sure) if not one.correct]
    plain = (Item(*pair) for pair in zip(said, example.tags, strict=True))
    return Prediction(
        said=said,
        gold=example.tags,
        texts=(" ".join(_spaceless(example.words)),),
        where=example.where,
        answer=" ".join(f"{example.words[place]}/{said[place]}" for place in wrong),
        correct=" ".join(f"{example.words[place]}/{example.tags[place]}" for place in wrong),
        fault=sum(sure[place].chance for place in wrong),
        items=entity_items(said, example.tags) if entities else tuple(plain),
        confidences=sure,
    )


def _spaceless(words: Sequence[str]) -> list[str]:
    """Return words that can be joined by spaces and split again: a space within a word becomes a no-break space."""
    return [word.replace(" ", "\u00a0") for word in words]


def _most_frequent(tags: Counter[str]) -> str:
    """Return the most frequent tag; the first in the alphabet wins a tie."""
    return min(tags, key=lambda tag: (-tags[tag], tag), default="O")


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
