"""What defaults.py compares with: a plain loop with Hugging Face `transformers`, and a bag of words."""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from defaults_cells import Row, write_lines
from defaults_run import Found, Job
from defaults_words import fitted_classes, fitted_numbers

from qkv.evaluation.classification import F1, Accuracy, Matthews
from qkv.evaluation.correlation import MeanSquaredError, Pearson, Spearman
from qkv.evaluation.entities import EntityF1

FEW, SMALL_BATCH, BATCH = 300, 16, 32
LENGTHS = {"answer": 384}


def hugging_face(job: Job, place: Path, minilm: Path) -> Found:
    """Fine-tune with the loop of finetune_peer.py: AdamW, 10 % warm-up, linear decay, bf16 autocast on CUDA."""
    from finetune_files import Bench
    from finetune_peer import theirs

    cell = job.cell
    for part in ("train", "test"):
        rows = (json.dumps(row, ensure_ascii=False) for row in plain(job, part))
        write_lines(place / f"{part}.jsonl", rows)
    bench = Bench(
        cell.set.recipe, cell.set.metric, (), (), (), columns={"second": cell.is_pair},
        batch=SMALL_BATCH if cell.count < FEW else BATCH, max_length=LENGTHS.get(cell.set.recipe, 256),
    )  # fmt: skip
    rate = float(job.setting.removeprefix("lr="))
    found = theirs(bench, place, minilm, seed=job.seed, lr=rate, epochs=job.epochs, trainer=False)
    times = {"seconds": round(found["seconds"], 1), "train_seconds": round(found["train_seconds"], 1)}
    return {"scores": found["test"], **times, "epochs": job.epochs}


def plain(job: Job, part: str) -> Iterator[Row]:
    """Yield rows with the columns text, second and label, or tokens and tags."""
    named = {"sentence1": "text", "sentence2": "second", "score": "label"}
    for row in job.cell.rows(part, job.tested):
        yield {named.get(name, name): row[column] for name, column in job.cell.set.columns.items()}


def bag_of_words(job: Job, place: Path, minilm: Path) -> Found:
    """Logistic or ridge regression on TF-IDF; for tags, the most frequent tag of each word."""
    del place, minilm
    train, test = (list(plain(job, part)) for part in ("train", "test"))
    begin = time.perf_counter()
    scores = {"tag": tagger, "regress": numbers}.get(job.cell.set.recipe, classes)(train, test, job.cell.set.metric)
    return {"scores": scores, "seconds": round(time.perf_counter() - begin, 1)}


def classes(train: list[Row], test: list[Row], metric: str) -> dict[str, float]:
    kinds: dict[str, type[Any]] = {"matthews": Matthews, "f1": F1}

    def graded(said: Iterable[str], gold: Iterable[str]) -> float:
        chosen = F1(average="macro") if metric == "f1" else kinds.get(metric, Accuracy)()
        return results([chosen], zip(said, gold, strict=True))[metric]

    labels = [row["label"] for row in train]
    said = fitted_classes([words(row) for row in train], labels, graded)([words(row) for row in test])
    return results(
        [Accuracy(), F1(average="macro"), Matthews()], zip(said, (row["label"] for row in test), strict=True)
    )


def numbers(train: list[Row], test: list[Row], metric: str) -> dict[str, float]:
    del metric
    labels = [float(row["label"]) for row in train]
    said = fitted_numbers([words(row) for row in train], labels)([words(row) for row in test])
    gold = (float(row["label"]) for row in test)
    return results([Pearson(), Spearman(), MeanSquaredError()], zip(said, gold, strict=True))


def words(row: Row) -> list[str]:
    """Return the words and word pairs of a text; for two texts, the words of both, of the first and of the second."""
    first = row["text"].lower().split()
    if "second" not in row:
        return first + [f"{a} {b}" for a, b in pairwise(first)]
    one, two = set(first), set(row["second"].lower().split())
    sides = {"both": one & two, "first": one - two, "second": two - one}
    return [f"{name}:{word}" for name, some in sides.items() for word in ["", *sorted(some)]]


def tagger(train: list[Row], test: list[Row], metric: str) -> dict[str, float]:
    """Give each word its most frequent tag, and an unknown word the most frequent tag of words seen once."""
    seen: dict[str, Counter[str]] = defaultdict(Counter)
    for row in train:
        for word, tag in zip(row["tokens"], row["tags"], strict=True):
            seen[word][tag] += 1
    rare = Counter(tag for tags in seen.values() if tags.total() == 1 for tag in tags)
    all_tags = sum(seen.values(), Counter[str]())
    usual = (rare or all_tags).most_common(1)[0][0]
    said = [[seen[w].most_common(1)[0][0] if w in seen else usual for w in row["tokens"]] for row in test]
    gold = [row["tags"] for row in test]
    if metric == "entity-f1":
        return results([EntityF1()], zip(said, gold, strict=True))
    flat = ((tag for tags in some for tag in tags) for some in (said, gold))
    return results([Accuracy()], zip(*flat, strict=True))


def results(metrics: list[Any], pairs: Iterable[tuple[Any, Any]]) -> dict[str, float]:
    for said, gold in pairs:
        for metric in metrics:
            metric.add(said, gold)
    return {score.name: score.value for score in (metric.result() for metric in metrics)}
