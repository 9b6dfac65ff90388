"""Is the data loader a bottleneck? Compares training steps with the loader and on one repeated batch.

    python benchmarks/loader_limit.py                                   # one GPU: BERT-base, 32,768 tokens per step
    python benchmarks/loader_limit.py --preset bert-mini --tokens 2048  # two CPU cores

The text comes from the built-in phrasebook. Every batch is packed and masked when it is needed, as in
`qkv train pretrain-bert`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from recipe_run import run_of

from qkv.data.phrasebook import phrasebook
from qkv.training.loop import one_step, recorder_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="bert-base")
    parser.add_argument("--tokens", type=int, default=32_768)
    parser.add_argument("--sentences", type=int, default=100_000)
    parser.add_argument("--document", type=int, default=30, help="sentences per document, about 8 tokens each")
    parser.add_argument("--steps", type=int, default=20, help="steps per round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--compile", default="yes" if torch.cuda.is_available() else "no", help="see train.compile")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    folder = Path(tempfile.mkdtemp())
    text = folder / "text.txt"
    sentences = [english for english, _ in phrasebook(args.sentences, 1)]
    documents = [" ".join(sentences[i : i + args.document]) for i in range(0, len(sentences), args.document)]
    text.write_text("\n".join(documents) + "\n")
    changes = [
        f"data.train=[{text}]", f"model.preset={args.preset}", "optim.name=adamw", f"train.tokens={args.tokens}",
        f"train.workers={args.workers}", "tokenizer.vocab_size=4000", f"train.compile={args.compile}",
    ]  # fmt: skip
    run = run_of("pretrain-bert", changes, folder, device)
    recorder = recorder_of(run)
    loaded = run.job.batches(0)
    fixed = itertools.repeat(next(loaded))
    times: dict[str, list[float]] = {"loader": [], "one batch": []}

    def measure(batches: Iterator[tuple[Any, int]]) -> float:
        start = time.perf_counter()
        for _ in range(args.steps):
            one_step(run, batches, recorder)
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - start

    for side in (loaded, fixed):  # warm-up and compilation
        measure(side)
    for _ in range(args.rounds):
        for name, side in (("loader", loaded), ("one batch", fixed)):
            times[name].append(measure(side))
    tokens = args.tokens // 128 * 128 * args.steps
    rates = {name: tokens / statistics.median(found) for name, found in times.items()}
    for name, rate in rates.items():
        print(f"{name:<10} {rate:>12,.0f} tok/s")
    share = rates["loader"] / rates["one batch"]
    print(f"with the loader, the loop runs at {share:.1%} of its speed on one repeated batch")
    facts = {"torch": torch.__version__, "device": str(device), "arguments": {k: str(v) for k, v in vars(args).items()}}
    if args.out:
        args.out.write_text(json.dumps(facts | {"tokens_per_second": rates}, indent=2) + "\n")


if __name__ == "__main__":
    main()
