"""Where the time of a training step goes on a GPU: its kernels, by kind and one by one.

    python benchmarks/step_profile.py pretrain-gpt --set data.train=text.txt data.unit=blank data.max_length=1024 \
        optim.name=adamw train.tokens=32768 tokenizer.vocab_size=50257
    python benchmarks/step_profile.py image --set data.train=train-images-idx3-ubyte.gz --compile no

A recipe and its changes, as `qkv train` takes them. Steps are launched kernel by kernel, so the profiler sees their
names; `idle` is the time between kernels, which recorded steps do not have. Use `--cache` to keep the tokenised text.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import torch
from recipe_run import run_of
from torch.profiler import ProfilerActivity, profile

from qkv.training.loop import one_step

WARM, STEPS = 4, 4
KINDS = {  # the first that a kernel's name matches
    "attention": "flash|fmha|attend|_attention",
    "loss": "_entropy|_distance",
    "optimizer": "adam|multi_tensor|muon|lerp",
    "convolutions": "conv|cudnn|implicit",
    "matrix products": "gemm|nvjet|cutlass|cublas|_mm",
    "copies": "memcpy|memset|copy",
    "other": "",
}


def kind_of(name: str) -> str:
    return next(kind for kind, pattern in KINDS.items() if re.search(pattern, name, re.IGNORECASE))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="changes to the recipe")
    parser.add_argument("--compile", default="yes", choices=["yes", "no"])
    parser.add_argument("--cache", type=Path, help="where to keep the tokenised text")
    parser.add_argument("--top", type=int, default=25, help="kernels to list")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("this needs a GPU: on a CPU, torch.profiler has no kernels to show")
    changes = [*args.set, f"train.compile={args.compile}", *([f"data.cache={args.cache}"] if args.cache else [])]
    with tempfile.TemporaryDirectory() as place:
        run = run_of(args.recipe, changes, Path(place), torch.device("cuda"))
        batches, amount = run.job.batches(0), 0
        for _ in range(WARM):
            one_step(run, batches)
        torch.cuda.synchronize()
        start = time.perf_counter()
        with profile(activities=[ProfilerActivity.CUDA]) as found:
            for _ in range(STEPS):
                amount += one_step(run, batches).size
            torch.cuda.synchronize()
        passed = (time.perf_counter() - start) * 1e3 / STEPS
        kernels = [(e.key, e.device_time_total / 1e3 / STEPS, e.count // STEPS) for e in found.key_averages()]
    busy = sum(ms for _, ms, _ in kernels)
    by_kind: dict[str, float] = defaultdict(float)
    for name, ms, _ in kernels:
        by_kind[kind_of(name)] += ms
    print(f"{passed:.1f} ms a step, {amount / STEPS / busy * 1e3:,.0f} a second if the GPU never waited")
    for kind, ms in sorted({**by_kind, "idle": max(0.0, passed - busy)}.items(), key=lambda pair: -pair[1]):
        print(f"{ms:9.2f} ms  {kind}")
    print()
    for name, ms, count in sorted(kernels, key=lambda kernel: -kernel[1])[: args.top]:
        print(f"{ms:9.3f} ms  {count:5d} x  {name[:140]}")


if __name__ == "__main__":
    main()
