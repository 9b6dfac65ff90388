"""One BERT training step: qkv and Hugging Face compared in one run on the same ragged data.

    python benchmarks/encoder_step.py                          # one GPU: bf16 autocast, eager and compiled
    python benchmarks/encoder_step.py --device cpu --rounds 3  # fp32, transformers with length-sorted batches

Both sides use the same BERT shape, masked-token and next-sentence losses, the same sequences and one fused AdamW step
per round. The Hugging Face side accumulates gradients over its padded batches. Rates are real tokens per second;
padding is never counted. The sides take turns; each figure is the median over the rounds.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from qkv.common.batch import Tokens
from qkv.common.ragged import Ragged
from qkv.models import catalogue

MASKED = 0.15


@dataclass(frozen=True)
class Data:
    """The sequences of one round."""

    ids: list[list[int]]


def lengths(kind: str, longest: int, tokens: int, seed: int) -> list[int]:
    """Draw lengths until the budget is full. The last sequence is cut to fit, so all rounds have the same size."""
    draw = torch.Generator().manual_seed(seed)
    found: list[int] = []
    while (left := tokens - sum(found)) > 0:
        if kind == "dense":
            length = longest
        else:  # log-normal, like sentences and paragraphs: the median is a sixth of the longest
            length = int(math.exp(torch.randn((), generator=draw).item() * 0.8) * longest / 6)
        found.append(min(max(length, 8), longest, left))
    return found


def data(kind: str, longest: int, tokens: int, vocab: int, seed: int) -> Data:
    draw = torch.Generator().manual_seed(seed)
    sizes = lengths(kind, longest, tokens, seed)
    return Data([torch.randint(1000, vocab, (n,), generator=draw).tolist() for n in sizes])


Step = Callable[[Data], None]


def autocast(device: str) -> Any:
    return torch.autocast("cuda", torch.bfloat16, enabled=device == "cuda")


def ours(args: argparse.Namespace, compiled: bool) -> tuple[Step, Callable[[Data], Any], torch.nn.Module]:
    """qkv: one ragged row; the masked-token head computes only the masked rows."""
    config = catalogue.preset(args.preset, heads=["pool", "mlm", "nsp"], attention_dropout=0.0)
    model = catalogue.build(config).to(args.device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def loss(tokens: Tokens, rows: Tensor, wanted: Tensor, pair: Tensor) -> Tensor:
        with autocast(args.device):
            hidden = model(tokens)
            mlm = model.head("mlm")(hidden.states[rows], model.table)
            nsp = model.logits(hidden, "nsp")
        return F.cross_entropy(mlm.float(), wanted) + F.cross_entropy(nsp.float(), pair)

    run = torch.compile(loss, dynamic=None) if compiled else loss

    def prepare(batch: Data) -> Any:
        draw = torch.Generator().manual_seed(0)
        ids = torch.tensor([i for s in batch.ids for i in s], device=args.device)
        layout = Ragged.of([len(s) for s in batch.ids], args.device)
        _ = layout.position_of  # compute the layout's derived rows once, outside the compiled step
        rows = torch.randperm(len(ids), generator=draw)[: round(len(ids) * MASKED)].sort().values.to(args.device)
        pair = torch.zeros(len(batch.ids), dtype=torch.int64, device=args.device)
        return Tokens(ids, layout), rows, ids[rows], pair

    def step(prepared: Any) -> None:
        run(*prepared).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step, prepare, model


def theirs(args: argparse.Namespace, compiled: bool, sort: bool) -> tuple[Step, Callable[[Data], Any], torch.nn.Module]:
    """Hugging Face: padded batches with a mask, scaled_dot_product_attention, logits for every position."""
    import transformers as hf

    from qkv.checkpoints.folder import config_json

    config = catalogue.preset(args.preset, heads=["pool", "mlm", "nsp"], attention_dropout=0.0)
    raw = {k: v for k, v in config_json(config).items() if k not in ("model_type", "architectures", "dtype")}
    model = hf.BertForPreTraining(hf.BertConfig(**raw)).to(args.device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    run = torch.compile(model, dynamic=False) if compiled else model

    def prepare(batch: Data) -> list[dict[str, Tensor]]:
        draw = torch.Generator().manual_seed(0)
        rows = sorted(batch.ids, key=len) if sort else batch.ids
        inputs = []
        for part in (rows[i : i + args.batch] for i in range(0, len(rows), args.batch)):
            width = max(map(len, part))
            if compiled:  # one static shape, best for the compiler; the last batch is filled up too
                width, part = args.longest, part + [[0]] * (args.batch - len(part))
            ids = torch.zeros(len(part), width, dtype=torch.int64)
            mask = torch.zeros_like(ids)
            for i, s in enumerate(part):
                ids[i, : len(s)], mask[i, : len(s)] = torch.tensor(s), 1
            chosen = (torch.rand(ids.shape, generator=draw) < MASKED) & mask.bool()
            fields = {
                "input_ids": ids,
                "attention_mask": mask,
                "labels": ids.masked_fill(~chosen, -100),
                "next_sentence_label": torch.zeros(len(part), dtype=torch.int64),
            }
            inputs.append({k: v.to(args.device) for k, v in fields.items()})
        return inputs

    def step(prepared: list[dict[str, Tensor]]) -> None:
        for inputs in prepared:
            with autocast(args.device):
                loss = run(**inputs).loss
            loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step, prepare, model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--preset", default="bert-base")
    parser.add_argument("--kinds", nargs="+", default=["ragged", "dense"])
    parser.add_argument("--longest", type=int, default=512)
    parser.add_argument(
        "--tokens", type=int, default=0, help="real tokens per round (default: 32768 on CUDA, 2048 on CPU)"
    )
    parser.add_argument(
        "--batch", type=int, default=0, help="sequences per padded batch (default: 64 on CUDA, 8 on CPU)"
    )
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--warmup", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    cuda = args.device == "cuda"
    args.tokens = args.tokens or (32_768 if cuda else 2048)
    args.batch = args.batch or (64 if cuda else 8)
    args.rounds = args.rounds or (20 if cuda else 3)
    args.warmup = args.warmup or (12 if cuda else 1)
    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high")

    sides: dict[str, tuple[Step, Callable[[Data], Any], torch.nn.Module]] = {"qkv": ours(args, compiled=cuda)}
    if cuda:
        sides |= {
            "qkv eager": ours(args, compiled=False),
            "hf eager": theirs(args, compiled=False, sort=False),
            "hf compiled": theirs(args, compiled=True, sort=False),
        }
    sides["hf sorted"] = theirs(args, compiled=False, sort=True)
    weights = {name: sum(p.numel() for p in side[2].parameters()) for name, side in sides.items()}
    assert len(set(weights.values())) == 1, weights

    results: dict[str, Any] = {}
    for kind in args.kinds:
        times: dict[str, list[float]] = {name: [] for name in sides}
        for number in range(args.warmup + args.rounds):
            # Rounds repeat the seeds of the warm-up, in which the compiled sides have seen all their shapes.
            batch = data(kind, args.longest, args.tokens, 30_522, args.seed + number % args.warmup)
            for name, (step, prepare, _) in sides.items():
                prepared = prepare(batch)
                if cuda:
                    torch.cuda.synchronize()
                start = time.perf_counter()
                step(prepared)
                if cuda:
                    torch.cuda.synchronize()
                if number >= args.warmup:
                    times[name].append(time.perf_counter() - start)
        rates = {name: args.tokens / statistics.median(found) for name, found in times.items()}
        fill = sum(min(n, args.longest) for n in lengths(kind, args.longest, args.tokens, args.seed))
        count = len(lengths(kind, args.longest, args.tokens, args.seed))
        results[kind] = {"tokens_per_second": rates, "mean_length": fill / count, "sequences": count}
        print(f"\n{kind}: {count} sequences of mean length {fill / count:.0f}, longest {args.longest}")
        for name, rate in rates.items():
            spread = statistics.stdev(times[name]) / statistics.median(times[name]) if len(times[name]) > 1 else 0.0
            print(
                f"  {name:<20}{rate:>12,.0f} real tok/s   qkv is {rates['qkv'] / rate:5.2f} x   (spread {spread:.1%})"
            )
    import transformers

    facts = {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "device": torch.cuda.get_device_name() if cuda else f"{torch.get_num_threads()} CPU threads",
        "arguments": {k: str(v) for k, v in vars(args).items()},
        "parameters": weights["qkv"],
    }
    print(json.dumps(facts))
    if args.out:
        args.out.write_text(json.dumps(facts | {"results": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
