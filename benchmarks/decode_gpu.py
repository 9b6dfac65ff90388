"""Decoding on one GPU: qkv and Hugging Face `transformers` compared in one run, with the same weights and lengths.

    python benchmarks/decode_gpu.py --out decode.json

Transformer-base (a Marian folder): greedy with 1 source and beam 4 with 64. GPT-2 124M: greedy with 1 and 64 prompts.
qkv runs its CUDA graphs with and without compiling the step; `transformers` runs eagerly and, for GPT-2, also with its
static cache and torch.compile. bf16, random weights. The sides take turns; figures are medians of generated tokens per
second.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from qkv.checkpoints.folder import Folder, read_folder, write_folder
from qkv.common.batch import Tokens
from qkv.decoding.config import DecodingConfig
from qkv.decoding.generate import generate
from qkv.models import catalogue

Run = Callable[[], Any]


def sequences(number: int, low: int, high: int, vocabulary: int) -> list[list[int]]:
    draw = torch.Generator().manual_seed(0)
    lengths = torch.randint(low, high + 1, (number,), generator=draw).tolist()
    return [torch.randint(10, vocabulary, (length,), generator=draw).tolist() for length in lengths]


def padded(rows: list[list[int]], left: bool) -> dict[str, torch.Tensor]:
    width = max(map(len, rows))
    ids, mask = torch.ones(len(rows), width, dtype=torch.int64), torch.zeros(len(rows), width, dtype=torch.int64)
    for i, row in enumerate(rows):
        part = slice(width - len(row), None) if left else slice(len(row))
        ids[i, part], mask[i, part] = torch.tensor(row), 1
    return {"input_ids": ids.cuda(), "attention_mask": mask.cuda()}


def ours(model: Any, rows: list[list[int]], beam: int, length: int, compile: bool = False) -> Run:
    config = DecodingConfig(beam=beam, compile=compile)

    def run() -> Any:
        with torch.inference_mode():
            stepper = model.start(Tokens.of(rows, device="cuda"))
            first = getattr(stepper, "first", torch.zeros(len(rows), dtype=torch.int64, device="cuda"))
            return generate(stepper, first, end_id=-1, max_lengths=[length] * len(rows), config=config)

    return run


def theirs(model: Any, rows: list[list[int]], beam: int, length: int, **more: Any) -> Run:
    inputs = padded(rows, left=not model.config.is_encoder_decoder)
    settings = {"do_sample": False, "num_beams": beam, "min_new_tokens": length, "max_new_tokens": length, **more}

    def run() -> Any:
        with torch.inference_mode():
            return model.generate(**inputs, **settings, pad_token_id=1)

    return run


def measure(sides: dict[str, Run], tokens: int, rounds: int) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in sides}
    for run in sides.values():  # capture and compile
        run()
        run()
    for _ in range(rounds):
        for name, run in sides.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            run()
            torch.cuda.synchronize()
            times[name].append(time.perf_counter() - start)
    return {name: tokens / statistics.median(found) for name, found in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--length", type=int, default=64, help="tokens to generate per sequence")
    parser.add_argument("--only", nargs="+", default=["base-1", "base-64", "gpt2-1", "gpt2-64"])
    parser.add_argument("--no-compile", action="store_true", help="skip the compiled transformers side")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    import transformers as hf

    hf.logging.set_verbosity_error()
    found: dict[str, dict[str, float]] = {}
    for preset, kind in (("transformer-base", hf.MarianMTModel), ("gpt2", hf.GPT2LMHeadModel)):
        short = preset.removeprefix("transformer-")
        if not any(name.startswith(short) for name in args.only):
            continue
        torch.manual_seed(0)
        folder = Path(tempfile.mkdtemp())
        config = catalogue.preset(preset)
        write_folder(Folder(config, catalogue.build(config)), folder)
        mine = read_folder(folder, dtype=torch.bfloat16).model.cuda().eval()
        peer = kind.from_pretrained(folder, dtype=torch.bfloat16).cuda().eval()
        for number in (1, 64):
            name = f"{short}-{number}"
            if name not in args.only:
                continue
            beam = 4 if name == "base-64" else 1
            rows = sequences(number, 10, 40, config.vocab_size)
            sides = {"qkv": ours(mine, rows, beam, args.length, compile=not args.no_compile)}
            if not args.no_compile:
                sides["qkv, not compiled"] = ours(mine, rows, beam, args.length)
            sides["hf"] = theirs(peer, rows, beam, args.length)
            if short == "gpt2" and not args.no_compile:
                sides["hf static, compiled"] = theirs(
                    peer, rows, beam, args.length, cache_implementation="static", disable_compile=False
                )
            found[name] = measure(sides, number * args.length, args.rounds)
            for side, rate in found[name].items():
                print(
                    f"{name:<8} {side:<20} {rate:>10,.0f} tok/s   qkv is {found[name]['qkv'] / rate:.2f} x", flush=True
                )
    if args.out:
        versions = {"torch": torch.__version__, "transformers": hf.__version__, "gpu": torch.cuda.get_device_name()}
        arguments = {k: str(v) for k, v in vars(args).items()}
        args.out.write_text(
            json.dumps(versions | {"arguments": arguments, "tokens_per_second": found}, indent=2) + "\n"
        )


if __name__ == "__main__":
    main()
