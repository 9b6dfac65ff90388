"""One training step of Transformer-base on ragged pairs: qkv and Hugging Face's Marian compared in one run.

    python benchmarks/translate_step.py --out step.json          # one GPU, bf16 autocast

Both sides use the same shape and number of parameters, the same pairs of at most 64 tokens, label smoothing 0.1, hidden
dropout 0.1, no attention dropout, and one fused AdamW step per round. qkv runs as in a recipe: one ragged row, with the
step compiled and captured as a CUDA graph. Marian takes one padded batch; when compiled, padded to one static shape.
Rates count real source and target tokens. The sides take turns; each figure is the median over the rounds.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from qkv.checkpoints.folder import config_json
from qkv.common.batch import Pairs, Tokens, Translated
from qkv.models import catalogue
from qkv.objectives.translate import Translate
from qkv.training.config import TrainConfig
from qkv.training.loop import one_step, recorder_of
from qkv.training.optim import OptimConfig
from qkv.training.run import Job, Run

Pair = tuple[list[int], list[int]]
Data = list[list[Pair]]
Step = Callable[[int], None]  # runs the batch with this number; batches are made on the host in advance


def pairs(number: int, longest: int, vocabulary: int, seed: int) -> list[Pair]:
    """Draw log-normal lengths with a median of a third of the longest; the two sides differ by about a fifth."""
    draw = torch.Generator().manual_seed(seed)

    def ids(median: float, spread: float) -> list[int]:
        length = int(math.exp(torch.randn((), generator=draw).item() * spread) * median)
        return torch.randint(100, vocabulary, (min(max(length, 4), longest),), generator=draw).tolist()

    found = []
    for _ in range(number):
        source = ids(longest / 3, 0.5)
        found.append((source, ids(len(source), 0.2)))
    return found


def batch_of(rows: list[Pair]) -> Translated:
    source, target = Tokens.of([a for a, _ in rows]), Tokens.of([b for _, b in rows])
    read = Tokens(target.ids.roll(1), target.layout)
    return Translated(Pairs(source, read), target.ids)


def ours(data: Data, compile: str) -> tuple[Step, int]:
    config = catalogue.preset("transformer-base", attention_dropout=0.0)
    model = catalogue.build(config).cuda().train()
    made = [batch_of(rows) for rows in data]
    asked: list[int] = []

    def batches(position: int) -> Iterator[tuple[Any, int]]:
        while True:
            yield made[asked.pop() if asked else position % len(made)], position + 1
            position += 1

    job = Job(model, Translate(smoothing=0.1), batches, 10**9, Path(), None, lambda *_: None, print)
    run = Run(job, TrainConfig(compile=compile), OptimConfig(lr=1e-4, clip=0.0, warmup=0, schedule="constant"))
    stream, recorder = job.batches(0), recorder_of(run)

    def step(number: int) -> None:
        asked.append(number)
        one_step(run, stream, recorder)

    return step, sum(p.numel() for p in model.parameters())


def theirs(args: argparse.Namespace, data: Data, compiled: bool) -> tuple[Step, int]:
    import transformers as hf

    config = catalogue.preset("transformer-base", attention_dropout=0.0)
    raw = {k: v for k, v in config_json(config).items() if k not in ("model_type", "architectures", "dtype")}
    model = hf.MarianMTModel(hf.MarianConfig(**raw)).cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def loss(source: torch.Tensor, mask: torch.Tensor, target: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            logits = model(input_ids=source, attention_mask=mask, decoder_input_ids=target).logits
        return F.cross_entropy(logits.float().flatten(0, 1), wanted.flatten(), label_smoothing=0.1)

    run = torch.compile(loss, dynamic=False) if compiled else loss

    def padded(rows: list[list[int]], fill: int) -> torch.Tensor:
        width = args.longest if compiled else max(map(len, rows))
        return torch.tensor([row + [fill] * (width - len(row)) for row in rows])

    made = []
    for rows in data:
        source, wanted = padded([a for a, _ in rows], 0), padded([b for _, b in rows], -100)
        made.append([x.pin_memory() for x in (source, (source != 0).long(), wanted.roll(1, 1).clamp_min(0), wanted)])

    def step(number: int) -> None:
        run(*(x.cuda(non_blocking=True) for x in made[number])).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step, sum(p.numel() for p in model.parameters())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=1024, help="pairs per step")
    parser.add_argument("--longest", type=int, default=64)
    parser.add_argument(
        "--seeds", type=int, default=8, help="number of different batches, all of them seen in the warm-up"
    )
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    data = [pairs(args.pairs, args.longest, 37_000, seed) for seed in range(args.seeds)]
    sides = {
        "qkv": ours(data, "yes"),
        "qkv, not compiled": ours(data, "record"),
        "hf eager": theirs(args, data, compiled=False),
        "hf compiled": theirs(args, data, compiled=True),
    }
    tokens = [sum(len(a) + len(b) for a, b in rows) for rows in data]
    rates: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(args.seeds + args.rounds):
        for name, (step, _) in sides.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            step(number % args.seeds)
            torch.cuda.synchronize()
            if number >= args.seeds:
                rates[name].append(tokens[number % args.seeds] / (time.perf_counter() - start))
    medians = {name: statistics.median(found) for name, found in rates.items()}
    print(f"{args.pairs} pairs, {statistics.mean(tokens):,.0f} real tokens per step")
    for name, rate in medians.items():
        print(f"{name:<20}{rate:>12,.0f} tok/s   qkv is {medians['qkv'] / rate:.2f} x")
    import transformers

    facts = {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "device": torch.cuda.get_device_name(),
        "arguments": {k: str(v) for k, v in vars(args).items()},
        "parameters": {name: weights for name, (_, weights) in sides.items()},
        "tokens_per_second": medians,
    }
    print(json.dumps(facts))
    if args.out:
        args.out.write_text(json.dumps(facts, indent=2) + "\n")


if __name__ == "__main__":
    main()
