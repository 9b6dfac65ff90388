"""Generating text: a language model continues a prompt, a T5 answers it.

prompts ─► tokens (`prompts.py`) ─► batches ─► searches (`writing.py`) ─► texts, cut at a stop string (`draft.py`)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from qkv.checkpoints.hf.generation import CONTINUES, GenerationDefaults
from qkv.common.config import from_dict
from qkv.common.errors import UsageError
from qkv.decoding.config import DecodingConfig
from qkv.decoding.stop_strings import check_stops
from qkv.models.skeleton import EncoderDecoder
from qkv.predict.batching import batches
from qkv.predict.generated import Generated
from qkv.predict.prompts import Limits, dressed, prompt_ids, source_ids
from qkv.predict.runner import Runner
from qkv.predict.verbs import reader
from qkv.predict.writing import Job, Writer
from qkv.tokenizers.text import TextTokenizer

LENGTH = 200  # new tokens, where neither the user nor the folder says more or less
MORE = 4  # generating needs little memory beside the cache, so batches have this many times the usual tokens
DRAWN = {"temperature", "top_k", "top_p", "min_p"}  # settings of sampling
BEAMS = {"beam", "length_penalty"}


def generate(
    model: Runner,
    prompts: Sequence[str],
    *,
    samples: int = 1,
    probabilities: int = 0,
    progress: Callable[[int], None] | None = None,
    **options: Any,
) -> list[Generated]:
    """Generate text after each prompt; see `Model.generate`. `prepared` takes the options."""
    writer, jobs = prepared(model, prompts, samples=samples, probabilities=probabilities, **options)
    draws = samples if writer.config.sample else 1
    waiting = [draws] * len(prompts)
    for rows in batches([_cost(job, writer.config) for job in jobs], model.device):
        writer.write([jobs[row] for row in rows])
        for row in rows:
            waiting[jobs[row].prompt] -= 1
        if progress is not None:
            progress(sum(waiting[prompt] == 0 for prompt in {jobs[row].prompt for row in rows}))
    return gathered(jobs, len(prompts), steps=probabilities > 0)


def prepared(
    model: Runner,
    prompts: Sequence[str],
    *,
    samples: int = 1,
    max_length: int | None = None,
    stop: Sequence[str] = (),
    prefix: str | None = None,
    window: bool = False,
    probabilities: int = 0,
    on_text: Callable[[str], None] | None = None,
    **options: Any,
) -> tuple[Writer, list[Job]]:
    """Check what is asked for, and return a writer and its jobs: one for each sample of each prompt."""
    tokenizer = reader(model, "generate", prompts)
    config = search_config(model, samples, options)
    limits = Limits(model.max_length, max_length, window)
    _check(config, limits, check_stops(stop), probabilities, samples)
    if on_text is not None and (len(prompts) != 1 or samples > 1 or config.beam > 1):
        raise UsageError("text can be streamed for one prompt and one sample, without a beam")
    causal = not isinstance(model.module, EncoderDecoder)
    read = (prompt_ids if causal else source_ids)(tokenizer, dressed(model, prompts, prefix), limits)
    jobs = [
        Job(prompt, draw, ids, _most(model, len(ids), limits, causal))
        for prompt, ids in enumerate(read)
        for draw in range(samples if config.sample else 1)
    ]
    return Writer(model, tokenizer, config, stop, _end_ids(model, tokenizer), probabilities, on_text), jobs


def gathered(jobs: Sequence[Job], count: int, *, steps: bool) -> list[Generated]:
    """Return the text of each of `count` prompts, with those of its other samples."""
    each: list[list[Generated]] = [[] for _ in range(count)]
    for job in jobs:
        each[job.prompt] += [draft.answer(steps=steps) for draft in job.drafts]
    return [replace(first, others=others) for first, *others in each]


def search_config(model: Runner, samples: int, options: Mapping[str, Any]) -> DecodingConfig:
    """Return the settings of the search: what the user asks for and, where that fits, what the folder says.

    A setting of sampling asks for sampling, and so do several samples without a beam that gives as many. A temperature
    of 0 is greedy, as everywhere.
    """
    asked = {key: value for key, value in options.items() if value is not None}
    if asked.get("temperature") == 0:
        asked = {"sample": False} | {key: value for key, value in asked.items() if key not in DRAWN}
    defaults = defaults_of(model).search
    beam = asked.get("beam", 1 if "sample" in asked else defaults.get("beam", 1))
    sample = bool(DRAWN & asked.keys()) or bool(defaults.get("sample") and "beam" not in asked) or samples > beam
    sample = asked.get("sample", sample and asked.get("beam", 1) == 1)
    dropped = {"sample"} | (BEAMS if sample else DRAWN)
    kept = {key: value for key, value in defaults.items() if key not in dropped}
    return from_dict(DecodingConfig, {**kept, **asked, "sample": sample, "nbest": 1 if sample else samples})


def defaults_of(model: Runner) -> GenerationDefaults:
    """Return what the folder says or, for a language model whose folder says nothing, what qkv writes into it."""
    if (known := model.contents.generation) is not None:
        return known
    theirs = isinstance(model.module, EncoderDecoder) or model.contents.stored_as
    return GenerationDefaults({} if theirs else CONTINUES)


def _check(config: DecodingConfig, limits: Limits, stops: Sequence[str], top: int, samples: int) -> None:
    least = {"samples": (samples, 1), "max_length": (limits.asked, 1), "probabilities": (top, 0)}
    for name, (value, lowest) in least.items():
        if value is not None and value < lowest:
            raise UsageError(f"{name} must be at least {lowest}, got {value}")
    if config.beam > 1 and (stops or limits.window):
        what = "stop strings" if stops else "a window"
        raise UsageError(f"{what} and a beam of {config.beam} do not go together: use a beam of 1")


def _end_ids(model: Runner, tokenizer: TextTokenizer) -> tuple[int, ...]:
    """Return the tokens that end a text: those of generation_config.json, config.json or the tokenizer."""
    own = (getattr(model.config, "end_id", None), tokenizer.specials.get("end"))
    found = defaults_of(model).end_ids or tuple(number for number in own if number is not None)[:1]
    return tuple(number for number in found if number < model.config.vocab_size)


def _most(model: Runner, size: int, limits: Limits, causal: bool) -> int:
    """Return the most tokens to generate for a prompt of `size` tokens."""
    usual = defaults_of(model).most_new(size if causal else 1)  # a decoder begins with its start token
    most = limits.asked or (LENGTH if usual is None else usual)
    if limits.context is None or limits.window or not causal:
        return most
    return min(most, limits.context - size)


def _cost(job: Job, config: DecodingConfig) -> int:
    """Return the tokens that count for a batch."""
    return -(-(len(job.ids) + job.most) * config.beam // MORE)
