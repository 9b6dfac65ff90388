"""How fast the real training loop is: tokens per second of `qkv train`, with its loader, optimizer and logging.

    python benchmarks/loop_rates.py --text text.txt --work runs/rates                      # all cases
    python benchmarks/loop_rates.py --text text.txt --work runs/rates --cases gpt2 bert-base --modes yes

Each case is a recipe with a batch of 32,768 tokens, AdamW and dropout 0.1. The rate is the median of
`tokens_per_second` in metrics.jsonl, without the first third of the steps; T5's counts source and target tokens.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

from qkv.training.logging import read_metrics

COMMON = ["optim.name=adamw", "train.tokens=32768", "train.validate_every=1e9", "train.save_every=1e9"]
T5 = ["pretrain-t5", "data.max_length=512", "tokenizer.vocab_size=8000"]
CASES = {
    "gpt2": [
        "pretrain-gpt", "model.preset=gpt2", "data.max_length=1024", "tokenizer.vocab_size=50257",
        "model.set={dropout=0.1,attention_dropout=0.1}", "train.keep_best=false",
    ],
    "bert-base": [
        "pretrain-bert", "model.preset=bert-base", "data.max_length=128", "data.short=0",
        "model.set={dropout=0.1,attention_dropout=0.1}",
    ],
    "t5": [*T5, "model.set={dropout=0.1}"],
    "t5-rotary": [*T5, 'model.set={dropout=0.1,position={name="rotary"}}'],
}  # fmt: skip


def command(case: str, mode: str, args: argparse.Namespace) -> list[str]:
    """Return the command of a case; all modes of a recipe share its tokenised text."""
    recipe, *changes = CASES[case]
    paths = [f"data.train={args.text}", f"data.cache={args.work / recipe}", f"out={args.work / f'{case}-{mode}'}"]
    steps = [f"train.steps={args.steps}", f"train.log_every={max(1, args.steps // 12)}", f"train.compile={mode}"]
    changes = [*COMMON, "data.unit=blank", *changes, *paths, *steps, *args.set]
    return [sys.executable, "-m", "qkv", "train", recipe, "--set", *changes]


def rate(folder: Path, steps: int) -> float:
    """Return the median rate after the first third of the steps."""
    rates = [
        line["tokens_per_second"] for line in read_metrics(folder)
        if "tokens_per_second" in line and line["step"] > steps / 3
    ]  # fmt: skip
    return statistics.median(rates)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", required=True, help="plain text with empty lines between documents")
    parser.add_argument("--work", type=Path, required=True, help="a folder for the runs")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--modes", nargs="+", choices=["no", "record", "yes"], default=["no", "record", "yes"])
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="changes to all recipes")
    parser.add_argument("--out", type=Path, help="write the rates as JSON")
    args = parser.parse_args()
    found: dict[str, float] = {}
    for case in args.cases:
        for mode in args.modes:
            done = subprocess.run(command(case, mode, args), capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"{case} {mode}: {done.stderr[-2000:]}")
                continue
            found[f"{case} {mode}"] = rate(args.work / f"{case}-{mode}", args.steps)
            print(f"{case:<12}{mode:<8}{found[f'{case} {mode}']:>12,.0f} tok/s", flush=True)
    if args.out:
        args.out.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
