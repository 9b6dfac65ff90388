"""A student of a translator: BLEU, speed and size of teacher and students on one table, on the CPU.

    qkv train translate --set data.train=[M30K/train.en.gz,M30K/train.de.gz] \
        data.valid=[M30K/val.en.gz,M30K/val.de.gz] train.seed=1 out=runs/teacher
    qkv distill runs/teacher --sequences --out runs/student
    python benchmarks/translation_students.py --teacher runs/teacher --student runs/student --threads 2 --rounds 7 \
        --test M30K/test_2016_flickr.en.gz M30K/test_2016_flickr.de.gz

quantises teacher and students, and compares all with the teacher in `transformers`, with a beam of 4 and greedily: BLEU
on the test set, and sentences a second from text to text, 32 at a time and one by one.

Each side is a process of its own that waits without using the CPU while another one runs. A round asks each side in
turn; the table has medians over rounds. For BLEU, transformers gets batches sorted by length; qkv sorts by itself.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cpu_sides import ask, started
from encode_cpu import BATCH
from students import add_timing, ratio, size

Translate = Callable[[list[str], int], list[str]]
SPEEDS = [(4, "batched"), (1, "batched"), (4, "one"), (1, "one")]  # the beam, and how many texts at a time


def read(file: Path) -> list[str]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        return [line.strip() for line in lines]


def batched(items: list[Any], count: int) -> list[list[Any]]:
    return [items[at : at + count] for at in range(0, len(items), count)]


def sides(args: argparse.Namespace) -> dict[str, tuple[str, Path]]:
    """Return the library and the folder of each side; the first one is what the others are compared with."""
    found = {"teacher, transformers, float32": ("transformers", args.teacher)}
    for folder in (args.teacher, *args.student):
        name = "teacher" if folder == args.teacher else folder.name
        found |= {f"{name}, qkv, float32": ("qkv", folder), f"{name}, qkv, int8": ("qkv", int8(folder, args))}
    return found


def int8(folder: Path, args: argparse.Namespace) -> Path:
    found: Path = args.work / f"{folder.name}-int8"
    return found


def make(args: argparse.Namespace) -> None:
    """Quantise what is not there yet."""
    for folder in (args.teacher, *args.student):
        if not (small := int8(folder, args)).exists():
            command = [sys.executable, "-m", "qkv", "quantize", str(folder), str(small)]
            subprocess.run(command, check=True, stdout=sys.stderr)


def by_qkv(folder: Path) -> Translate:
    import qkv

    model = qkv.load(folder, device="cpu")
    return lambda texts, beam: model.translate(texts, beam=beam)


def by_transformers(folder: Path) -> Translate:
    import torch
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    model, tokenizer = (
        AutoModelForSeq2SeqLM.from_pretrained(folder).float().eval(),
        AutoTokenizer.from_pretrained(folder),
    )

    def translate(texts: list[str], beam: int) -> list[str]:
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        found: dict[int, str] = {}
        for some in batched(order, BATCH):
            given = tokenizer([texts[i] for i in some], padding=True, return_tensors="pt")
            given.pop("token_type_ids", None)
            longest = 2 * given["input_ids"].shape[1] + 20  # qkv's limit
            with torch.inference_mode():
                said = model.generate(**given, num_beams=beam, do_sample=False, max_length=longest)
            found |= dict(zip(some, tokenizer.batch_decode(said, skip_special_tokens=True), strict=True))
        return [found[i] for i in range(len(texts))]

    return translate


def worker(side: str, args: argparse.Namespace) -> None:
    """Answer each line of standard input: "BLEU 4", "batched 4" or "one 4", and the same with another beam."""
    import sacrebleu
    import torch

    torch.set_num_threads(args.threads)
    sources, references = map(read, args.test)
    library, folder = sides(args)[side]
    translate = {"qkv": by_qkv, "transformers": by_transformers}[library](folder)
    some = sources[:: max(1, len(sources) // args.count)][: args.count]
    translate(some[:BATCH], 4)
    for what, beam in ((line.split()[0], int(line.split()[1])) for line in sys.stdin):
        if what == "BLEU":
            print(sacrebleu.corpus_bleu(translate(sources, beam), [references]).score, flush=True)
            continue
        texts = some if what == "batched" else some[: args.singles]
        groups = batched(texts, BATCH if what == "batched" else 1)
        begin = time.perf_counter()
        for group in groups:
            translate(group, beam)
        print(len(texts) / (time.perf_counter() - begin), flush=True)


def measure(args: argparse.Namespace, processes: dict[str, subprocess.Popen[str]]) -> None:
    bleu = {side: [ask(process, f"BLEU {beam}") for beam in (4, 1)] for side, process in processes.items()}
    able = [side for side, found in bleu.items() if None not in found]
    rates: dict[str, list[list[float]]] = {side: [[] for _ in SPEEDS] for side in able}
    for _ in range(args.rounds):
        for side, found in rates.items():
            for number, (beam, what) in enumerate(SPEEDS):
                found[number].append(ask(processes[side], f"{what} {beam}") or 0.0)
    medians = {side: list(map(statistics.median, found)) for side, found in rates.items()}
    print("| sentences/s | BLEU, beam 4 | greedy | 32, beam 4 | times | 32, greedy | times | 1, beam 4 | times | 1, "
          "greedy | times | MB |")  # fmt: skip
    print(f"| --- |{' ---: |' * 11}")
    first = next(iter(medians.values()), [])
    for side, speeds in medians.items():
        pairs = zip(speeds, first, strict=True)
        cells = [f"{value:.2f}" for value in bleu[side] if value is not None]
        cells += [cell for speed, base in pairs for cell in (f"{speed:,.1f}", ratio(speed, base))]
        print(f"| {' | '.join([side, *cells, f'{size(sides(args)[side][1]):.1f}'])} |")
    if missing := [side for side in processes if side not in able]:
        print(f"did not start: {', '.join(missing)}")
    print(json.dumps({"bleu": bleu, "rates": rates, "threads": args.threads}))


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--teacher", type=Path, required=True, help="the folder of a translator")
    parser.add_argument("--student", type=Path, nargs="+", required=True, help="the folders of its students")
    parser.add_argument("--test", type=Path, nargs=2, required=True, metavar=("SOURCES", "REFERENCES"))
    parser.add_argument("--work", type=Path, default=Path("runs/students"), help="for the int8 folders")
    add_timing(parser, singles=32)
    return parser


def main() -> None:
    args: Any = options().parse_args()
    if args.side:
        worker(args.side, args)
        return
    make(args)
    with started(__file__, sides(args), args.threads) as processes:
        measure(args, processes)


if __name__ == "__main__":
    main()
