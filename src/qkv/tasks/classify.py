"""Labels and numbers for texts and for pairs of texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from qkv.common.batch import Labelled
from qkv.common.config import from_dict
from qkv.common.errors import QkvError
from qkv.data.bad_rows import BadRow, BadRows, sift
from qkv.data.config import DataConfig
from qkv.data.examples import Classified, Rated
from qkv.data.labelled import classified, rated, sort_labels
from qkv.data.store import Store
from qkv.objectives.classify import Classify, ClassifyAny, Regress
from qkv.tasks.base import Array, Collate, Context, Row, Task, chunks, gathered, known_only, tokens_of
from qkv.tasks.drops import check_drops, dropped, drops, text_bytes

UNEVEN = 3  # times as many examples as the rarest class has
SHOWN = 10  # classes that are counted aloud


def columns(data: DataConfig) -> dict[str, Any]:
    """The columns and the format a recipe names; those it does not name are recognised."""
    named = {"text": data.text, "second": data.second, "label": data.label, "format": data.format}
    return {key: value or None for key, value in named.items()}


def encoded(examples: Sequence[Classified | Rated], context: Context) -> Iterator[dict[str, Any]]:
    """Tokenise texts, or pairs of them, cut to the longest length; segments are kept where the model has them."""
    seconds = [example.second for example in examples]
    second = None if any(text is None for text in seconds) else [text or "" for text in seconds]
    limit = min(context.data.max_length, context.config.max_length)
    found = context.text.encode([example.text for example in examples], second, max_length=limit)
    for ids, segments in zip(found.ids, found.segments, strict=True):
        yield {"ids": ids, "segments": segments} if getattr(context.config, "num_segments", 0) > 1 else {"ids": ids}


def _single(where: str, example: Classified) -> Classified:
    del where
    if len(example.labels) != 1:
        got = "no label" if not example.labels else f"{len(example.labels)} labels"
        raise BadRow(f"{got} where one is expected (where there may be several, set separator)")
    return example


def describe(counts: Counter[str], *, multi_label: bool) -> str:
    """Say how many examples each class has where the classes are uneven; nothing where they are not."""
    ranked = counts.most_common()
    if not ranked or ranked[0][1] < UNEVEN * ranked[-1][1]:
        return ""
    shown = ranked if len(ranked) <= SHOWN else [*ranked[: SHOWN - 1], ranked[-1]]
    left = "" if len(ranked) <= SHOWN else f" ({len(ranked) - SHOWN} more between)"
    said = f"uneven classes: {', '.join(f'{name} {count}' for name, count in shown)}{left}"
    if multi_label:
        return said
    name, most = ranked[0]
    share = most / counts.total()
    return f"{said}; always saying {name!r} is right for {share:.0%}, so compare accuracy with that, or look at F1"


def single_text(example: Classified) -> Array:
    """Return a text that is split anew at each reading; pairs are not."""
    if example.second is not None:
        raise QkvError(f"{example.where}: data.dropout is for single texts, and this is a pair: set data.dropout=0")
    return text_bytes(example.text)


class ClassifyTask(Task):
    """One class for each example, or any number of them where the recipe names a separator."""

    heads = ("pool", "classify")

    def examples(
        self, paths: Sequence[str], data: DataConfig, *, skipped: BadRows | None = None
    ) -> Iterator[Classified]:
        """Read texts and classes; without a separator an example has exactly one class."""
        reading: dict[str, Any] = {"bad": data.bad, "skipped": skipped}
        found = classified(list(paths), labels_separator=data.separator or None, **columns(data), **reading)
        return found if data.separator else sift(((example.where, example) for example in found), _single, **reading)

    def texts(self, paths: Sequence[str], data: DataConfig) -> Iterator[str]:
        """Yield the texts."""
        for example in self.examples(paths, data):
            yield example.text
            if example.second:
                yield example.second

    def labels(self, paths: Sequence[str], data: DataConfig) -> tuple[str, ...]:
        """Find every class of the training examples."""
        found = {label for example in self.examples(paths, data) for label in example.labels}
        if len(found) < 2:
            raise QkvError(f"{', '.join(paths)}: at least two classes are needed, found {', '.join(found) or 'none'}")
        return tuple(sort_labels(found))

    def rows(self, paths: Sequence[str], context: Context) -> Iterator[Row]:
        """Tokenise and number the classes; one that training never saw makes a bad row. Uneven classes are said."""
        number = {label: i for i, label in enumerate(context.labels)}
        found = self.examples(paths, context.data, skipped=context.skipped)
        sound = known_only(found, "label", lambda example: example.labels, context)
        counts: Counter[str] = Counter()
        keeps = check_drops(context)
        for chunk in chunks(sound):
            for example, row in zip(chunk, encoded(chunk, context), strict=True):
                counts.update(example.labels)
                each = [int(label in example.labels) for label in context.labels]
                if keeps:
                    row["ids_text"] = single_text(example)
                yield row | {"label": each if context.data.separator else number[example.labels[0]]}
        if tuple(paths) == context.data.train and (
            uneven := describe(counts, multi_label=bool(context.data.separator))
        ):
            context.say(uneven)

    def collate(self, store: Store, context: Context) -> Collate:
        """Gather texts and classes."""
        multi_label, anew = bool(context.data.separator), drops(store, context)

        def make(rows: Array, rng: np.random.Generator) -> Labelled:
            labels = torch.from_numpy(store.gather("label", rows)[0].astype(np.int64))
            texts = tokens_of(*dropped(store, "ids", rows, context, rng)) if anew else gathered(store, rows)
            return Labelled(texts, labels.view(len(rows), -1) if multi_label else labels)

        return make

    def objective(self, settings: Mapping[str, Any]) -> Classify | ClassifyAny:
        """Cross-entropy of the class, or of each class by itself."""
        rest = {key: value for key, value in settings.items() if key != "multi_label"}
        return from_dict(ClassifyAny, rest) if settings.get("multi_label") else from_dict(Classify, rest)


class RegressTask(Task):
    """A number for each example."""

    heads = ("pool", "regress")

    def examples(self, paths: Sequence[str], data: DataConfig, *, skipped: BadRows | None = None) -> Iterator[Rated]:
        """Read texts and numbers."""
        return rated(list(paths), **columns(data), bad=data.bad, skipped=skipped)

    def texts(self, paths: Sequence[str], data: DataConfig) -> Iterator[str]:
        """Yield the texts."""
        for example in self.examples(paths, data):
            yield example.text
            if example.second:
                yield example.second

    def rows(self, paths: Sequence[str], context: Context) -> Iterator[Row]:
        """Tokenise and keep the numbers."""
        for chunk in chunks(self.examples(paths, context.data, skipped=context.skipped)):
            for example, row in zip(chunk, encoded(chunk, context), strict=True):
                yield row | {"score": float(example.score)}

    def collate(self, store: Store, context: Context) -> Collate:
        """Gather texts and numbers."""
        del context

        def make(rows: Array, rng: np.random.Generator) -> Labelled:
            del rng
            return Labelled(gathered(store, rows), torch.from_numpy(store.gather("score", rows)[0].astype(np.float32)))

        return make

    def objective(self, settings: Mapping[str, Any]) -> Regress:
        """Squared error."""
        return from_dict(Regress, settings)
