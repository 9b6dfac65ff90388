"""Fine-tuning MiniLM as a classifier: qkv and Hugging Face's Trainer, with and without length grouping.

    pip install accelerate
    python benchmarks/finetune.py --train ../shared/data/sst/stsa.binary.train.gz --sentences 2000

Both sides use the same weights, sentences, epochs, AdamW, learning rate and precision (fp32 on the CPU, bf16 on a GPU).
The Trainer takes batches of 32 sentences, random or of similar length; qkv takes the same number of batches with the
same number of real tokens. Texts are tokenised in advance. The seconds cover training, including the capture of CUDA
graphs. The sides take turns, each time in a new process, so that process-wide settings of one side (such as the memory
allocator) do not affect the other. Each figure is the median over the rounds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from finetune_files import minilm_folder
from finetune_peer import trainer_of

from qkv.data.labelled import classified
from qkv.predict.device import find_device
from qkv.recipes.schema import read_recipe
from qkv.runs.prepare import prepare
from qkv.runs.run import job_of
from qkv.tokenizers.text import TextTokenizer
from qkv.training.loop import one_step, recorder_of
from qkv.training.run import Run

BATCH = 32


def ours(file: Path, minilm: Path, folder: Path, tokens: int, epochs: int, precision: str) -> float:
    """Time the training loop, with batches made as in a run."""
    changes = [
        f"model.init={minilm}", f"data.train=[{file}]", f"data.valid=[{file}]", f"out={folder}",
        f"train.tokens={tokens}", f"train.epochs={epochs}", "optim.lr=5e-5", "train.ema=0.0",
        f"train.precision={precision}",
    ]  # fmt: skip
    recipe = read_recipe("classify", changes)
    prepared = prepare(recipe, folder, lambda _: None)
    job = job_of(recipe, prepared, prepared.model.to(find_device(None)).train(), lambda _: None)
    run = Run(job, recipe.train, recipe.optim)
    start = time.perf_counter()
    batches, recorder = job.batches(0), recorder_of(run)
    for _ in range(job.total):
        one_step(run, batches, recorder)
    return _until_done() - start


def _until_done() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def theirs(rows: list[tuple[str, int]], minilm: Path, by_length: bool, epochs: int, precision: str) -> float:
    """Time Hugging Face's Trainer."""
    import transformers as hf

    tokenizer = hf.AutoTokenizer.from_pretrained(minilm)
    model = hf.AutoModelForSequenceClassification.from_pretrained(minilm, num_labels=2, dtype=torch.float32)
    data = [{**tokenizer(text, truncation=True, max_length=256), "labels": label} for text, label in rows]
    bf16 = None if precision == "auto" else precision == "bf16"
    settings = {"num_train_epochs": epochs, "learning_rate": 5e-5}
    trainer = trainer_of(model, data, batch=BATCH, by_length=by_length, bf16=bf16, **settings)
    start = time.perf_counter()
    trainer.train()
    return _until_done() - start


def alone(side: Callable[..., float], *given: Any) -> float:
    """Run a side in a new process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(side, *given).result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=Path, required=True, help="a file with `label text` lines")
    parser.add_argument("--model", type=Path, help="the folder of MiniLM")
    parser.add_argument("--sentences", type=int, default=2000)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--precision", default="auto", choices=["auto", "bf16", "fp32"], help="precision of both sides")
    args = parser.parse_args()
    minilm = minilm_folder(args.model)
    rows = [
        (e.text, int(e.labels[0])) for e in classified([str(args.train)], text=None, label=None, format="label-first")
    ]
    rows = rows[: args.sentences]
    work = Path(tempfile.mkdtemp())
    table = work / "table.tsv"
    table.write_text("\n".join(["text\tlabel", *(f"{text}\t{label}" for text, label in rows)]) + "\n")
    tokenizer = TextTokenizer.find(minilm)
    assert tokenizer is not None
    lengths = [len(ids) for ids in tokenizer.encode([text for text, _ in rows]).ids]
    tokens = round(BATCH * statistics.mean(lengths))
    given = (args.epochs, args.precision)
    times: dict[str, list[float]] = {"qkv": [], "Trainer": [], "Trainer, grouped by length": []}
    for number in range(args.rounds):
        times["qkv"].append(alone(ours, table, minilm, work / f"qkv-{number}", tokens, *given))
        times["Trainer"].append(alone(theirs, rows, minilm, False, *given))
        times["Trainer, grouped by length"].append(alone(theirs, rows, minilm, True, *given))
        print({name: [round(t, 1) for t in found] for name, found in times.items()}, flush=True)
    medians = {name: statistics.median(found) for name, found in times.items()}
    for name, seconds in medians.items():
        rate = args.epochs * len(rows) / seconds
        print(f"{name:<27} {rate:7.1f} sentences/s, {seconds / medians['qkv']:.2f} times as long as qkv")
    import transformers

    print(
        json.dumps(
            {
                "torch": torch.__version__,
                "transformers": transformers.__version__,
                **{k: str(v) for k, v in vars(args).items()},
            }
        )
    )


if __name__ == "__main__":
    main()
