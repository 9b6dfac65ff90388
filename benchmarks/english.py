"""Make the built-in encoder `english`: pre-train it, teach it sentence embeddings, pack it, score it.

    python benchmarks/english.py prepare   --data DATA --work runs/english
    python benchmarks/english.py plan      --work runs/english --plan 1150    # as soon as `prepare` has first weights
    python benchmarks/english.py pretrain  --work runs/english --seconds 500    # again until it says "done"
    python benchmarks/english.py sentences --work runs/english
    python benchmarks/english.py pack      --work runs/english --out src/qkv/pretrained/english
    python benchmarks/english.py score     --data DATA --models src/qkv/pretrained/english --out english.json
    python benchmarks/english_card.py --scores english.json --out src/qkv/pretrained/english/README.md

`DATA` is a folder with english-novels/, wiki-enwik8-clean/ and, for `score`, glue/STS-B/. Each part can be stopped and
typed again; `pretrain` and `sentences` stop by themselves after --seconds, save, and exit with code 1.

`plan` times some steps and plans as many as fit into --plan seconds, so that the schedule ends with the last step;
plan.json keeps the number. `sentences` needs no labels. Its pairs are

    same     a sentence, and itself without one word in seven (Gao et al. 2021: dropout alone also makes a pair)
    near     a sentence, and the next one of its paragraph (Logeswaran & Lee 2018)
    cloze    a sentence, and what is around it in its paragraph (Lee et al. 2019)

Compare both stages before you pack: `qkv glue DATA/glue runs/english/electra` and `... runs/english/sentences`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pretrain_small import fill, metrics, setting, write_texts

from qkv import load
from qkv.checkpoints.folder import Folder, read_folder, write_folder
from qkv.checkpoints.sentence import Normalize, SentenceModel
from qkv.common.config import override
from qkv.data.labelled import rated
from qkv.data.sentences import split_sentences
from qkv.evaluation.correlation import Spearman
from qkv.models import catalogue
from qkv.recipes.schema import Recipe, read_recipe
from qkv.runs.prepare import prepare as prepare_run
from qkv.runs.run import run_recipe
from qkv.tasks.start import transfer
from qkv.tokenizers.text import TextTokenizer
from qkv.tokenizers.training import train_tokenizer

HERE = Path(__file__).parent
TIMED = 300  # steps to time
NEVER = 1e9
WORDS = (5, 60)  # of a sentence in a pair
KINDS = ("same", "same", "near", "cloze")  # drawn for each sentence
DROPPED = 1 / 7  # of the words of `same`
NEAREST, AROUND = 6, 30  # sentences and words of `cloze` on either side: in some novels a chapter is one paragraph
SAMPLE = 3  # one in so many documents is text for the second stage
FINE_TUNING = {"dropout": 0.1, "attention_dropout": 0.1}
STSB = {
    "dev": ("dev.tsv.gz", {"text": "sentence1", "second": "sentence2", "label": "score"}),
    "test": ("sts-test.labelled.tsv.gz", {"text": 5, "second": 6, "label": 4, "header": False}),
}


def stage(name: str, args: argparse.Namespace, **changes: Any) -> Recipe:
    """Return the recipe of a stage; --set comes last."""
    given = {"out": str(args.work / name), **changes, **dict(args.set)}
    return override(read_recipe(str(HERE / f"english-{name}.toml")), given)


def prepare(args: argparse.Namespace) -> None:
    """Write the texts, the tokenizer, the first weights, the tokens, and the pairs and text of the second stage."""
    args.work.mkdir(parents=True, exist_ok=True)
    files = write_texts(args.data, args.work, args.limit)
    recipe, first = stage("electra", args), args.work / "first"
    if not (first / "config.json").is_file():
        tokenizer = TextTokenizer.find(args.tokenizer) if args.tokenizer else None
        if tokenizer is None:
            with files["train"].open(encoding="utf-8") as lines:
                tokenizer = train_tokenizer(lines, replace(recipe.tokenizer, specials="bert"))
        changes = {**recipe.model.set, "vocab_size": tokenizer.vocab_size}
        config = override(catalogue.preset(recipe.model.preset), changes)
        torch.manual_seed(recipe.train.seed)
        write_folder(Folder(config, catalogue.build(config).eval(), tokenizer), first)
    prepare_run(first_stage(args), args.work / "prepared", lambda line: print(line, flush=True))
    for part, file in files.items():
        written = args.work / f"{part}-pairs.tsv"
        if not written.is_file():
            texts = documents(file)
            write(args.work / f"{part}-sample.txt", (f"{text}\n\n" for text in texts[::SAMPLE] or texts))
            write(written, itertools.chain(["source\ttarget\n"], all_pairs(texts, args.workers)))


def documents(file: Path) -> list[str]:
    return [text for text in file.read_text("utf-8").split("\n\n") if text.strip()]


def write(file: Path, lines: Iterator[str]) -> None:
    """Write a file that appears only when it is complete."""
    work = file.with_suffix(".part")
    with work.open("w", encoding="utf-8") as out:
        out.writelines(lines)
    work.replace(file)


def all_pairs(texts: Sequence[str], workers: int) -> Iterator[str]:
    with ProcessPoolExecutor(workers) as pool:
        for lines in pool.map(pairs_of, texts, range(len(texts)), chunksize=64):
            yield from lines


def pairs_of(text: str, seed: int) -> list[str]:
    """Return a line with a pair for each sentence of a document; a line of the document is a paragraph."""
    draw, found = random.Random(seed), []
    for paragraph in text.splitlines():
        sentences = [sentence.split() for sentence, _ in split_sentences(paragraph)]
        for number, words in enumerate(sentences):
            if WORDS[0] <= len(words) <= WORDS[1]:
                other = partner(draw, sentences, number)
                if len(other) >= WORDS[0]:
                    found.append(f"{' '.join(words)}\t{' '.join(other)}\n")
    return found


def partner(draw: random.Random, sentences: Sequence[Sequence[str]], number: int) -> list[str]:
    """Return the other side of a pair; where a paragraph has no other sentence, the kind is `same`."""
    kind, words = draw.choice(KINDS), sentences[number]
    if kind == "near" and number + 1 < len(sentences):
        return list(sentences[number + 1])[: WORDS[1]]
    if kind == "cloze" and len(sentences) > 1:
        parts = sentences[max(0, number - NEAREST) : number], sentences[number + 1 : number + 1 + NEAREST]
        before, after = (list(itertools.chain(*part)) for part in parts)
        return before[-AROUND:] + after[:AROUND]
    return [word for word in words if draw.random() >= DROPPED]


def first_stage(args: argparse.Namespace) -> Recipe:
    work = args.work
    return stage("electra", args, **{
        "model.preset": "", "model.init": str(work / "first"), "data.train": [str(work / "train.txt")],
        "data.valid": [str(work / "valid.txt")], "data.cache": str(work / "data-electra"),
        "train.compile": args.compile,
    })  # fmt: skip


def plan(args: argparse.Namespace) -> None:
    """Time some steps on the held-out text, which is tokenised quickly, and write how many fit into the seconds."""
    place, texts = args.work / f"timed-{time.time_ns()}", [str(args.work / "valid.txt")]
    recipe = override(first_stage(args), {
        "data.train": texts, "data.cache": "", "train.validate_every": NEVER, "train.save_every": NEVER,
        "train.log_every": 20, "train.steps": args.timed, "out": str(place),
    })  # fmt: skip
    run(recipe)
    # the fastest lines: compiling slows down the first ones
    rate = max(value for _, value in metrics(place, "tokens_per_second")) / recipe.train.tokens
    steps = max(args.timed, int(args.plan * rate))
    print(f"{rate:.1f} steps a second: {steps:,} steps in {args.plan:.0f} s", flush=True)
    (args.work / "plan.json").write_text(json.dumps({"steps": steps}) + "\n")


def pretrain(args: argparse.Namespace) -> bool:
    """Run the first stage; returns whether it is done."""
    recipe, planned = first_stage(args), args.work / "plan.json"
    if not recipe.train.steps:
        if not planned.is_file():
            raise SystemExit(f"{planned} is missing: run the part `plan` first, or set train.steps")
        recipe = override(recipe, {"train.steps": json.loads(planned.read_text())["steps"]})
    return run(recipe)


def sentences(args: argparse.Namespace) -> bool:
    """Run the second stage; returns whether it is done."""
    work = args.work
    files = {f"data.{part}": [str(work / f"{part}-sample.txt"), str(work / f"{part}-pairs.tsv")] for part in
             ("train", "valid")}  # fmt: skip
    return run(stage("sentences", args, **files, **{"model.init": str(args.start or work / "electra")}))


def run(recipe: Recipe) -> bool:
    """Start a run, or continue it; returns whether it is done."""
    place = Path(recipe.out)
    if (place / "done").is_file():
        return True
    outcome = run_recipe(recipe, resume=(place / "recipe.toml").is_file(), say=lambda line: print(line, flush=True))
    print(f"{place}: {outcome.reason} after {outcome.step:,} steps, {json.dumps(outcome.energy)}", flush=True)
    if outcome.finished:
        (place / "done").touch()
    return outcome.finished


def pack(args: argparse.Namespace) -> None:
    """Write the encoder and the head that fills masks in float16, with the files of a sentence embedding model."""
    found = read_folder(args.start or args.work / "sentences")
    config = override(found.config, {"heads": ["mlm"], **FINE_TUNING})
    model = catalogue.build(config).eval()
    transfer(model, found)
    sentence = SentenceModel(declared=True, pooling=("mean",), after=(Normalize(),), similarity="cosine")
    write_folder(Folder(config, model, found.tokenizer, sentence=sentence), args.out, dtype="float16")
    size = sum(file.stat().st_size for file in args.out.rglob("*") if file.is_file())
    weights = sum(parameter.numel() for parameter in model.parameters())
    print(f"{args.out}: {weights:,} weights, {size / 1e6:.1f} MB")


def score(args: argparse.Namespace) -> None:
    """Score STS-B without labels (Spearman's correlation of cosine and score), and show what `fill` says."""
    scores: dict[str, Any] = {}
    for name in args.models:
        model = load(name)
        found = {part: stsb(model, args.data / "glue/STS-B" / file, reading) for part, (file, reading) in STSB.items()}
        scores[str(name)] = {"sts-b": found} | ({"fill": fill(name)} if "fill" in model.verbs else {})
        print(name, json.dumps(scores[str(name)], indent=1), flush=True)
    if args.out:
        args.out.write_text(json.dumps(scores, indent=1) + "\n")


def stsb(model: Any, file: Path, reading: dict[str, Any]) -> dict[str, float]:
    rows, metric = list(rated(str(file), format="tsv", bad="skip", **reading)), Spearman()
    first, second = model.embed([row.text for row in rows]), model.embed([row.second or "" for row in rows])
    lengths = np.linalg.norm(first, axis=-1) * np.linalg.norm(second, axis=-1)
    for row, cosine in zip(rows, ((first * second).sum(-1) / lengths).tolist(), strict=True):
        metric.add(cosine, row.score)
    found = metric.result()
    return {"spearman": found.value, "low": found.low, "high": found.high, "pairs": found.count}


def stop_after(seconds: float) -> threading.Timer:
    """Stop the run as SIGTERM does: it saves and can be continued."""
    timer = threading.Timer(seconds, lambda: os.kill(os.getpid(), signal.SIGTERM))
    timer.daemon = True
    timer.start()
    return timer


PARTS = {"prepare": prepare, "plan": plan, "pretrain": pretrain, "sentences": sentences, "pack": pack, "score": score}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=list(PARTS))
    parser.add_argument("--data", type=Path, help="the folder with the corpora")
    parser.add_argument("--work", type=Path, default=Path("runs/english"))
    parser.add_argument("--limit", type=int, help="use only this many documents of each corpus")
    parser.add_argument("--tokenizer", type=Path, help="a folder with the tokenizer, to save training it in `prepare`")
    parser.add_argument("--seconds", type=float, help="stop and save after this time")
    parser.add_argument("--plan", type=float, default=1150, help="seconds of training, over all calls")
    parser.add_argument("--timed", type=int, default=TIMED, help="steps to time")
    parser.add_argument("--start", type=Path, help="a folder other than that of the stage before")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes that make pairs")
    parser.add_argument("--compile", default="yes" if torch.cuda.is_available() else "no", help="see train.compile")
    parser.add_argument("--set", nargs="*", default=[], type=setting, help="key=value changes to the recipe")
    parser.add_argument("--models", nargs="+", type=Path, help="folders to score")
    parser.add_argument("--out", type=Path, help="the folder of `pack`, the file of `score`")
    args = parser.parse_args()
    if args.seconds:
        stop_after(args.seconds)
    done = PARTS[args.part](args)
    raise SystemExit(done is False)


if __name__ == "__main__":
    main()
