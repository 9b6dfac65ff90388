"""Pre-train a model of BERT-small size in a few minutes, as BERT and as ELECTRA, then fine-tune it on GLUE.

    python benchmarks/pretrain_small.py prepare --data ../shared/data --work runs/small
    python benchmarks/pretrain_small.py pretrain --data ../shared/data --work runs/small --kinds bert --minutes 9
    python benchmarks/pretrain_small.py pretrain --data ../shared/data --work runs/small --kinds electra --minutes 9
    python benchmarks/pretrain_small.py glue --data ../shared/data --work runs/small --seeds 3 --out small.json

The text is 100 English novels and the prose of enwik8, about 22 million words, with two novels and one percent of the
articles held out. Both models read pairs of consecutive sentences of 128 tokens. The script times a few steps first and
then trains for as many as fit into the minutes. `glue` reports dev scores of each model and of the same architecture
with random weights. Dropout is 0 in pre-training (a few passes over the text) and 0.1 in fine-tuning.
"""

from __future__ import annotations

import argparse
import bz2
import itertools
import json
import statistics
import time
import zipfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from qkv import load
from qkv.checkpoints.folder import Folder, write_folder
from qkv.common.config import override
from qkv.models import catalogue
from qkv.recipes.schema import change, read_recipe
from qkv.runs.glue import glue, table
from qkv.runs.run import run_recipe
from qkv.tokenizers.text import TextTokenizer
from qkv.tokenizers.training import TokenizerConfig, train_tokenizer

PRESETS = {"bert": "bert-small-rotary", "electra": "electra-small-rotary"}
PAIRS = {"objective.pairs": True, "data.short": 0, "data.max_length": 128}
OWN: dict[str, dict[str, Any]] = {  # in addition to the recipe's settings
    "bert": {**PAIRS, "objective.rate": 0.2},
    "electra": {**PAIRS, "optim.lr": 1e-3},
}
TASKS = ("CoLA", "SST-2", "MRPC", "STS-B", "RTE")
PARAGRAPHS = 100  # per document, for novels
NOVEL, ARTICLE = 50, 100  # one in so many is held out
DROPPED = 0.1  # dropout in fine-tuning
LARGE, LARGE_EPOCHS = "SST-2", 2  # eight times as large as the next task; two epochs are enough
TIMED, RESERVE, USED = 200, 40, 0.92  # steps to time; seconds in reserve; share of the rest to use
FILL = ("The capital of France is [MASK].", "She opened the [MASK] and went into the house.", "He was born in [MASK].")


def novels(data: Path) -> Iterator[tuple[bool, str]]:
    """Yield documents and whether they are held out. A document is some paragraphs of a novel, one per line."""
    with zipfile.ZipFile(data / "english-novels/100_english_novels.zip") as archive:
        for number, name in enumerate(sorted(archive.namelist())):
            blocks = archive.read(name).decode("utf-8", "replace").replace("\r\n", "\n").split("\n\n")
            lines = [" ".join(block.split()) for block in blocks if block.strip()]
            for i in range(0, len(lines), PARAGRAPHS):
                yield number % NOVEL == NOVEL - 1, "\n".join(lines[i : i + PARAGRAPHS])


def articles(data: Path) -> Iterator[tuple[bool, str]]:
    with bz2.open(data / "wiki-enwik8-clean/wiki.txt.bz2", "rt", encoding="utf-8") as file:
        for number, article in enumerate(file.read().split("\n\n")):
            if article.strip():
                yield number % ARTICLE == ARTICLE - 1, article.strip()


def write_texts(data: Path, work: Path, limit: int | None) -> dict[str, Path]:
    """Write train.txt and valid.txt, with a blank line between documents."""
    files = {"train": work / "train.txt", "valid": work / "valid.txt"}
    if all(file.is_file() for file in files.values()):
        return files
    found: dict[str, list[str]] = {name: [] for name in files}
    for source in (novels(data), articles(data)):
        for out, text in itertools.islice(source, limit):
            found["valid" if out else "train"].append(text)
    for name, file in files.items():
        file.write_text("\n\n".join(found[name] or found["train"][-1:]) + "\n", "utf-8")
    return files


def tokenizer_of(work: Path, texts: Path, vocab_size: int) -> TextTokenizer:
    """Train the tokenizer, unless it exists."""
    kept = TextTokenizer.find(work / "tokenizer")
    if kept is not None:
        return kept
    config = TokenizerConfig(kind="wordpiece", vocab_size=vocab_size, lowercase=True, specials="bert")
    with texts.open(encoding="utf-8") as lines:
        made = train_tokenizer(lines, config)
    (work / "tokenizer").mkdir()
    for name, content in made.files().items():
        (work / "tokenizer" / name).write_bytes(content)
    return made


def prepare(args: argparse.Namespace) -> tuple[dict[str, Path], TextTokenizer]:
    """Write the texts and train the tokenizer, unless they exist."""
    args.work.mkdir(parents=True, exist_ok=True)
    files = write_texts(args.data, args.work, args.limit)
    return files, tokenizer_of(args.work, files["train"], args.vocab_size)


def pretrain(kind: str, args: argparse.Namespace) -> dict[str, Any]:
    """Initialise the model, time some steps, and train for the time that is left."""
    start, work = time.perf_counter(), args.work
    files, tokenizer = prepare(args)
    name = args.name or kind
    first = work / f"first-{name}"
    config = override(catalogue.preset(PRESETS[kind]), {**size(kind, args), "vocab_size": tokenizer.vocab_size})
    torch.manual_seed(1)
    write_folder(Folder(config, catalogue.build(config).eval(), tokenizer), first)
    changes = {
        "model.init": str(first), "model.preset": "", "data.train": [str(files["train"])],
        "data.valid": [str(files["valid"])], "data.unit": "blank", "data.cache": str(work / f"data-{name}"),
        "train.tokens": args.tokens, "train.workers": args.workers, "train.compile": args.compile,
        "train.log_every": 50, "train.save_every": 1e9, "train.validate_every": 1e9,
    }  # fmt: skip
    changes |= {"train.steps": TIMED, "out": str(work / f"timed-{name}"), **OWN[kind], **dict(args.set)}
    recipe = change(read_recipe(f"pretrain-{kind}"), changes)
    steps = args.steps
    if not steps:
        run_recipe(recipe, say=print)
        # compilation slows down the first lines, and the last ones again for long windows
        rate = max(value for _, value in metrics(work / f"timed-{name}", "tokens_per_second")) / args.tokens
        left = 60 * args.minutes - (time.perf_counter() - start) - RESERVE
        steps = max(TIMED, int(USED * left * rate))
        print(f"{kind}: {rate:.1f} steps a second, {left:.0f} s left: {steps:,} steps", flush=True)
    final = {"train.steps": steps, "train.validate_every": 0.05, "out": str(work / name)}
    run_recipe(change(recipe, final), say=print)
    valid, seconds = metrics(work / name, "valid_loss"), time.perf_counter() - start
    said = fill(work / name / "generator" if kind == "electra" else work / name)
    return {"steps": steps, "tokens": args.tokens, "seconds": seconds, "valid_loss": valid, "fill": said}


def size(kind: str, args: argparse.Namespace) -> dict[str, Any]:
    """Return the model size, the same for both kinds, without dropout."""
    found: dict[str, Any] = {"dropout": 0.0, "attention_dropout": 0.0}
    found |= {"num_layers": args.layers, "dim": args.dim, "num_heads": args.dim // 64, "ff_dim": 4 * args.dim}
    return found | ({"embedding_dim": args.dim} if kind == "electra" else {})


def metrics(folder: Path, name: str) -> list[tuple[int, float]]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text("utf-8").splitlines()]
    return [(line["step"], line[name]) for line in lines if line.get(name) is not None]


def fill(folder: Path) -> dict[str, list[str]]:
    """Return what a model fills into some masks."""
    model = load(folder)
    return {
        text: [f"{choice.word} {choice.score:.3f}" for choice in found[0]]
        for text, found in zip(FILL, model.fill(FILL), strict=True)
    }


def fine_tuned(
    name: str, task: str, seed: int, data: str, work: str, runs: str, epochs: float, settings: dict[str, Any]
) -> dict[str, Any]:
    """Fine-tune and score one model on one task with one seed; validate and save only at the end."""
    changes: dict[str, Any] = {"train.validate_every": 1e9, "train.save_every": 1e9, "train.workers": 1}
    changes |= {"train.seed": seed, "model.set": {"dropout": DROPPED, "attention_dropout": DROPPED}, **settings}
    out, model, where = f"{work}/{runs}/{name}-{task}-{seed}", f"{work}/{name}", f"{data}/glue"
    torch.set_num_threads(1)
    epochs = min(epochs, LARGE_EPOCHS) if task == LARGE else epochs
    return glue(where, model, out=out, tasks=(task,), epochs=epochs, changes=changes, say=lambda _: None)


def together(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Collect the scores of one model over tasks and seeds."""
    scores: dict[str, dict[str, list[float]]] = {}
    for one in found:
        for task, metrics in one["scores"].items():
            for metric, values in metrics.items():
                scores.setdefault(task, {}).setdefault(metric, []).extend(values)
    return {**found[0], "scores": scores, "average": statistics.fmean(one["average"] for one in found)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["prepare", "pretrain", "glue"])
    parser.add_argument(
        "--data", type=Path, required=True, help="a folder with english-novels/, wiki-enwik8-clean/ and glue/"
    )
    parser.add_argument("--work", type=Path, default=Path("runs/small"))
    parser.add_argument("--kinds", nargs="+", default=list(PRESETS), choices=list(PRESETS))
    parser.add_argument("--name", help="name of the pre-trained folder in --work; by default the kind")
    parser.add_argument("--minutes", type=float, default=9.0, help="time budget per kind, from text to model")
    parser.add_argument(
        "--steps", type=int, default=0, help="number of steps, instead of as many as fit into the minutes"
    )
    parser.add_argument("--layers", type=int, default=4, help="BERT-small has 4 layers of width 512 (Turc et al. 2019)")
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=32_768, help="tokens per batch")
    parser.add_argument("--vocab-size", type=int, default=30_000)
    parser.add_argument("--workers", type=int, default=6)
    parser.add_argument("--compile", default="yes" if torch.cuda.is_available() else "no", help="see train.compile")
    parser.add_argument("--limit", type=int, help="use only this many documents of each corpus")
    parser.add_argument("--set", nargs="*", default=[], type=setting, help="key=value changes to the recipe")
    parser.add_argument(
        "--models", nargs="+", help="folders in --work to fine-tune; by default each kind and its random weights"
    )
    parser.add_argument("--tasks", nargs="+", default=list(TASKS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=float, default=5)
    parser.add_argument("--jobs", type=int, default=4, help="parallel fine-tuning runs")
    parser.add_argument(
        "--out", type=Path, default=Path("pretrain_small.json"), help="file for the scores; the runs are named after it"
    )
    args = parser.parse_args()
    found: dict[str, Any] = {"torch": torch.__version__, "cuda": torch.cuda.is_available()}
    if args.part == "prepare":
        start = time.perf_counter()
        prepare(args)
        print(f"texts and tokenizer: {time.perf_counter() - start:.0f} s")
        return
    if args.part == "pretrain":
        for kind in args.kinds:
            found[kind] = pretrain(kind, args)
            args.out.write_text(json.dumps(found, indent=1) + "\n")
        print(json.dumps(found))
        return
    names = args.models or [name for kind in args.kinds for name in (kind, f"first-{kind}")]
    with ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn")) as pool:
        given = (str(args.data), str(args.work), f"glue-{args.out.stem}", args.epochs, dict(args.set))
        seeds, longest = range(1, args.seeds + 1), sorted(args.tasks, key=lambda task: task != LARGE)
        runs = [(name, task, seed) for task in longest for name in names for seed in seeds]
        asked = {run: pool.submit(fine_tuned, *run, *given) for run in runs}
        for name in names:
            found[name] = together([asked[name, task, seed].result() for task in args.tasks for seed in seeds])
            args.out.write_text(json.dumps(found, indent=1) + "\n")
            print(table(found[name]), flush=True)


def setting(text: str) -> tuple[str, Any]:
    from qkv.recipes.schema import parse_change

    return parse_change(text)


if __name__ == "__main__":
    main()
