"""Recipes as they come, on many data sets at many sizes: what a stranger gets by typing a recipe's name and a path.

    python benchmarks/defaults.py pack --data ../shared/data --out carry/defaults
    python benchmarks/defaults.py run --packed carry/defaults --jobs 12 --out ours.jsonl
    python benchmarks/defaults.py run --packed carry/defaults --jobs 12 --out tried.jsonl --try "optim.lr=2e-4"
    python benchmarks/defaults.py peers --packed carry/defaults --jobs 12 --ours ours.jsonl --out peers.jsonl
    python benchmarks/defaults.py table tried.jsonl peers.jsonl ours.jsonl --out defaults.md

`pack` writes small files (text 10 MB, translation 10 MB, MiniLM in float16 46 MB), so that they can travel to another
machine. `run` trains each cell with nothing set but paths and the seed, and scores it on the test set. `--try` runs
the same cells with other settings, and "recipe=NAME" among them names another recipe. `peers` runs a plain loop with
`transformers` from MiniLM, with three learning rates and the epochs of our runs, and a bag of words. `table` compares:
in each cell, the recipe of the last file that has it is ours, and everything else in the files counts as a known
setting. The learning rate of `transformers` and the best known setting are the best on the test set, which favours
them.

Each finished run is one line of JSON, written at once. Runs in --out or --done are skipped, so you can interrupt a
benchmark and go on. Set TMPDIR to a fast disk: a run needs about 1 GB there until it is scored.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported, here and in the workers

from defaults_cells import Cell, find_cells
from defaults_run import OWN, Found, Job, left_to_do, read_lines, run_all
from defaults_table import table

from qkv.common.errors import QkvError

STARTS = ("minilm", "english", "scratch")
RATES = ("lr=2e-5", "lr=5e-5", "lr=2e-4")  # of the plain loop
SIDES = ("hf", "bow")
EPOCHS = 3  # of the plain loop in a cell that we have not run


def cells_of(args: argparse.Namespace) -> list[Cell]:
    """Return the packed cells whose names match one of the patterns."""
    found = find_cells(args.packed)
    chosen = [cell for cell in found if any(fnmatchcase(cell.name, pattern) for pattern in args.cells.split(","))]
    if not chosen:
        names = ", ".join(cell.name for cell in found)
        raise SystemExit(f"{args.packed} has no cell {args.cells}" + (f" (it has {names})" if names else ": run pack"))
    return chosen


def our_jobs(args: argparse.Namespace) -> list[Job]:
    """List our runs, seed by seed, so that an interrupted benchmark has results for every cell."""
    from qkv.predict.loading import PRETRAINED

    starts, there = [], {"minilm": args.minilm / "config.json", "english": PRETRAINED / "english" / "config.json"}
    for start in among(args.starts, STARTS, "--starts"):
        if start in there and not there[start].is_file():
            print(f"skipping the start {start}: there is no {there[start]}")
        else:
            starts.append(start)
    return [
        Job(
            cell=cell, side="qkv", start=start, seed=seed, setting=setting, device=args.device, tested=args.tested,
            checkpoints=args.checkpoints,
        )
        for seed in args.seeds for cell in cells_of(args) for setting in args.tried or [OWN]
        for start in (["scratch"] if cell.set.recipe == "translate" else starts)
    ]  # fmt: skip


def peer_jobs(args: argparse.Namespace) -> list[Job]:
    """List the runs of the peers. A bag of words has no random numbers, so that one seed is enough."""
    epochs = {
        run["cell"]: run["epochs"] for run in read_lines(args.ours)
        if "failed" not in run and (run["side"], run["setting"], run["start"]) == ("qkv", OWN, "minilm")
    }  # fmt: skip
    jobs, sides = [], among(args.sides, SIDES, "--sides")
    for cell in cells_of(args):
        common: dict[str, Any] = {"cell": cell, "device": args.device, "tested": args.tested}
        if "hf" in sides and cell.set.recipe != "translate":
            common |= {"side": "hf", "start": "minilm", "epochs": epochs.get(cell.name, EPOCHS)}
            jobs += [Job(**common, seed=seed, setting=rate) for seed in args.seeds for rate in RATES]
        if "bow" in sides and cell.set.recipe not in ("translate", "answer"):
            jobs.append(Job(**common | {"side": "bow", "start": ""}, seed=0, setting="tf-idf"))
    return jobs


def work_through(jobs: list[Job], args: argparse.Namespace) -> None:
    """Run the jobs that have no result yet and append each result to --out."""
    import torch

    left = left_to_do(jobs, read_lines([file for file in (args.out, *args.done) if file.is_file()]))
    print(f"{len(left)} of {len(jobs)} runs to do", flush=True)
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    facts = {"torch": torch.__version__, "device": where, "jobs": args.jobs}
    args.out.parent.mkdir(parents=True, exist_ok=True)

    def record(job: Job, found: Found) -> None:
        with args.out.open("a", encoding="utf-8") as out:
            out.write(json.dumps({**job.facts(), **found, **facts}) + "\n")
        print(*job.key, found.get("score", found.get("failed")), found.get("seconds", ""), flush=True)

    rest = run_all(left, count=args.jobs, seconds=args.time, minilm=args.minilm, record=record)
    if rest:
        print(f"{len(rest)} runs are not finished: run the same command again")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    packing = commands.add_parser("pack", help="write small files for all cells")
    packing.add_argument("--data", type=Path, required=True, help="the folder with sst/, glue/, imdb/, tatoeba/, ...")
    packing.add_argument("--out", type=Path, default=Path("carry/defaults"))
    packing.add_argument("--groups", default="text,translation,minilm")
    packing.add_argument("--model", type=Path, help="the folder of MiniLM")
    running, peers = commands.add_parser("run", help="our recipes"), commands.add_parser("peers", help="the others")
    for command in (running, peers):
        command.add_argument("--packed", type=Path, default=Path("carry/defaults"), help="where `pack` wrote")
        command.add_argument("--minilm", type=Path, help="the folder of MiniLM; by default in --packed")
        command.add_argument("--cells", default="*", help="patterns separated by commas, such as sst2/*,*/30")
        command.add_argument("--seeds", type=int, nargs="+", default=[1])
        command.add_argument("--jobs", type=int, default=1, help="parallel runs")
        command.add_argument("--time", type=float, default=86400, help="stop after this many seconds")
        command.add_argument("--out", type=Path, required=True, help="a file of results; a line is added for each run")
        command.add_argument("--done", type=Path, nargs="*", default=[], help="files of results to skip as well")
        command.add_argument("--device", help="cpu or cuda; by default CUDA if there is one")
        command.add_argument("--tested", type=int, help="use only this many test examples, to try the script")
    running.add_argument("--starts", default="minilm,english,scratch")
    running.add_argument("--try", dest="tried", action="append", default=[], help='"optim.lr=2e-4 train.epochs=5"')
    running.add_argument("--checkpoints", action="store_true", help="save them even if they change nothing")
    peers.add_argument("--sides", default="hf,bow")
    peers.add_argument("--ours", type=Path, nargs="*", default=[], help="our results, for the number of epochs")
    showing = commands.add_parser("table", help="compare results")
    showing.add_argument("files", type=Path, nargs="+", help="files of results; the last recipe in a cell is ours")
    showing.add_argument("--out", type=Path, help="also write the table to this file")
    return parser.parse_args()


def among(given: str, allowed: Sequence[str], option: str) -> list[str]:
    """Split a list of names and check them."""
    names = given.split(",")
    if strange := [name for name in names if name not in allowed]:
        raise SystemExit(f"{option} takes {', '.join(allowed)}, got {', '.join(strange)}")
    return names


def main() -> None:
    try:
        act(parse())
    except (QkvError, OSError) as error:
        raise SystemExit(str(error)) from None


def act(args: argparse.Namespace) -> None:
    if args.command == "pack":
        from defaults_pack import GROUPS, pack

        pack(args.data, args.out, among(args.groups, GROUPS, "--groups"), args.model)
    elif args.command == "table":
        text = table(read_lines(args.files))
        print(text)
        if args.out:
            args.out.write_text(text, "utf-8")
    else:
        args.minilm = args.minilm or args.packed / "minilm"
        work_through(our_jobs(args) if args.command == "run" else peer_jobs(args), args)


if __name__ == "__main__":
    main()
