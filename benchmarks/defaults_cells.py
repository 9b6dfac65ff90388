"""The cells of defaults.py: data sets at several sizes, and the small files that they are packed into.

A data set is packed as one shuffled training file and one test file. The cell `sst2/300` trains on the first 300 rows
of sst2's training file, so each size is contained in the next one, and nothing is stored twice.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

Row = dict[str, Any]

SMALL = (30, 300, 3000)
WHOLE = "whole"
LEAST_GROWTH = 1.5  # a size is left out if the whole set has less than this many times its examples


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """A packed file and how a recipe reads it.

    Attributes:
        recipe: the recipe that trains on it.
        metric: the metric to compare, one that `qkv evaluate` reports.
        source: the packed file; two data sets can use different columns of the same one.
        columns: the packed columns to use, by their names in the files that the recipe reads. For translation, the
            language of the source comes first.
        sizes: the numbers of training examples, besides the whole set.
    """

    recipe: str
    metric: str
    source: str
    columns: dict[str, str]
    sizes: tuple[int, ...] = SMALL

    @property
    def group(self) -> str:
        """The folder of the packed file."""
        return "translation" if self.recipe == "translate" else "text"


TEXT = {"text": "text", "label": "label"}
PAIR = {"sentence1": "text", "sentence2": "second", "label": "label"}


def classes(source: str, metric: str = "accuracy") -> DataSet:
    return DataSet(recipe="classify", metric=metric, source=source, columns=TEXT)


def pairs(source: str) -> DataSet:
    return DataSet(recipe="pairs", metric="accuracy", source=source, columns=PAIR)


def tags(column: str, metric: str) -> DataSet:
    return DataSet(recipe="tag", metric=metric, source="conll2003", columns={"tokens": "tokens", "tags": column})


def translation(source: str, languages: str, sizes: tuple[int, ...]) -> DataSet:
    columns = {language: language for language in languages.split("-")}
    return DataSet(recipe="translate", metric="BLEU", source=source, columns=columns, sizes=sizes)


CAPTIONS, SENTENCES = (2000, 10_000), (5000, 50_000)
READING = ("id", "question", "context", "answers")
SCORED = {"sentence1": "text", "sentence2": "second", "score": "label"}
DATA_SETS: dict[str, DataSet] = {
    "sst2": classes("sst2"),
    "sst5": classes("sst5"),
    "cola": classes("cola", "matthews"),
    "ag-news": classes("ag-news"),
    "imdb": classes("imdb"),
    "sst2-uneven": classes("sst2-uneven", "f1"),
    "ag-news-uneven": classes("ag-news-uneven", "f1"),
    "mrpc": pairs("mrpc"),
    "rte": pairs("rte"),
    "qnli": pairs("qnli"),
    "sts-b": DataSet(recipe="regress", metric="pearson", source="sts-b", columns=SCORED),
    "imdb-stars": DataSet(
        recipe="regress", metric="pearson", source="imdb", columns={"text": "text", "score": "stars"}
    ),
    "entities": tags("entities", "entity-f1"),
    "parts-of-speech": tags("parts", "accuracy"),
    "squad": DataSet(recipe="answer", metric="answer-f1", source="squad", columns={n: n for n in READING}),
    "multi30k-en-de": translation("multi30k", "en-de", CAPTIONS),
    "multi30k-de-en": translation("multi30k", "de-en", CAPTIONS),
    "tatoeba-en-de": translation("tatoeba-en-de", "en-de", SENTENCES),
    "tatoeba-en-fr": translation("tatoeba-en-fr", "en-fr", SENTENCES),
}


@dataclass(frozen=True)
class Cell:
    """A data set at one size.

    Attributes:
        data_set: the name of the data set.
        count: the number of training examples.
        whole: whether that is all of them.
        packed: the folder with the packed files.
    """

    data_set: str
    count: int
    whole: bool
    packed: Path

    @property
    def name(self) -> str:
        """The name, `sst2/300` or `sst2/whole`."""
        return f"{self.data_set}/{WHOLE if self.whole else self.count}"

    @property
    def set(self) -> DataSet:
        """The data set."""
        return DATA_SETS[self.data_set]

    @cached_property
    def is_pair(self) -> bool:
        """Whether an example has two texts."""
        return "second" in self.set.columns.values()

    def rows(self, part: str, limit: int | None = None) -> list[Row]:
        """Read the packed rows of train or test that the cell uses."""
        most = self.count if part == "train" else limit
        return read_packed(packed_file(self.packed, self.set, part))[:most]

    def write(self, part: str, folder: Path, limit: int | None = None) -> list[str]:
        """Write train or test as a person has it: JSON lines, or two aligned files for translation."""
        rows, columns = self.rows(part, limit), self.set.columns
        if self.set.recipe == "translate":
            return [write_lines(folder / f"{part}.{name}", (row[name] for row in rows)) for name in columns]
        kept = ({name: row[column] for name, column in columns.items()} for row in rows)
        return [write_lines(folder / f"{part}.jsonl", (json.dumps(row, ensure_ascii=False) for row in kept))]


def write_lines(path: Path, lines: Iterable[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return str(path)


def find_cells(packed: Path) -> list[Cell]:
    """Return the cells of the data sets that are packed in a folder."""
    found = []
    for name, data_set in DATA_SETS.items():
        file = packed_file(packed, data_set, "train")
        if not file.is_file():
            continue
        total = len(read_packed(file))
        sizes = [size for size in data_set.sizes if size * LEAST_GROWTH <= total]
        found += [Cell(name, size, False, packed) for size in sizes] + [Cell(name, total, True, packed)]
    return found


def packed_file(packed: Path, data_set: DataSet, part: str) -> Path:
    return packed / data_set.group / f"{data_set.source}.{part}.jsonl.gz"


def read_packed(path: Path) -> list[Row]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def write_packed(path: Path, rows: Sequence[Row]) -> None:
    """Write rows; the file depends only on them (gzip would store the time)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def shuffled(rows: Sequence[Row], seed: str, group: str | None = None) -> list[Row]:
    """Shuffle rows; those with the same value of the column `group` stay together."""
    groups: dict[Any, list[Row]] = {}
    for number, row in enumerate(rows):
        groups.setdefault(row[group] if group else number, []).append(row)
    order = list(groups.values())
    random.Random(seed).shuffle(order)
    return [row for some in order for row in some]


def with_every_class(rows: Sequence[Row], label: str = "label", first: int = SMALL[0]) -> list[Row]:
    """Move one example of each class that is missing from the first rows there, in place of a frequent one.

    A class that does not occur in training cannot be scored.
    """
    order = list(rows)
    names = sorted({row[label] for row in order})
    for name in names:
        start = [row[label] for row in order[:first]]
        if name in start:
            continue
        there = next(i for i, row in enumerate(order) if row[label] == name)
        common = max(names, key=start.count)
        here = len(start) - 1 - start[::-1].index(common)
        order[here], order[there] = order[there], order[here]
    return order


def uneven(rows: Sequence[Row], shares: dict[str, int], label: str = "label") -> list[Row]:
    """Subsample classes to the given ratio, as many examples as there are, in the order of the rows."""
    counts = {name: sum(row[label] == name for row in rows) for name in shares}
    unit = min(counts[name] / share for name, share in shares.items())
    left = {name: int(unit * share) for name, share in shares.items()}
    kept = []
    for row in rows:
        if left.get(row[label], 0) > 0:
            left[row[label]] -= 1
            kept.append(row)
    return kept
