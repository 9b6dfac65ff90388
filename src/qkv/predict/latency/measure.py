"""Measure how long the answers of a model take, with every engine that can run it.

model ─► engines (`engines.py`) ─► for each batch size and length: inputs (`work.py`), rounds of calls (`timing.py`)
      ─► percentiles ─► a recommendation (`recommend.py`)
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from qkv.common.config import check_range
from qkv.common.errors import UsageError, system_errors
from qkv.common.progress import Bar
from qkv.predict.finite import finite
from qkv.predict.latency.engines import ENGINES, check_engines, default_of, made
from qkv.predict.latency.recommend import recommended
from qkv.predict.latency.result import Latency, Side, Timing
from qkv.predict.latency.timing import percentile, timed
from qkv.predict.latency.work import Inputs, Work, longest, work_for
from qkv.predict.loading import load
from qkv.predict.model import Model
from qkv.training.threads import use_threads

MOST_BATCH, MOST_LENGTH = 4096, 65_536
REFERENCE = "torch"


@dataclass(frozen=True)
class Plan:
    """What to measure, and for how long."""

    batches: Sequence[int]
    lengths: Sequence[Any]
    rounds: int
    seconds: float


USUAL = Plan((1, 8, 32), (16, 64, 256), 5, 2.0)
QUICK = Plan((1, 8), (16, 64), 2, 0.2)  # for a first look


@system_errors()
def latency(
    model: str | Path | Model,
    *,
    device: str | None = None,
    batches: Sequence[int] | None = None,
    lengths: Sequence[int] | None = None,
    engines: Sequence[str] = (),
    rounds: int | None = None,
    seconds: float | None = None,
    new_tokens: int | None = None,
    beam: int | None = None,
    threads: int | None = None,
    quick: bool = False,
) -> Latency:
    """Time a model's answers with every engine that can run it.

    The engines take turns. What is timed is the work from token ids or pixels to the scores, the vector or the tokens
    of the model's verb.

    Args:
        model: a model folder, the name of a built-in model, an exported folder, or a model in float32. It stays as it
            is.
        device: "cpu", "cuda" or "cuda:1"; None means CUDA if it is available. A loaded model has its own.
        batches: inputs of a call; 1, 8 and 32 if None.
        lengths: tokens of each text; 16, 64 and 256 if None, or what the model takes if that is less.
        engines: of "torch", "torch-bf16", "native", "native-int8", "onnxruntime", "ctranslate2" and "torch-compiled".
            If empty, all that can run; "torch-bf16" on a CPU and "torch-compiled" must be named.
        rounds: how often each engine gets its turn; 5 if None.
        seconds: how long each engine is timed at each batch size and length, or for 3 calls; 2 if None.
        new_tokens: of a model that generates, the tokens of each answer; 32 if None and the model takes as many.
        beam: of a model that generates; that of `translate` or `generate` if None.
        threads: CPU threads; torch's own number if None.
        quick: fewer sizes and less time, for all that is None.
    """
    check_engines(engines)
    usual = QUICK if quick else USUAL
    if threads is not None:
        check_range("threads", threads, 1, (os.cpu_count() or 1) + 1)
    sizes = _whole("batch size", usual.batches if batches is None else batches, MOST_BATCH)
    rounds, seconds = (usual.rounds if rounds is None else rounds), (usual.seconds if seconds is None else seconds)
    check_range("rounds", rounds, 1, 1001)
    check_range("seconds", seconds, 0, 3601)
    loaded, name = _loaded(model, device)
    work = work_for(loaded, new_tokens, beam)
    plan = Plan(sizes, _lengths(loaded, work, lengths, usual.lengths), rounds, seconds)
    with use_threads(threads or 0), tempfile.TemporaryDirectory(prefix="qkv-latency-") as folder:
        models, missing = made(loaded, engines, Path(folder))
        if not models:
            told = "; ".join(f"{one}: {why}" for one, why in missing.items())
            raise UsageError(f"no engine can run {name}: {told}")
        measurement = Measurement(loaded, models, work)
        return _report(name, measurement, measurement.run(plan), missing)


class Measurement:
    """Times one model on several engines, and compares its answers.

    Args:
        loaded: the model as it was loaded.
        models: the model as each engine runs it.
        work: what is asked of them.
    """

    def __init__(self, loaded: Model, models: Mapping[str, Model], work: Work) -> None:
        self.loaded, self.models, self.work = loaded, models, work
        self._reference = None
        if not loaded.contents.exported:
            self._reference = models.get(REFERENCE) or made(loaded, [REFERENCE], Path())[0][REFERENCE]
        self._same: dict[str, list[float]] = {name: [] for name in models}

    def run(self, plan: Plan) -> list[Timing]:
        """Time every batch size and length."""
        inputs, found = Inputs(self.loaded), list[Timing]()
        points = list(product(plan.batches, plan.lengths))
        with Bar("measuring", total=len(points)) as bar:
            for batch, length in bar.each(points):
                found += self._timings(plan, batch, length, inputs(batch, length))
        return found

    def agreement(self, name: str) -> float | None:
        """Return how well an engine's answers agree with those of PyTorch."""
        return fmean(self._same[name]) if self._same[name] else None

    def _timings(self, plan: Plan, batch: int, length: int | None, given: list[list[int]] | Tensor) -> Iterator[Timing]:
        self._compare(given)
        calls = {name: partial(self._call, model, given) for name, model in self.models.items()}
        for call in calls.values():
            call()  # a second time: the first one packed weights
        for name, times in timed(calls, rounds=plan.rounds, seconds=plan.seconds).items():
            rate = batch * len(times) / max(sum(times), 1e-12)
            tokens = self.work.new_tokens or length
            yield Timing(
                engine=name,
                batch=batch,
                length=length,
                calls=len(times),
                p50_ms=1000 * percentile(times, 0.5),
                p99_ms=1000 * percentile(times, 0.99),
                per_second=rate,
                tokens_per_second=None if tokens is None else rate * tokens,
            )

    def _compare(self, given: list[list[int]] | Tensor) -> None:
        """Answer once with each engine, which also prepares it for these sizes."""
        wanted = None if self._reference is None else self.work(self._reference, given)
        for answer in wanted or ():
            finite(answer)
        for name, model in self.models.items():
            answers = wanted if model is self._reference and wanted is not None else self.work(model, given)
            if wanted is not None:
                self._same[name] += self.work.same(wanted, answers)

    def _call(self, model: Model, given: list[list[int]] | Tensor) -> None:
        self.work(model, given)
        if model.device.type == "cuda":
            torch.cuda.synchronize(model.device)


def _report(name: str, done: Measurement, timings: Sequence[Timing], missing: Mapping[str, str]) -> Latency:
    """Put everything together, with a recommendation."""
    loaded, work, default = done.loaded, done.work, default_of(done.loaded)
    sides = []
    for one, found in done.models.items():
        engine = ENGINES[one]
        how = "which qkv.load chooses" if one == default else engine.how
        sides.append(Side(one, found.engine, how, engine.exact, done.agreement(one)))
    unit = "image" if loaded.reads_images else "text"
    return Latency(
        model=name,
        verb=work.verb,
        device=_device_name(loaded.device),
        threads=torch.get_num_threads(),
        new_tokens=work.new_tokens,
        beam=work.beam,
        agreement_of=work.agreement,
        default=default,
        engines=sides,
        missing=missing,
        timings=timings,
        recommendation=recommended(sides, timings, default=default, agreement=work.agreement, unit=unit),
    )


def _loaded(model: str | Path | Model, device: str | None) -> tuple[Model, str]:
    """Return the model and its name."""
    if not isinstance(model, Model):
        return load(model, device=device), str(model)
    if device is not None:
        raise UsageError(f"the model is loaded on {model.device}: leave out device, or name its folder")
    if any(parameter.dtype != torch.float32 for parameter in model.module.parameters()):
        raise UsageError("engines start from weights in float32: load the model without dtype")
    return model, getattr(model, "place", None) or model.family


def _lengths(model: Model, work: Work, asked: Sequence[int] | None, usual: Sequence[int]) -> Sequence[int | None]:
    """Return the lengths to measure; the usual ones are no longer than what the model takes."""
    if model.reads_images:
        if asked is not None:
            raise UsageError("a model of images has no lengths to choose: leave out --length")
        return [None]
    most = longest(model, work)
    if asked is None:
        return list(dict.fromkeys(min(length, most or length) for length in usual))
    room = "" if work.new_tokens is None or most == model.max_length else f" with {work.new_tokens} new tokens"
    return _whole("length", asked, min(most or MOST_LENGTH, MOST_LENGTH), room)


def _whole(what: str, given: Sequence[int], most: int, room: str = "") -> list[int]:
    """Check whole numbers from 1 to `most`; sorted, each of them once."""
    if not given:
        raise UsageError(f"give at least one {what}")
    for number in given:
        if not isinstance(number, int) or not 1 <= number <= most:
            raise UsageError(f"a {what} must be from 1 to {most:,}{room}, got {number}")
    return sorted(set(given))


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)
