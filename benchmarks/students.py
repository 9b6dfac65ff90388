"""A 2-layer student of a fine-tuned sentiment classifier: accuracy, speed and size of teacher and student on one table.

    qkv train classify --set model.init=MINILM data.train=[SST/stsa.binary.train.gz] \
        data.valid=[SST/stsa.binary.dev.gz] data.format=label-first out=runs/teacher
    python benchmarks/students.py --teacher runs/teacher --sst SST --out runs/students --threads 2 --rounds 7

makes the student with `qkv distill` as it comes (`--texts FILE` adds texts without labels) in OUT/student (a later call
uses the one that is there), quantises both, and compares them with the teacher in `transformers`: accuracy on the test
sentences, and sentences a second, from text to label, all in one call and one by one.

Each side is a process of its own that waits without using the CPU while another one runs. A round asks each side in
turn; the table has medians over rounds. transformers gets batches of 32 sorted by length, and the texts as they are.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cpu_sides import ask, started
from encode_cpu import BATCH

SIDES = {  # the first one is what the others are compared with
    "teacher, transformers, float32": ("transformers", "teacher"),
    "teacher, qkv, float32": ("qkv", "teacher"),
    "teacher, qkv, int8": ("qkv", "teacher-int8"),
    "student, qkv, float32": ("qkv", "student"),
    "student, qkv, int8": ("qkv", "student-int8"),
}
Classify = Callable[[list[str]], list[str]]


def read(file: Path) -> list[tuple[str, str]]:
    """Read labels and texts."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        found = [line.strip().partition(" ") for line in lines]
    return [(label, text) for label, _, text in found]


def part(args: argparse.Namespace, name: str) -> Path:
    return args.sst / f"stsa.binary.{name}.gz"


def place(args: argparse.Namespace, name: str) -> Path:
    return args.teacher if name == "teacher" else args.out / name


def make(args: argparse.Namespace) -> None:
    """Distil and quantise what is not there yet."""
    from qkv.runs.outcome import finished

    student = args.out / "student"
    if finished(student) is None:
        command = [sys.executable, "-m", "qkv", "distill", str(args.teacher), str(part(args, "train")), "--layers", "2"]
        command += ["--out", str(student), *(["--resume"] if (student / "recipe.toml").is_file() else []), "--set"]
        command[-1:-1] = ["--texts", str(args.texts)] if args.texts else []
        changes = [f"data.valid=[{part(args, 'dev')}]", "data.format=label-first", *args.set]
        subprocess.run([*command, *changes], check=True, stdout=sys.stderr)
    for name in ("teacher", "student"):
        small = args.out / f"{name}-int8"
        if not small.exists():
            command = [sys.executable, "-m", "qkv", "quantize", str(place(args, name)), str(small)]
            subprocess.run(command, check=True, stdout=sys.stderr)


def by_qkv(folder: Path) -> Classify:
    import qkv

    model = qkv.load(folder, device="cpu")
    return lambda texts: [found.label for found in model.classify(texts)]


def by_transformers(folder: Path) -> Classify:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(folder).float().eval()
    tokenizer, names = AutoTokenizer.from_pretrained(folder), model.config.id2label

    def classify(texts: list[str]) -> list[str]:
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        found: dict[int, str] = {}
        for at in range(0, len(order), BATCH):
            some = order[at : at + BATCH]
            read = tokenizer([texts[i] for i in some], padding=True, truncation=True, return_tensors="pt")
            with torch.inference_mode():
                answers = model(**read).logits.argmax(-1).tolist()
            found |= {i: names[answer] for i, answer in zip(some, answers, strict=True)}
        return [found[i] for i in range(len(texts))]

    return classify


def worker(side: str, args: argparse.Namespace) -> None:
    """Answer each line of standard input: "accuracy", "all" or "one"."""
    import torch

    torch.set_num_threads(args.threads)
    rows = read(part(args, "test"))
    texts = [text for _, text in random.Random(0).sample(rows, min(args.count, len(rows)))]
    library, folder = SIDES[side]
    classify = {"qkv": by_qkv, "transformers": by_transformers}[library](place(args, folder))
    classify(texts[:64])
    for asked in map(str.strip, sys.stdin):
        if asked == "accuracy":
            said = classify([text for _, text in rows])
            print(sum(one == label for one, (label, _) in zip(said, rows, strict=True)) / len(rows), flush=True)
            continue
        groups = [texts] if asked == "all" else [[text] for text in texts[: args.singles]]
        begin = time.perf_counter()
        for group in groups:
            classify(group)
        print(sum(map(len, groups)) / (time.perf_counter() - begin), flush=True)


def compare(args: argparse.Namespace) -> None:
    with started(__file__, SIDES, args.threads) as processes:
        measure(args, processes)


def measure(args: argparse.Namespace, processes: dict[str, subprocess.Popen[str]]) -> None:
    accuracy = {side: ask(process, "accuracy") for side, process in processes.items()}
    able = [side for side, found in accuracy.items() if found is not None]
    rates: dict[str, dict[str, list[float]]] = {side: {"all": [], "one": []} for side in able}
    for _ in range(args.rounds):
        for side in able:
            for what in ("all", "one"):
                rates[side][what].append(ask(processes[side], what) or 0.0)
    print("| | accuracy, % | batched, sentences/s | times | one by one | times | MB |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    medians = {side: [statistics.median(found[what]) for what in ("all", "one")] for side, found in rates.items()}
    for side, speeds in medians.items():
        first = medians.get(next(iter(SIDES)), [0.0, 0.0])
        cells = [f"{100 * (accuracy[side] or 0.0):.2f}"]
        cells += [
            cell for speed, base in zip(speeds, first, strict=True) for cell in (f"{speed:,.0f}", ratio(speed, base))
        ]
        print(f"| {' | '.join([side, *cells, f'{size(place(args, SIDES[side][1])):.1f}'])} |")
    if missing := [side for side in SIDES if side not in able]:
        print(f"did not start: {', '.join(missing)}")
    print(json.dumps({"accuracy": accuracy, "rates": rates, "threads": args.threads}))


def ratio(speed: float, base: float) -> str:
    return f"{speed / base:.2f}" if base else ""


def size(folder: Path) -> float:
    """Return the megabytes of the weights."""
    return sum(file.stat().st_size for file in folder.glob("*.safetensors")) / 1e6


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--teacher", type=Path, required=True, help="the folder of a fine-tuned classifier")
    parser.add_argument("--sst", type=Path, required=True, help="the folder with stsa.binary.{train,dev,test}.gz")
    parser.add_argument("--texts", type=Path, help="texts without labels, which the teacher answers first")
    parser.add_argument("--out", type=Path, default=Path("runs/students"), help="for the student and the int8 folders")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="keys of the recipe of the student")
    add_timing(parser, singles=64)
    return parser


def add_timing(parser: argparse.ArgumentParser, *, singles: int) -> None:
    """Add the options of a comparison on a CPU."""
    parser.add_argument("--count", type=int, default=256, help="sentences that are timed")
    parser.add_argument("--singles", type=int, default=singles, help="of these, how many one by one")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--side", help=argparse.SUPPRESS)


def main() -> None:
    args: Any = options().parse_args()
    if args.side:
        worker(args.side, args)
        return
    make(args)
    compare(args)


if __name__ == "__main__":
    main()
