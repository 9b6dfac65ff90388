"""Is the loader of images a bottleneck? Images per second of the loader, of augmentation, and of training steps.

    python benchmarks/images.py                            # digits: 28 x 28, grey, as in MNIST
    python benchmarks/images.py --shape 3 32 32            # as in CIFAR-10
    python benchmarks/images.py --data cifar10-train.npz --set train.tokens=256

The recipe is `image` with the values of its rules; pixels are random unless you give data. "loader" is what the threads
of the loader deliver with nothing else to do; "one batch" trains on one batch again and again; "training" is the real
loop, with both. Where "training" is as fast as "one batch", the loader is not the limit.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from recipe_run import run_of

from qkv.common.batch import move
from qkv.training.loop import one_step, recorder_of
from qkv.training.run import Run


def random_images(folder: Path, shape: list[int], count: int) -> str:
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (count, *shape[1:], shape[0]), dtype=np.uint8)
    np.savez(folder / "images.npz", images=images, labels=np.arange(count) % 10)
    return str(folder / "images.npz")


def rates(run: Run, steps: int, rounds: int) -> dict[str, list[float]]:
    """Measure each part in turn, so that a busy machine disturbs all of them alike."""
    device, objective, recorder = run.device, run.job.objective, recorder_of(run)
    loaded, fixed = run.job.batches(0), itertools.repeat(next(run.job.batches(0)))
    inputs = move(next(fixed)[0], device).inputs
    fill = torch.zeros(1, device=device)
    parts: dict[str, Callable[[], object]] = {
        "loader": lambda: next(loaded),
        "augmentation": lambda: objective.settings.augment(inputs.pixels.float(), inputs.draws, fill),
        "one batch": lambda: one_step(run, fixed, recorder),
        "training": lambda: one_step(run, loaded, recorder),
    }
    found: dict[str, list[float]] = {name: [] for name in parts}
    for turn, (name, part) in itertools.product(range(rounds + 1), parts.items()):
        start = time.perf_counter()
        for _ in range(steps):
            part()
        if device.type == "cuda":
            torch.cuda.synchronize()
        if turn:  # the first round warms up
            found[name].append(steps * len(inputs.pixels) / (time.perf_counter() - start))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="an npz file, an IDX file or a folder with one folder per class")
    parser.add_argument("--shape", type=int, nargs=3, default=[1, 28, 28], metavar=("C", "H", "W"))
    parser.add_argument("--images", type=int, default=6000, help="random images, if you give no data")
    parser.add_argument("--steps", type=int, default=10, help="steps of a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="changes to the recipe")
    parser.add_argument("--out", type=Path, help="write the numbers as JSON")
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with tempfile.TemporaryDirectory() as place:
        data = args.data or random_images(Path(place), args.shape, args.images)
        run = run_of("image", [f"data.train={json.dumps(data)}", *args.set], Path(place), device)
        found = rates(run, args.steps, args.rounds)
    for name, values in found.items():
        print(f"{name:<14}{statistics.median(values):>12,.0f} img/s   ({min(values):,.0f} to {max(values):,.0f})")
    if args.out:
        args.out.write_text(json.dumps({"device": str(device), "images_per_second": found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
