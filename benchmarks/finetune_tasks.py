"""Fine-tuning MiniLM on common tasks: scores and times of qkv and Hugging Face `transformers`.

    python benchmarks/finetune_tasks.py --data ../shared/data --jobs 6 --out scores.json     # scores, in parallel
    python benchmarks/finetune_tasks.py --data ../shared/data --seeds 1 --out seconds.json   # times, one run at a time

Both sides use the same weights, examples and epochs, and are scored with qkv's metrics. `hf` is a plain loop with its
best settings; `trainer` is Hugging Face's Trainer (it needs accelerate). Settings are compared on dev. --grid tries
several learning rates for the sides you name. --try tries settings of qkv's recipe and can be repeated (`--try
"optim.lr=1e-4 train.tokens=768"`); the other sides use only its learning rate. Without either, a side uses the settings
of finetune_files.py. Each run has its own process. Runs that are already in --out are skipped, so you can continue an
interrupted benchmark.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import tempfile
import time
import traceback
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from finetune_files import GRID, TASKS, Bench, minilm_folder, write
from finetune_peer import theirs

SIDES = ("qkv", "hf", "trainer")
OWN = "own"  # the settings of finetune_files.py
NEVER = 1e9  # steps, so that the run validates and saves only at the end
Found = dict[str, Any]


def ours(bench: Bench, files: Path, minilm: Path, *, seed: int, changes: Found, epochs: float) -> Found:
    """Fine-tune with a recipe and score. Times include reading the files and the final validation and checkpoint."""
    from qkv import load
    from qkv.exams.evaluate import evaluate
    from qkv.recipes.schema import change, read_recipe
    from qkv.runs.run import run_recipe

    with tempfile.TemporaryDirectory(prefix="qkv-") as place:
        pair = {"data.second": "second"} if bench.columns.get("second") else {}
        named = {} if bench.kind in ("tag", "answer") else {"data.text": "text", "data.label": "label", **pair}
        given = {
            "model.init": str(minilm), "out": f"{place}/run", "data.train": [str(files / "train.jsonl")],
            "data.valid": [str(files / "dev.jsonl")], "data.max_length": bench.max_length, "train.seed": seed,
            "train.epochs": epochs, "train.validate_every": NEVER, "train.save_every": NEVER,
        }  # fmt: skip
        recipe = change(read_recipe(bench.recipe), {**given, **named, **bench.ours, **changes})
        start = time.perf_counter()
        outcome = run_recipe(recipe, say=lambda _: None)
        seconds = time.perf_counter() - start
        model, scores = load(recipe.out), {}
        for name in ("dev", "test")[bench.test == bench.dev :]:
            path = str(files / f"{name}.jsonl")
            found = [cosines(model, path)] if bench.kind == "embeddings" else evaluate(model, [path], recipe.data)
            scores[name] = {score.name: score.value for score in found}
    scores = {"dev": scores["test"], **scores}
    return {**scores, "seconds": seconds, "train_seconds": outcome.energy["seconds"], "steps": outcome.step}


def cosines(model: Any, path: str) -> Any:
    """Score the cosine similarities of a sentence-embedding model."""
    from qkv.data.labelled import rated
    from qkv.evaluation.correlation import Spearman

    examples, metric = list(rated([path], second="second")), Spearman()
    first, second = (model.embed([getattr(e, side) for e in examples], normalize=True) for side in ("text", "second"))
    for cosine, example in zip((first * second).sum(-1).tolist(), examples, strict=True):
        metric.add(cosine, example.score)
    return metric.result()


def one(key: str, files: str, minilm: str, epochs: float | None, threads: int) -> Found:
    """Run one key: task/side/seed/setting. A failure is recorded as a result, so that the other runs continue."""
    from qkv.recipes.schema import parse_change

    name, side, seed, setting = key.split("/")
    bench = TASKS[name]
    if threads:
        torch.set_num_threads(threads)
    changes = {} if setting == OWN else dict(parse_change(change) for change in setting.split())
    run: Any = partial(ours, changes=changes)
    if side != "qkv":
        run = partial(theirs, lr=changes.get("optim.lr", bench.lr), trainer=side == "trainer")
    try:
        return run(bench, Path(files) / name, Path(minilm), seed=int(seed), epochs=epochs or bench.epochs)
    except Exception as error:
        traceback.print_exc()
        return {"failed": f"{type(error).__name__}: {error}"}


def keys(args: argparse.Namespace, side: str) -> list[str]:
    """List the runs of a side, seed by seed, so that an interrupted benchmark has results for every task."""
    settings = [f"optim.lr={lr:g}" for lr in GRID] if side in args.grid else []
    settings += args.tried
    return [f"{task}/{side}/{seed}/{some}" for seed in args.seeds for task in args.tasks for some in settings or [OWN]]


def table(found: dict[str, Found], tasks: list[str]) -> str:
    """Format mean and standard deviation over seeds and the median seconds per run, best on dev first."""
    lines = [
        f"{'task':<12} {'side':<7} {'on dev':>6} {'score':<14} {'seeds':<5} {'seconds':>8} {'of training':>11} setting"
    ]
    for task in tasks:
        for side in SIDES:
            metric = TASKS[task].metric
            for setting, runs in _best_first(found, task, side):
                chosen, values = ([100 * run[part][metric] for run in runs] for part in ("dev", "test"))
                spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
                seconds, training = (statistics.median(run[k] for run in runs) for k in ("seconds", "train_seconds"))
                score = f"{statistics.fmean(values):.2f}{spread}"
                lines.append(
                    f"{task:<12} {side:<7} {statistics.fmean(chosen):>6.2f} {score:<14} {len(values):<5} "
                    f"{seconds:>8.1f} {training:>11.1f} {setting}"
                )
    return "\n".join(lines)


def _best_first(found: dict[str, Found], task: str, side: str) -> list[tuple[str, list[Found]]]:
    settings: dict[str, list[Found]] = {}
    for key, run in found.items():
        if key.startswith(f"{task}/{side}/") and "failed" not in run:
            settings.setdefault(key.split("/")[3], []).append(run)
    metric = TASKS[task].metric
    return sorted(settings.items(), key=lambda item: -statistics.fmean(run["dev"][metric] for run in item[1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder with glue/, sst/, imdb/, conll2003/, squad/")
    parser.add_argument("--model", type=Path, help="the folder of MiniLM")
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--sides", nargs="+", default=["qkv", "hf"], choices=SIDES)
    parser.add_argument(
        "--grid", nargs="*", default=[], choices=SIDES, help="sides whose learning rate is chosen on dev"
    )
    parser.add_argument(
        "--try", dest="tried", action="append", default=[], help="settings of qkv's recipe to try; can be repeated"
    )
    parser.add_argument("--epochs", type=float, help="the number of epochs, instead of each task's own")
    parser.add_argument("--limit", type=int, help="use only this many examples of each file")
    parser.add_argument("--jobs", type=int, default=1, help="parallel runs; with more than 1, times are not comparable")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads per run; 0 for torch's default")
    parser.add_argument("--out", type=Path, default=Path("finetune.json"))
    args = parser.parse_args()
    import transformers

    if "trainer" in args.sides and importlib.util.find_spec("accelerate") is None:
        print("skipping the side trainer, which needs the package accelerate")
        args.sides.remove("trainer")
    minilm, work = minilm_folder(args.model), Path(tempfile.mkdtemp(prefix="finetune-"))
    for task in args.tasks:
        write(TASKS[task], args.data, work / task, args.limit)
    kept = json.loads(args.out.read_text()) if args.out.is_file() else {"runs": {}}
    if any(kept.get(name, getattr(args, name)) != getattr(args, name) for name in ("limit", "epochs")):
        raise SystemExit(f"{args.out} has runs with a different --limit or --epochs: choose another --out")
    runs: dict[str, Found] = {key: run for key, run in kept["runs"].items() if "failed" not in run}
    facts = {
        "torch": torch.__version__, "transformers": transformers.__version__, "jobs": args.jobs, "limit": args.limit,
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu", "epochs": args.epochs,
    }  # fmt: skip
    for side in args.sides:
        waiting = [key for key in keys(args, side) if key not in runs]
        with ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn")) as pool:
            asked = {pool.submit(one, k, str(work), str(minilm), args.epochs, args.threads): k for k in waiting}
            for done in as_completed(asked):
                runs[asked[done]] = found = done.result()
                args.out.write_text(json.dumps({**facts, "runs": runs}, indent=1) + "\n")
                score = found.get("test", {}).get(TASKS[asked[done].split("/")[0]].metric)
                print(asked[done], score if score is not None else found["failed"], found.get("seconds"), flush=True)
    print(table(runs, args.tasks))


if __name__ == "__main__":
    main()
