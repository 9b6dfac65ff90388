"""The card of the built-in encoder `english`, from what its runs and scores wrote.

    python benchmarks/english_card.py --work runs/english --scores english.json --glue runs/glue/glue.json \
        --set "CoNLL-2003, F1 on testb=86.0" --out src/qkv/pretrained/english/README.md

`--scores` is the file of `english.py score`, `--glue` that of `qkv glue`; `--set` adds another score. The text of the
card is in english-card.md.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

CARD = Path(__file__).with_name("english-card.md")


def stage(folder: Path) -> str:
    """Return the steps, time and energy of a run in words."""
    steps = [json.loads(line)["step"] for line in (folder / "metrics.jsonl").read_text("utf-8").splitlines()][-1]
    energy = json.loads((folder / "energy.json").read_text("utf-8"))
    joules = sum(energy["joules"].values()) / 1000
    sources = ", ".join(f"{part} {source}" for part, source in energy["sources"].items())
    return f"{steps:,} steps in {energy['seconds']:,.0f} s, {joules:,.0f} kJ ({sources})"


def tuned(file: Path | None, more: list[str]) -> str:
    """Return the table of scores after fine-tuning."""
    rows = []
    if file is not None:
        for task, metrics in json.loads(file.read_text("utf-8"))["scores"].items():
            seeds = list(metrics.values())
            means = {name: 100 * statistics.fmean(seed[name] for seed in seeds) for name in seeds[0]}
            rows.append((f"{task}, {' / '.join(means)} on dev", " / ".join(f"{value:.1f}" for value in means.values())))
    rows += [tuple(pair.rsplit("=", 1)) for pair in more]
    if not rows:
        return "Not measured yet: `qkv glue GLUE` does it."
    lines = [f"| {name} | {value} |" for name, value in rows]
    return "\n".join(["| task, with the recipe as it is | score |", "| --- | --- |", *lines])


def card(args: argparse.Namespace) -> str:
    folder = args.out.parent
    config: dict[str, Any] = json.loads((folder / "config.json").read_text("utf-8"))
    (scores,) = json.loads(args.scores.read_text("utf-8")).values()
    shown = [f"| {text} | {', '.join(words)} |" for text, words in scores["fill"].items()]
    return CARD.read_text("utf-8").format(
        layers=config["num_hidden_layers"],
        dim=config["hidden_size"],
        vocab=config["vocab_size"],
        weights=(folder / "model.safetensors").stat().st_size / 2e6,
        size=sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and file != args.out) / 1e6,
        electra=stage(args.work / "electra"),
        sentences=stage(args.work / "sentences"),
        dev=100 * scores["sts-b"]["dev"]["spearman"],
        test=100 * scores["sts-b"]["test"]["spearman"],
        tuned=tuned(args.glue, args.set),
        fill="\n".join(shown),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("runs/english"))
    parser.add_argument("--scores", type=Path, required=True, help="the file of `english.py score`")
    parser.add_argument("--glue", type=Path, help="the glue.json of `qkv glue`")
    parser.add_argument("--set", nargs="*", default=[], help="NAME=VALUE of a score")
    parser.add_argument("--out", type=Path, required=True, help="README.md in the packed folder")
    args = parser.parse_args()
    args.out.write_text(card(args), "utf-8")
    print(args.out)


if __name__ == "__main__":
    main()
