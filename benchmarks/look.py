"""What looking at a text costs beside a forward pass of the same model: python benchmarks/look.py [--device cuda].

Both sides run in turn; the figures are medians over the rounds. "maps" is every matrix of every layer and head, "page"
the whole HTML file.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

import qkv
from qkv.common.batch import Tokens

WORDS = ["the", "a", "small", "old", "dog", "cat", "bird", "man", "sees", "chases", "and", "likes", "another", "."]


def model_of(preset: str, folder: Path, device: str) -> qkv.Model:
    """Build a preset with random weights and a small vocabulary of whole words."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    qkv.build(preset, heads=["mlm"], device=device).save(folder)
    (folder / "vocab.txt").write_text("\n".join([*special, *WORDS]), encoding="utf-8")
    return qkv.load(folder, device=device)


def seconds(act: Callable[[], object], device: str) -> float:
    """Time one call."""
    start = time.perf_counter()
    act()
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return time.perf_counter() - start


def main() -> None:
    """Measure and print a line for each act."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="bert-base")
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as place:
        model = model_of(given.preset, Path(place), given.device)
        picked = torch.randint(len(WORDS), (given.tokens - 2,)).tolist()
        text = " ".join(WORDS[number] for number in picked)
        batch = Tokens.of(model.encode([text]).ids, device=model.device)
        assert batch.ids.numel() == given.tokens
        seen = model.look(text)
        part = seen.part()
        acts: dict[str, Callable[[], object]] = {
            "forward": lambda: model.module.encoder_states(batch),
            "look": lambda: model.look(text),
            "maps": lambda: [part.weights(layer) for layer in range(part.num_layers)],
            "page": seen.html,
        }
        with torch.no_grad():
            model.module.encoder_states(batch)
            took = [{name: seconds(act, given.device) for name, act in acts.items()} for _ in range(given.rounds)]
    forward = statistics.median(one["forward"] for one in took)
    for name in acts:
        middle = statistics.median(one[name] for one in took)
        sys.stdout.write(f"{name:8} {1000 * middle:8.1f} ms  {middle / forward:5.2f} forward passes\n")
    whole = statistics.median((one["look"] + one["page"]) / one["forward"] for one in took)
    sys.stdout.write(f"look and page: {whole:.2f} forward passes, {torch.get_num_threads()} threads\n")


if __name__ == "__main__":
    main()
