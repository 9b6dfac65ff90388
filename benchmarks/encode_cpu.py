"""Sentences a second of an encoder on the CPU: qkv's engine in float32 and int8, PyTorch, ONNX Runtime, transformers.

    pip install onnx onnxruntime                                   # for the two sides of ONNX Runtime
    python benchmarks/encode_cpu.py --model MINILM --sentences SST/stsa.binary.test.gz --threads 2 --rounds 5

Each side is a process of its own that waits without using the CPU while another one runs. A round asks each side in
turn for the batched rate (all sentences in one call) and for the rate of one sentence at a time. The table has medians
over rounds, and the cosine of each side's vectors with those of PyTorch in float32.

ONNX Runtime runs the graph that torch exports from transformers' BertModel, in float32 and with its own dynamic
quantisation per channel. It, like transformers, gets sentences sorted by length in padded batches of 32, the best of 8,
32 and 64 here. qkv takes the sentences as they come.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from cpu_sides import ask, started

SIDES = {
    "qkv, int8": "qkv-int8",
    "qkv, float32": "qkv",
    "qkv on PyTorch": "qkv-torch",
    "ONNX Runtime, int8": "onnx-int8",
    "ONNX Runtime, float32": "onnx",
    "transformers, float32": "transformers",
}
BATCH = 32
Encode = Callable[[list[str]], np.ndarray[Any, Any]]


def read(file: Path, count: int) -> list[str]:
    """Read sentences, drawn at random; each line is a label and a text."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        texts = [line.strip().partition(" ")[2] for line in lines]
    return random.Random(0).sample(texts, min(count, len(texts)))


def worker(side: str, args: argparse.Namespace) -> None:
    """Answer each line of standard input: "all", "one" or "vectors"."""
    import torch

    torch.set_num_threads(args.threads)
    texts = read(args.sentences, args.count)
    encode = SIDE[side](args)
    encode(texts[:64])
    for asked in map(str.strip, sys.stdin):
        if asked == "vectors":
            np.save(args.work / f"{side}.npy", encode(texts))
            print(0, flush=True)
            continue
        begin = time.perf_counter()
        if asked == "all":
            encode(texts)
            print(len(texts) / (time.perf_counter() - begin), flush=True)
        else:
            for text in texts[: args.singles]:
                encode([text])
            print(args.singles / (time.perf_counter() - begin), flush=True)


def by_qkv(args: argparse.Namespace) -> Encode:
    import qkv

    return qkv.load(args.model, device="cpu").embed


def by_qkv_int8(args: argparse.Namespace) -> Encode:
    import qkv

    qkv.load(args.model, device="cpu").save(args.work / "int8", dtype="int8")
    return qkv.load(args.work / "int8", device="cpu").embed


def by_length(encode: Callable[[list[str]], np.ndarray[Any, Any]]) -> Encode:
    """Sort by length and encode in padded batches."""

    def run(texts: list[str]) -> np.ndarray[Any, Any]:
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        parts = [encode([texts[i] for i in order[at : at + BATCH]]) for at in range(0, len(order), BATCH)]
        found = np.concatenate(parts)
        return found[np.argsort(order)]

    return run


def pooled(states: Any, mask: Any) -> Any:
    found = (states * mask[..., None]).sum(1) / mask.sum(1)[:, None]
    return found / np.linalg.norm(found, axis=-1, keepdims=True)


def bert(args: argparse.Namespace) -> tuple[Any, Any]:
    from transformers import AutoTokenizer, BertModel

    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    return BertModel.from_pretrained(args.model).float().eval(), AutoTokenizer.from_pretrained(args.model)


def by_transformers(args: argparse.Namespace) -> Encode:
    import torch

    model, tokenizer = bert(args)

    def encode(texts: list[str]) -> np.ndarray[Any, Any]:
        read = tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
        with torch.inference_mode():
            return pooled(model(**read).last_hidden_state.numpy(), read["attention_mask"].numpy())

    return by_length(encode)


def by_onnx(args: argparse.Namespace, *, int8: bool = False) -> Encode:
    import onnxruntime

    model, tokenizer = bert(args)
    file = exported(model, tokenizer, args.work / f"model-{int8}.onnx")
    if int8:
        from onnxruntime.quantization import QuantType, quantize_dynamic

        whole, file = file, args.work / "int8.onnx"
        quantize_dynamic(whole, file, weight_type=QuantType.QInt8, per_channel=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = args.threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "1")
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])

    def encode(texts: list[str]) -> np.ndarray[Any, Any]:
        read = dict(tokenizer(texts, padding=True, truncation=True, return_tensors="np"))
        read = {name: value.astype(np.int64) for name, value in read.items()}
        return pooled(session.run(None, read)[0], read["attention_mask"])

    return by_length(encode)


def exported(model: Any, tokenizer: Any, file: Path) -> Path:
    """Export with torch's own exporter; batch and length may vary."""
    import torch

    read = tokenizer(["two short texts", "of unequal length"], padding=True, return_tensors="pt")
    names = ["input_ids", "attention_mask", "token_type_ids"]
    axes = {name: {0: "batch", 1: "length"} for name in [*names, "states"]}
    model.config._attn_implementation = "eager"

    class States(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: Any, attention_mask: Any, token_type_ids: Any) -> Any:
            found = self.model(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)
            return found.last_hidden_state

    torch.onnx.export(
        States(), tuple(read[name] for name in names), str(file), input_names=names, output_names=["states"],
        dynamic_axes=axes, opset_version=17, dynamo=False,
    )  # fmt: skip
    return file


SIDE: dict[str, Callable[[argparse.Namespace], Encode]] = {
    "qkv": by_qkv,
    "qkv-torch": by_qkv,
    "qkv-int8": by_qkv_int8,
    "onnx": by_onnx,
    "onnx-int8": lambda args: by_onnx(args, int8=True),
    "transformers": by_transformers,
}


def compare(args: argparse.Namespace) -> None:
    chosen = {name: side for name, side in SIDES.items() if side in args.sides.split(",")}
    own = {"qkv-torch": {"QKV_NATIVE": "0"}}
    with started(__file__, chosen.values(), args.threads, more=("--work", str(args.work)), environments=own) as running:
        measure(args, chosen, {name: running[side] for name, side in chosen.items()})


def measure(args: argparse.Namespace, chosen: dict[str, str], processes: dict[str, subprocess.Popen[str]]) -> None:
    able = {name: process for name, process in processes.items() if ask(process, "vectors") is not None}
    rates: dict[str, dict[str, list[float]]] = {name: {"all": [], "one": []} for name in able}
    for _ in range(args.rounds):
        for name, process in able.items():
            for what in ("all", "one"):
                rates[name][what].append(ask(process, what) or 0.0)
    wanted = np.load(args.work / f"{chosen['qkv on PyTorch']}.npy")
    rows = []
    for name in able:
        cosine = (np.load(args.work / f"{chosen[name]}.npy") * wanted).sum(-1)
        batched, one = (statistics.median(rates[name][what]) for what in ("all", "one"))
        rows.append({"side": name, "batched": batched, "one": one, "cosine": cosine.mean(), "worst": cosine.min()})
    print("| | batched, sentences/s | one by one | cosine, mean | worst |\n| --- | ---: | ---: | ---: | ---: |")
    for row in rows:
        print("| {side} | {batched:,.0f} | {one:,.0f} | {cosine:.4f} | {worst:.4f} |".format(**row))
    if missing := [name for name in processes if name not in able]:
        print(f"did not start: {', '.join(missing)}")
    print(json.dumps(rates))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="a BERT folder")
    parser.add_argument("--sentences", type=Path, required=True, help="a file of label and text")
    parser.add_argument("--count", type=int, default=256)
    parser.add_argument("--singles", type=int, default=64, help="sentences of a round that are encoded one by one")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sides", default=",".join(SIDES.values()))
    parser.add_argument("--side", choices=SIDE, help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        worker(args.side, args)
        return
    with tempfile.TemporaryDirectory() as work:
        args.work = Path(work)
        compare(args)


if __name__ == "__main__":
    main()
