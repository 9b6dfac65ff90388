"""Translation on two CPU cores, in fp32 and in int8: qkv, CTranslate2 and transformers compared in one run.

    pip install -c constraints.txt -e '.[export]'
    python benchmarks/decode_cpu.py --out decode_cpu.json

All sides use the same random transformer-base, the same ragged sources of 10 to 40 tokens, and a fixed target length,
so that they do the same work. Each side has its own process, because two threading libraries in one process disturb
each other. The sides take turns, in reverse order in every second round. Figures are medians of target tokens per
second.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from qkv.checkpoints.folder import Folder, read_folder, write_folder
from qkv.common.batch import Tokens
from qkv.compression.engine import accelerate
from qkv.decoding.config import DecodingConfig
from qkv.decoding.generate import generate
from qkv.models.catalogue import PRESETS, build
from qkv.models.skeleton import EncoderDecoder

THREADS = 2
PAUSE = 0.3  # the threads of the previous side spin for up to 0.2 s
NEVER = -1e9
LINES = {"batch 32, beam 4": (32, 4), "batch 1, greedy": (1, 1)}

Ids = list[list[int]]
Side = Callable[[Ids, int, int], Ids]  # sources, beam, length -> targets


def make_folder(path: Path) -> None:
    """Write a random Marian model. As in Marian, the start token has no embedding and is never generated.

    Nor is the end token, so that all sides generate as many tokens without a rule about the length.
    """
    torch.manual_seed(0)
    preset = PRESETS["transformer-base"]
    pad = preset.vocab_size - 1
    config = replace(preset, start_id=pad, end_id=0)
    model = build(config).eval()
    assert isinstance(model, EncoderDecoder)
    with torch.no_grad():
        model.table[pad] = 0
        bias = model.get_parameter("heads.lm.bias")
        bias.normal_(std=0.5)
        bias[[config.end_id, pad]] = NEVER
    write_folder(Folder(config, model), path)


def ours(path: Path, *, int8: bool = False) -> Side:
    """Translate with qkv, on the engine that `qkv.load` and `qkv quantize` choose."""
    folder = read_folder(path)
    model, start = folder.model, folder.config.start_id
    assert isinstance(model, EncoderDecoder)
    accelerate(model, int8=int8)

    @torch.inference_mode()
    def translate(sources: Ids, beam: int, length: int) -> Ids:
        found = generate(
            model.start(Tokens.of(sources)),
            torch.full((len(sources),), start),
            end_id=folder.config.end_id,
            max_lengths=[length] * len(sources),
            config=DecodingConfig(beam=beam),
        )
        return [several[0].ids for several in found]

    return translate


def ctranslate2(path: Path, *, int8: bool = False) -> Side:
    """Translate with CTranslate2."""
    import ctranslate2 as ct2
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    size = json.loads((path / "config.json").read_text())["vocab_size"]
    vocabulary = {"</s>": 0, "<unk>": 1, **{str(i): i for i in range(2, size - 1)}, "<pad>": size - 1}
    tokens = {number: token for token, number in vocabulary.items()}

    class Converter(ct2.converters.TransformersConverter):  # type: ignore[misc]
        def load_tokenizer(self, *_: Any, **__: Any) -> PreTrainedTokenizerFast:
            inner = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
            return PreTrainedTokenizerFast(
                tokenizer_object=inner, eos_token="</s>", unk_token="<unk>", pad_token="<pad>"
            )

    kind = "int8" if int8 else "float32"
    converted = Converter(str(path)).convert(str(path.parent / f"ctranslate2-{kind}"))
    translator = ct2.Translator(converted, device="cpu", inter_threads=1, intra_threads=THREADS, compute_type=kind)

    def translate(sources: Ids, beam: int, length: int) -> Ids:
        found = translator.translate_batch(
            [[tokens[i] for i in source] for source in sources],
            beam_size=beam,
            max_decoding_length=length,
        )
        return [[vocabulary[token] for token in each.hypotheses[0]] for each in found]

    return translate


def transformers(path: Path) -> Side:
    """Translate with transformers."""
    from transformers import MarianMTModel

    model = MarianMTModel.from_pretrained(path).eval()
    settings, pad = model.generation_config, model.config.pad_token_id
    settings.forced_eos_token_id = model.config.forced_eos_token_id = None

    @torch.inference_mode()
    def translate(sources: Ids, beam: int, length: int) -> Ids:
        longest = max(map(len, sources))
        ids = torch.tensor([source + [pad] * (longest - len(source)) for source in sources])
        found = model.generate(
            input_ids=ids,
            attention_mask=(ids != pad).long(),
            num_beams=beam,
            do_sample=False,
            max_new_tokens=length,
        )
        return found[:, 1:].tolist()

    return translate


MAKERS: dict[str, Callable[[Path], Side]] = {
    "qkv": ours,
    "ctranslate2": ctranslate2,
    "transformers": transformers,
    "qkv-int8": partial(ours, int8=True),
    "ctranslate2-int8": partial(ctranslate2, int8=True),
}


def serve(name: str, path: Path, requests: Connection) -> None:
    """Serve requests in the process of one side: return translations and the seconds they took."""
    logging.disable(logging.WARNING)
    torch.set_num_threads(THREADS)
    side = MAKERS[name](path)
    while (request := requests.recv()) is not None:
        start = time.perf_counter()
        said = side(*request)
        requests.send((said, time.perf_counter() - start))


def begin(name: str, path: Path) -> Connection:
    """Start the process of a side and return the connection to it."""
    context = get_context("spawn")
    mine, its = context.Pipe()
    context.Process(target=serve, args=(name, path, its), daemon=True).start()
    return mine


def ask(side: Connection, *request: Any) -> tuple[Ids, float]:
    """Have a side translate, and wait for the result."""
    time.sleep(PAUSE)
    side.send(request)
    said, seconds = side.recv()
    return said, seconds


def measure(sides: dict[str, Connection], sources: Ids, beam: int, length: int, rounds: int) -> dict[str, Any]:
    """Compare the sides on one batch: first their output, then their speed."""
    said = {name: ask(side, sources, beam, length)[0] for name, side in sides.items()}
    assert all(len(target) == length for targets in said.values() for target in targets)
    same = {name: sum(map(list.__eq__, said["qkv"], targets)) / len(sources) for name, targets in said.items()}
    times: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds):
        for name in list(sides)[:: -1 if number % 2 else 1]:
            times[name].append(ask(sides[name], sources, beam, length)[1])
    speed = {name: len(sources) * length / statistics.median(found) for name, found in times.items()}
    return {
        "tokens_per_second": {name: round(found, 1) for name, found in speed.items()},
        "qkv_is": {name: round(speed[_ours(name)] / found, 3) for name, found in speed.items() if name != _ours(name)},
        "same_translations": same,
        "seconds": {name: [round(t, 3) for t in found] for name, found in times.items()},
    }


def _ours(name: str) -> str:
    """Return our side of the same precision."""
    return "qkv-int8" if name.endswith("int8") else "qkv"


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length", type=int, default=30, help="target tokens per sentence")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sides", nargs="+", default=list(MAKERS), choices=list(MAKERS))
    parser.add_argument("--out", type=Path, help="write the figures to this file as JSON")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        path = Path(work) / "marian"
        make_folder(path)
        sides = {name: begin(name, path) for name in args.sides}
        report: dict[str, Any] = {}
        for name, (batch, beam) in LINES.items():
            draw = random.Random(1)
            sources = [[draw.randrange(2, 36_000) for _ in range(draw.randint(10, 40))] for _ in range(batch)]
            rounds = args.rounds * (1 if batch > 1 else 5)
            report[name] = measure(sides, sources, beam, args.length, rounds)
            shown = {key: value for key, value in report[name].items() if key != "seconds"}
            print(f"{name}: {json.dumps(shown)}", flush=True)
        for side in sides.values():
            side.send(None)
    report["versions"] = versions()
    print(json.dumps(report["versions"]))
    if args.out is not None:
        args.out.write_text(json.dumps(report, indent=2) + "\n")


def versions() -> dict[str, str]:
    """Return the versions and the machine."""
    from importlib.metadata import version

    cpu = next((line.split(":")[1] for line in _cpuinfo() if line.startswith("model name")), "unknown")
    packages = {name: version(name) for name in ("torch", "ctranslate2", "transformers")}
    return {**packages, "threads": str(THREADS), "cpu": cpu.strip()}


def _cpuinfo() -> list[str]:
    file = Path("/proc/cpuinfo")
    return file.read_text().splitlines() if file.exists() else []


if __name__ == "__main__":
    main()
