"""Text generation as `qkv generate` runs it, beside the bare search of `benchmarks/decode_gpu.py`, on one GPU.

    python benchmarks/generate_gpu.py --out generate.json

GPT-2 124M with random weights and a tokenizer of as many words, prompts of 10 to 40 tokens, no end token. `search` is
greedy search on token ids. `greedy`, `sampled` (temperature 0.8, top-p 0.95) and `streamed` are `Model.generate`, from
prompts to texts. Figures are medians of generated tokens per second; `recorded` says whether steps were CUDA graphs.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from qkv.checkpoints.folder import Folder
from qkv.common.batch import Tokens
from qkv.decoding.generate import generate
from qkv.models import catalogue
from qkv.predict import Model
from qkv.tokenizers.training import TokenizerConfig, train_tokenizer

WORDS = 50_257
SAMPLED = {"temperature": 0.8, "top_p": 0.95}


def gpt(preset: str, dtype: torch.dtype, device: str, **changes: Any) -> Model:
    """Build a model that no token ends."""
    config = TokenizerConfig(kind="word", vocab_size=WORDS, specials="gpt", normalize="none", min_frequency=1)
    tokenizer = train_tokenizer([" ".join(f"w{number}" for number in range(WORDS))], config)
    torch.manual_seed(0)
    numbers = catalogue.preset(preset, vocab_size=tokenizer.vocab_size, end_id=None, **changes)
    tokenizer.specials.pop("end", None)
    return Model(Folder(numbers, catalogue.build(numbers).eval().to(dtype), tokenizer), device=device)


def prompts(number: int) -> list[str]:
    draw = random.Random(0)
    return [" ".join(f"w{draw.randrange(WORDS // 2)}" for _ in range(draw.randint(10, 40))) for _ in range(number)]


def ways(model: Model, number: int, length: int) -> dict[str, Callable[[], Any]]:
    texts = prompts(number)
    ids = model.encode(texts).ids
    module: Any = model.module

    def search() -> Any:
        with torch.inference_mode():
            stepper = module.start(Tokens.of(ids, device=model.device))
            return generate(stepper, stepper.first, end_id=-1, max_lengths=[length] * number)

    found: dict[str, Callable[[], Any]] = {
        "search": search,
        "greedy": lambda: model.generate(texts, max_length=length, sample=False),
        "sampled": lambda: model.generate(texts, max_length=length, **SAMPLED),
    }
    if number == 1:
        found["streamed"] = lambda: model.generate(texts, max_length=length, on_text=lambda _: None, **SAMPLED)
    return found


def rates(model: Model, number: int, length: int, rounds: int) -> dict[str, float]:
    """Run all ways in turn; the first two runs of each record and warm up."""
    sides = ways(model, number, length)
    times: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(rounds + 2):
        for name, run in sides.items():
            start = time.perf_counter()
            run()  # its result is on the host
            if turn > 1:
                times[name].append(time.perf_counter() - start)
    return {name: number * length / statistics.median(found) for name, found in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="gpt2")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtypes", nargs="+", default=["bfloat16", "float32"])
    parser.add_argument("--rows", nargs="+", type=int, default=[1, 64])
    parser.add_argument("--length", type=int, default=200, help="tokens to generate for each prompt")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    found: dict[str, Any] = {}
    for dtype in args.dtypes:
        model = gpt(args.preset, getattr(torch, dtype), args.device, num_layers=args.layers)
        for number in args.rows:
            measured = rates(model, number, args.length, args.rounds)
            module: Any = model.module
            found[f"{dtype}-{number}"] = measured | {"recorded": bool(len(module.steppers))}
            row = "  ".join(f"{name} {rate:,.0f}" for name, rate in measured.items())
            print(f"{dtype:<9} {number:>3} rows, tok/s: {row}", flush=True)
    if args.out:
        gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
        arguments = {key: str(value) for key, value in vars(args).items()}
        args.out.write_text(
            json.dumps({"torch": torch.__version__, "gpu": gpu, "arguments": arguments} | found, indent=2) + "\n"
        )


if __name__ == "__main__":
    main()
