"""One T5 on four tasks, SST-2, CoLA, STS-B and Multi30k en-de, with and without pre-training.

    python benchmarks/text_to_text.py text     --data DATA --work runs/t5
    python benchmarks/text_to_text.py pretrain --work runs/t5 --seconds 600 --stop-after 520    # again until it is done
    python benchmarks/text_to_text.py tune     --data DATA --work runs/t5 --seconds 400 --out text_to_text.json

`DATA` is a folder with english-novels/, wiki-enwik8-clean/ and tatoeba/ for `text`, glue/ and multi30k/ for `text` and
`tune`. The text is 100 novels, the prose of enwik8 and the German sentences of Tatoeba. The tokenizer also reads the
training files of the tasks. `pretrain` and `tune` time some steps, and then train for as many as fit into --seconds.
After --stop-after seconds they save, and continue when you type the same command again.

`tune` trains the recipe text-to-text.toml from the pre-trained and from random weights: the same tokenizer, steps and
settings, each side with each learning rate and seed. It prints dev scores (for translation, test_2016_flickr), those of
`qkv evaluate FOLDER FILE --task TASK`, and the mean over the tasks on the validation examples, by which you can choose.
"""

from __future__ import annotations

import argparse
import bz2
import itertools
import json
import statistics
import threading
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from english import stop_after
from pretrain_small import articles, novels, setting

from qkv.checkpoints.folder import Folder, write_folder
from qkv.common.config import override
from qkv.common.errors import QkvError
from qkv.models import catalogue
from qkv.recipes.schema import Recipe, change, read_recipe
from qkv.runs.own import Own
from qkv.runs.run import run_or_resume, run_recipe, score_test
from qkv.tasks.table import read_task
from qkv.tokenizers.text import TextTokenizer
from qkv.tokenizers.training import TokenizerConfig, train_tokenizer

RECIPE = str(Path(__file__).parent / "text-to-text.toml")
TRAIN = [*(f"glue/{name}/train.tsv.gz" for name in ("CoLA", "SST-2", "STS-B")), "multi30k/train.en.gz",
         "multi30k/train.de.gz"]  # fmt: skip
TEST = [file.replace("/train.", "/dev." if "glue" in file else "/test_2016_flickr.") for file in TRAIN]
SCORES = ("sst2/accuracy", "cola/matthews", "stsb/pearson", "stsb/spearman", "en-de/BLEU")
SIZE = {"num_layers": 6, "num_decoder_layers": 6, "dim": 512, "num_heads": 8, "ff_dim": 1024}
SENTENCES, HELD = 50, 100  # German sentences of a document; one document in so many is held out
SAMPLE = 10  # one in so many documents trains the tokenizer
PRETRAINED, RANDOM = "pretrained", "random"
LARGE = 10**9  # steps: never


def german(data: Path) -> Iterator[tuple[bool, str]]:
    """Yield documents of German sentences, and whether they are held out."""
    with zipfile.ZipFile(data / "tatoeba/deu-eng-2018-04.zip") as archive:
        rows = archive.read("deu.txt").decode("utf-8").splitlines()
    lines = list(dict.fromkeys(row.split("\t")[1] for row in rows))
    step = -(-len(lines) // SENTENCES)  # the file is sorted by length, so a document takes sentences from all of it
    for number in range(step):
        yield number % HELD == HELD - 1, "\n".join(lines[number::step])


def text(args: argparse.Namespace) -> None:
    """Write train.txt.bz2, valid.txt.bz2 and the tokenizer."""
    args.work.mkdir(parents=True, exist_ok=True)
    found: dict[bool, list[str]] = {True: [], False: []}
    for source in (novels(args.data), articles(args.data), german(args.data)):
        for out, document in itertools.islice(source, args.limit):
            found[out].append(document)
    for name, out in (("train", False), ("valid", True)):
        with bz2.open(args.work / f"{name}.txt.bz2", "wt", encoding="utf-8") as file:
            file.write("\n\n".join(found[out] or found[False][-1:]) + "\n")
    config = TokenizerConfig(kind="unigram", vocab_size=args.vocab_size, specials="t5")
    made = train_tokenizer(itertools.chain(found[False][::SAMPLE], task_texts(args)), config)
    (args.work / "tokenizer").mkdir(exist_ok=True)
    for name, content in made.files().items():
        (args.work / "tokenizer" / name).write_bytes(content)
    print(f"{sum(map(len, found[False])):,} characters, {made.vocab_size:,} tokens in the vocabulary", flush=True)


def task_texts(args: argparse.Namespace) -> Iterable[str]:
    """Yield what the model reads and says in the training examples of the tasks."""
    recipe = mixture(args)
    task = read_task(recipe.task, recipe.objective, recipe.data).resolved(print)
    return (found for example in task.examples(task.data.train) for found in task.texts(example))


def first_weights(args: argparse.Namespace, seed: int) -> Path:
    """Write a model with random weights, unless it is there."""
    folder: Path = args.work / f"{RANDOM}-{seed}"
    if not (folder / "config.json").is_file():
        tokenizer = TextTokenizer.find(args.work / "tokenizer")
        assert tokenizer is not None, "run `text` first"
        changes = {**SIZE, **dict(args.size), "vocab_size": tokenizer.vocab_size, "dropout": 0.0}
        config = override(catalogue.preset("t5-1.1-small"), changes)
        torch.manual_seed(seed)
        write_folder(Folder(config, catalogue.build(config).eval(), tokenizer), folder)
    return folder


def pretraining(args: argparse.Namespace, name: str, steps: int) -> Recipe:
    changes = {
        "model.init": str(first_weights(args, 1)), "data.train": [str(args.work / "train.txt.bz2")],
        "data.valid": [str(args.work / "valid.txt.bz2")], "data.unit": "blank",
        "data.cache": str(args.work / "data"), "optim.schedule": "linear", "optim.warmup": 0.05,
        "train.steps": steps, "train.tokens": args.tokens, "train.workers": args.workers, "train.compile": args.compile,
        "train.validate_every": 0.1, "train.save_every": LARGE, "train.keep": 1, "train.log_every": 20,
    }  # fmt: skip
    return change(read_recipe("pretrain-t5"), {**changes, "out": str(args.work / name), **dict(args.set)})


def mixture(args: argparse.Namespace, **changes: Any) -> Recipe:
    files = {"data.train": [str(args.data / file) for file in TRAIN], "data.test": [str(args.data / f) for f in TEST]}
    return change(read_recipe(RECIPE), {**files, **changes, **dict(args.set)})


def tuning(args: argparse.Namespace, steps: int, start: str, rate: float, seed: int, out: str = "tuned") -> Recipe:
    """Return the recipe of one run. A step has a batch of each task, so it has no static shape and is not recorded."""
    changes = {
        "model.init": str(args.work / PRETRAINED if start == PRETRAINED else first_weights(args, seed)),
        "optim.lr": rate, "train.seed": seed, "train.steps": steps, "train.compile": "auto",
        "out": str(args.work / f"{out}-{start}-{rate:g}-{seed}"),
    }  # fmt: skip
    return mixture(args, **changes)


def speed(recipe: Recipe) -> float:
    """Return the steps a second of a short run: the median between lines of the log, as the first steps are slow."""
    seen: list[tuple[int, float]] = []

    def note(step: int, values: dict[str, float]) -> None:
        if "loss" in values:
            seen.append((step, time.perf_counter()))

    quick = change(recipe, {"train.validate_every": LARGE, "train.keep_best": False, "train.log_every": 10})
    run_recipe(quick, say=print, own=Own(callbacks=[note]), report=False)
    return statistics.median((b[0] - a[0]) / (b[1] - a[1]) for a, b in itertools.pairwise(seen))


def planned(args: argparse.Namespace, rates: Callable[[], Iterable[float]]) -> int:
    """Return the number of steps: --steps, or as many as fit into --seconds, counted once and then kept."""
    plan: Path = args.work / f"{args.part}.json"
    if not args.steps and not plan.is_file():
        slowest = min(rates())
        plan.write_text(json.dumps(max(1, int(slowest * args.seconds))))
        print(f"{slowest:.2f} steps a second: {plan.read_text()} steps", flush=True)
    return args.steps or int(plan.read_text())


def pretrain(args: argparse.Namespace) -> None:
    steps = planned(args, lambda: [speed(pretraining(args, "timed", args.timed))])
    done = run_or_resume(pretraining(args, PRETRAINED, steps), device=None, say=print, report=False)
    print(json.dumps({"steps": steps, "tokens": args.tokens, **(done.scores or {}), **done.energy}, default=str))


def timed_tuning(args: argparse.Namespace, *run: Any) -> float:
    return speed(tuning(args, args.timed, *run, out="timed"))


def tuned(args: argparse.Namespace, steps: int, start: str, rate: float, seed: int) -> dict[str, Any]:
    """Train one model and score it on the test files of each task."""
    timer = stop_after(args.stop_after or threading.TIMEOUT_MAX)
    recipe = tuning(args, steps, start, rate, seed)
    done = run_or_resume(recipe, device=None, say=print, report=False)
    timer.cancel()
    scores = {score.name: score.value for score in score_test(recipe)}
    facts = {"step": done.weights_of, "valid": (done.scores or {})["average"], "seconds": done.energy["seconds"]}
    return {"start": start, "rate": rate, "seed": seed, "steps": steps, **facts, "scores": scores}


def tune(args: argparse.Namespace) -> None:
    """Train and score every model in a process of its own."""
    runs = list(itertools.product(args.starts, args.rates, args.seeds))
    for seed in args.seeds:
        first_weights(args, seed)
    with ProcessPoolExecutor(args.jobs or len(runs), mp_context=get_context("spawn")) as pool:
        steps = planned(args, lambda: pool.map(timed_tuning, *zip(*((args, *run) for run in runs), strict=True)))
        found = [one.result() for one in [pool.submit(tuned, args, steps, *run) for run in runs]]
    args.out.write_text(json.dumps(found, indent=1) + "\n")
    print(table(found))


def table(found: list[dict[str, Any]]) -> str:
    """Return a Markdown table: each start and learning rate, the mean over seeds and how far they are apart."""
    lines = [f"| weights | rate | {' | '.join(SCORES)} | validation |", "| --- " * (len(SCORES) + 3) + "|"]
    for start, rate in dict.fromkeys((one["start"], one["rate"]) for one in found):
        mine = [one for one in found if (one["start"], one["rate"]) == (start, rate)]
        cells = [spread([one["scores"][name] * (1 if "BLEU" in name else 100) for one in mine]) for name in SCORES]
        valid = spread([100 * one["valid"] for one in mine])
        lines.append(f"| {start} | {rate:g} | {' | '.join(cells)} | {valid} |")
    return "\n".join(lines)


def spread(values: list[float]) -> str:
    """Write the mean and, of several values, half their range."""
    wide = f" ± {(max(values) - min(values)) / 2:.1f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.1f}{wide}"


PARTS = {"text": text, "pretrain": pretrain, "tune": tune}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=list(PARTS))
    parser.add_argument("--data", type=Path, help="the folder with the corpora")
    parser.add_argument("--work", type=Path, default=Path("runs/t5"))
    parser.add_argument("--limit", type=int, help="use only this many documents of each corpus")
    parser.add_argument("--vocab-size", type=int, default=16_000)
    parser.add_argument(
        "--size", nargs="*", default=[], type=setting, help="key=value changes to the size of the model"
    )
    parser.add_argument("--seconds", type=float, default=600, help="train for so many seconds")
    parser.add_argument("--steps", type=int, default=0, help="number of steps, instead of as many as fit")
    parser.add_argument("--timed", type=int, default=200, help="steps to time")
    parser.add_argument("--stop-after", type=float, help="stop and save after so many seconds")
    parser.add_argument("--tokens", type=int, default=32_768, help="tokens per batch of pre-training")
    parser.add_argument("--workers", type=int, default=6)
    parser.add_argument("--compile", default="yes" if torch.cuda.is_available() else "no", help="see train.compile")
    parser.add_argument("--starts", nargs="+", default=[PRETRAINED, RANDOM], choices=[PRETRAINED, RANDOM])
    parser.add_argument("--rates", nargs="+", type=float, default=[5e-4, 1e-3], help="learning rates of `tune`")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--jobs", type=int, default=0, help="parallel runs of `tune`; 0 for all")
    parser.add_argument("--set", nargs="*", default=[], type=setting, help="key=value changes to the recipe")
    parser.add_argument("--out", type=Path, default=Path("text_to_text.json"), help="file for the scores of `tune`")
    args = parser.parse_args()
    if args.stop_after and args.part == "pretrain":
        stop_after(args.stop_after)
    try:
        PARTS[args.part](args)
    except QkvError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
