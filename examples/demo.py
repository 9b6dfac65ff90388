"""What `make demo` runs: train a translator from scratch, score it, translate, and show its attention."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

import qkv
from qkv.common.batch import Pairs, Tokens
from qkv.insight.capture import capture
from qkv.insight.svg import save
from qkv.insight.terminal import heatmap

RUN = Path("runs/phrasebook")
SENTENCES = [
    "The small cat does not see the red apple.",
    "My sister is going to buy two green chairs.",
    "We found a goose and we sold it.",
    "Does your friend like the old houses?",
]
SHOWN = "The small cat does not see the red apple."
console = Console()


def train() -> None:
    """Train the model, or resume a stopped run. If the run is finished, do nothing."""
    if (RUN / "model.safetensors").is_file():
        console.print(f"{RUN} is already trained (remove it to train again).")
        return
    resume = ["--resume"] if (RUN / "recipe.toml").is_file() else []
    start = time.perf_counter()
    command = [sys.executable, "-m", "qkv", "train", "phrasebook", *resume, "--set", "data.test=[]"]  # scored below
    if subprocess.run(command, check=False).returncode:
        sys.exit("training failed; see the line above")
    console.print(f"Trained in {time.perf_counter() - start:.0f} seconds.")


def score() -> None:
    """Print BLEU on the held-out sentences."""
    console.print("\nOn 1,000 unseen sentences:")
    subprocess.run([sys.executable, "-m", "qkv", "evaluate", str(RUN), "phrasebook:test"], check=True)


def translate(model: qkv.Model) -> None:
    """Translate some new sentences."""
    table = Table("English", "French", title="New sentences")
    for english, french in zip(SENTENCES, model.translate(SENTENCES), strict=True):
        table.add_row(english, french)
    console.print(table)


def show_attention(model: qkv.Model) -> None:
    """Show which English tokens each French token attends to, in the last layer of the decoder."""
    assert model.tokenizer is not None
    french = model.translate([SHOWN])
    source, target = model.tokenizer.encode([SHOWN]).ids[0], model.tokenizer.encode(french).ids[0]
    read = [model.config.start_id, *target[:-1]]
    with capture(model.module) as found:
        model.module(Pairs(Tokens.of([source], device=model.device), Tokens.of([read], device=model.device)))
    name = max(name for name in found.weights() if "cross" in name)
    weights = found.weights()[name][0].mean(0)  # over the heads
    rows, columns = ([model.tokenizer.token_of(i) or "" for i in ids] for ids in (target, source))
    console.print(f"\nWhat each French token (row) attends to in the English sentence ({name}):")
    console.print(heatmap(weights, rows, columns))
    save(RUN / "attention.svg", weights, rows, columns, title=SHOWN)
    console.print(f"The same as an SVG: {RUN / 'attention.svg'}")


def main() -> None:
    """Run the demo."""
    train()
    score()
    model = qkv.load(RUN)
    translate(model)
    show_attention(model)
    command = shutil.which("qkv", path=str(Path(sys.executable).parent)) or f"{sys.executable} -m qkv"
    console.print("\nNow try:")
    console.print(f"  {command} translate {RUN} 'The old man has lost his keys.'", soft_wrap=True)
    console.print(f"  {command} info {RUN}", soft_wrap=True)
    console.print(f"  {command} train translate --set data.train=[your.en,your.fr]", soft_wrap=True, markup=False)


if __name__ == "__main__":
    main()
