"""Sentence embeddings from pairs of texts: matching pairs, or pairs with a similarity score."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

import numpy as np
import torch

from qkv.checkpoints.folder import Folder
from qkv.checkpoints.sentence import Normalize, SentenceModel
from qkv.common.batch import SentencePairs
from qkv.common.errors import UsageError
from qkv.data.bad_rows import BadRows
from qkv.data.examples import Parallel, Rated
from qkv.data.labelled import rated
from qkv.data.parallel import parallel
from qkv.data.split import sentence_key
from qkv.data.store import Store
from qkv.data.unanswered import read_texts
from qkv.objectives.contrastive import CosineScore, Match
from qkv.objectives.teacher import Teacher
from qkv.tasks import finetuning
from qkv.tasks.base import Array, Collate, Context, Row, Say, Task
from qkv.tasks.batches import CHUNK, limit_of, tokens_of
from qkv.tasks.exam import chunks
from qkv.tasks.facts import Rule
from qkv.tasks.text_table import columns

Example = Rated | Parallel


@dataclass(frozen=True, kw_only=True)
class EmbeddingSettings:
    """Settings of the loss on pairs.

    Attributes:
        scale: without scores, the factor for cosines before the softmax, which is 1 / temperature.
        scale_scores: with scores (data.label), the divisor that maps them to the range from 0 to 1. 0 uses the largest
            score of the training examples.
    """

    scale: float = 20.0
    scale_scores: float = 0.0

    def __post_init__(self) -> None:
        if self.scale <= 0 or self.scale_scores < 0:
            got = f"got {self.scale:g} and {self.scale_scores:g}"
            raise UsageError(f"objective.scale must be above 0 and objective.scale_scores at least 0, {got}")


class EmbeddingsTask(Task):
    """With a label column, cosines are fitted to the scores; without one, each text learns to match its pair."""

    distilled_by: ClassVar[str] = "sentence-embeddings"
    rules: ClassVar[Mapping[str, Rule]] = finetuning.rules(lr=5e-5)
    Settings: ClassVar[type[Any]] = EmbeddingSettings
    heads: ClassVar[tuple[str, ...]] = ("pool",)
    keeps_length: ClassVar[bool] = True
    starts_from_encoder: ClassVar[bool] = True
    answerable: ClassVar[bool] = True
    held_out_unit: ClassVar[str] = "first texts, with all of their pairs,"

    @property
    def scored(self) -> bool:
        """Whether the pairs have scores."""
        return bool(self.data.label or self.settings.scale_scores)

    def examples(self, paths: Sequence[str], skipped: BadRows | None = None) -> Iterator[Example]:
        """Read pairs, with their scores if there are any."""
        data = self.data
        reading: dict[str, Any] = {"bad": data.bad, "skipped": skipped}
        if self.scored:
            return rated(list(paths), **columns(data), **reading)
        named = [data.text, data.second] if data.text and data.second else None
        return parallel(list(paths), columns=named, encoding=data.encoding, **reading)

    def texts(self, example: Example) -> tuple[str, str]:
        """Return both sides."""
        if isinstance(example, Parallel):
            return example.source, example.target
        return example.text, example.second or ""

    def key(self, example: Example) -> str:
        """Hold out by the first text."""
        return sentence_key(self.texts(example)[0])

    def survey(self, examples: Iterable[Example], say: Say) -> dict[str, Any]:
        """Find the largest score if the recipe does not set scale_scores."""
        if not self.scored or self.settings.scale_scores:
            return {"scale_scores": self.settings.scale_scores or 1.0}
        found = max((example.score for example in examples if isinstance(example, Rated)), default=0.0)
        if found <= 0:
            raise UsageError(f"at least one score must be above 0, but the largest is {found:g}")
        say(f"scores are divided by {found:g}, the largest score (objective.scale_scores)")
        return {"scale_scores": found}

    def unanswered(self, paths: Sequence[str], skipped: BadRows | None = None) -> Iterator[Rated]:
        """Read texts, and make a pair of each two in turn; an odd last one is paired with the one before it."""
        found = read_texts(paths, self.data, skipped)
        before = ""
        while two := list(islice(found, 2)):
            (where, (first,)), (_, (second,)) = two if len(two) == 2 else (two[0], ("", (before or two[0][1][0],)))
            yield Rated(first, second, math.nan, where)
            before = second

    def answered(self, examples: Sequence[Any], model: Any, labels: Sequence[str]) -> Iterator[Rated]:
        """Score pairs with the cosines of the model's vectors."""
        del labels
        pairs = [self.texts(example) for example in examples]
        vectors = model.embed([text for pair in pairs for text in pair], normalize=True)
        for pair, example, cosine in zip(pairs, examples, (vectors[::2] * vectors[1::2]).sum(-1), strict=True):
            yield Rated(*pair, float(cosine), example.where)

    def answered_changes(self, model: Any) -> dict[str, Any]:
        """Cosines are scores as they are."""
        if self.data.train or self.data.valid or self.data.test:
            raise UsageError("an embedding model learns from distill.texts alone: leave out other files")
        _check_vectors(model.contents.sentence, "the teacher")
        return {"objective.scale_scores": 1.0}

    def record(self, example: Rated) -> dict[str, Any]:
        """Return both texts and their score, in columns whose names are detected."""
        return {"sentence1": example.text, "sentence2": example.second, "label": example.score}

    def teacher(self, found: Folder, name: str, context: Context) -> Teacher:
        """Return the model whose vectors are learned: the means of its last states."""
        _check_vectors(found.sentence, name)
        return super().teacher(found, name, context)

    @classmethod
    def can_teach(cls, model: Any) -> bool:
        """Whether the model reads texts and has no head but the pooler."""
        return not model.reads_images and model.tokenizer is not None and not set(model.module.heads) - {"pool"}

    def rows(self, examples: Iterable[Example], context: Context) -> Iterator[Row]:
        """Tokenise both sides."""
        limit = limit_of(context, self.data.max_length)
        for chunk in chunks(examples, CHUNK):
            pairs = [self.texts(example) for example in chunk]
            sides = [context.text.encode([pair[side] for pair in pairs], max_length=limit).ids for side in (0, 1)]
            for example, first, second in zip(chunk, *sides, strict=True):
                score = {"score": float(example.score)} if isinstance(example, Rated) else {}
                yield {"first": first, "second": second} | score

    def lengths(self, store: Store) -> Array:
        """Return the tokens of both sides."""
        return store.lengths("first") + store.lengths("second")

    def collate(self, store: Store, context: Context) -> Collate:
        """Gather both sides, and the scores divided by the scale."""
        scale = float(context.facts["scale_scores"])

        def make(rows: Array, rng: np.random.Generator) -> SentencePairs:
            del rng
            first, second = (tokens_of(*store.gather(side, rows)) for side in ("first", "second"))
            if "score" not in store.columns:
                return SentencePairs(first, second)
            return SentencePairs(first, second, torch.from_numpy(store.gather("score", rows)[0] / scale).float())

        return make

    def objective(self) -> Match | CosineScore:
        """Return cosine regression for pairs with scores, otherwise the in-batch contrastive loss."""
        return CosineScore() if self.scored else Match(scale=self.settings.scale)


def _check_vectors(sentence: SentenceModel, name: str) -> None:
    """Raise an error for a teacher whose vectors are not the means of its last states, which a student learns."""
    dense = [part for part in sentence.after if not isinstance(part, Normalize)]
    prompt = sentence.prompts.get(sentence.default_prompt or "", "")
    if sentence.pooling == ("mean",) and not dense and not prompt:
        return
    pooling = "" if sentence.pooling == ("mean",) else f"{'+'.join(sentence.pooling)} pooling"
    how = pooling or ("a dense layer" if dense else "a prompt")
    raise UsageError(
        f"distill.teacher: {name} has {how}, and a student learns only the mean of the last states of a text"
    )
