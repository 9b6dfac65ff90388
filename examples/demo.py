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
    seen = model.look(SHOWN)
    console.print("\nWhat each French token (row) attends to in the English sentence:")
    console.print(seen.heatmap(layer=-1))
    console.print(f"The same as an SVG: {seen.save(RUN / 'attention.svg', layer=-1)}")
    console.print(f"Every layer and head, on a page: {seen.save(RUN / 'look.html')}")


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
    console.print(f"  {command} look {RUN} 'We sold the old house.' --html look.html", soft_wrap=True)
    console.print(f"  {command} info {RUN}", soft_wrap=True)
    console.print(f"  {command} serve {RUN}   # then open the address it prints in a browser", soft_wrap=True)
    console.print(f"  {command} train translate --set data.train=[your.en,your.fr]", soft_wrap=True, markup=False)


if __name__ == "__main__":
    main()
