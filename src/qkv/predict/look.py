"""Look inside a model: run it once over one input, and keep what attention computed and each layer would answer."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from qkv.common.batch import Pairs
from qkv.common.errors import UsageError, show
from qkv.insight.capture import Found, capture
from qkv.insight.lens import Lens, Question, States, lens
from qkv.insight.look import Look, Part
from qkv.insight.look_comparison import LookComparison
from qkv.nn.attention import CrossAttention, SelfAttention
from qkv.nn.recurrent import SegmentAttention
from qkv.nn.tap import recording
from qkv.predict.finite import finite
from qkv.predict.look_input import Input, read_input
from qkv.predict.look_question import question
from qkv.predict.runner import Runner

TOP = 10  # answers kept for each place


def look(model: Runner, text: str, target: str | None = None, *, name: str | None = None, **options: Any) -> Look:
    """Look at one input; see `Model.look`."""
    model.check_layers("look")
    if not any(isinstance(m, SelfAttention | CrossAttention | SegmentAttention) for m in model.module.modules()):
        raise UsageError(f"this {model.family} has no attention to look at")
    for given in (text, "" if target is None else target):
        if not isinstance(given, str):
            raise UsageError(f"look takes one text, and perhaps a second one, got {show(given)}")
    read = read_input(model, text, target, options)
    asked = question(model, read)
    found, states, last = _run(model, read, asked)
    return Look(
        model=name or model.family,
        family=model.family,
        parts=_parts(model.module, found, read),
        lens=None if asked is None else _lens(model, states, last, asked),
        picture=read.picture,
        texts=[text, *([] if target is None else [target])],
        notes=list(read.notes),
        written=read.said,
    )


def look_beside(
    model: Runner,
    other: Runner,
    text: str,
    target: str | None = None,
    *,
    names: tuple[str | None, str | None] = (None, None),
    **options: Any,
) -> LookComparison:
    """Look at one input with two models; without a target, both read the first one's translation."""
    found = look(model, text, target, name=names[0], **options)
    if found.written is not None:
        target, notes = found.written, found.notes
        # The path of a search need not be how the tokenizer cuts its text, and the other model gets the text.
        found = replace(look(model, text, target, name=names[0]), notes=notes)
    return found.compare(look(other, text, target, name=names[1]))


@torch.no_grad()
def _run(model: Runner, read: Input, asked: Question | None) -> tuple[Found, States, Tensor]:
    """Run the model once; returns its attention, the states that are asked for, and the last states."""
    module = model.module
    states = States(_stack(module), [] if asked is None else asked.rows)
    with ExitStack() as watched:
        found = watched.enter_context(capture(module))
        watched.enter_context(recording(states))
        hidden = module(read.batch) if isinstance(read.batch, Pairs) else module.encoder_states(read.batch)
    return found, states, finite(hidden.states)


def _stack(module: Any) -> Any:
    """Return the stack whose states the heads read; a recurrent network has none."""
    for name in ("stack", "decoder", "encoder"):
        if getattr(module, name, None) is not None:
            return getattr(module, name)
    return None


def _parts(module: Any, found: Found, read: Input) -> dict[str, Part]:
    """Sort what was recorded by kind and layer."""
    layers: dict[str, list[Any]] = {}
    for (name, _), calls in sorted([*found.calls.items(), *found.steps.items()], key=lambda item: item[0][1]):
        layers.setdefault(_kind(module, name), []).append(calls)
    own = read.tokens if read.read is None else read.read
    names = {
        "encoder": (read.tokens, read.tokens),
        "decoder": (own, own),
        "cross": (read.written or [], read.tokens),
    }
    order = getattr(_stack(module), "order", None)  # of layers that attend within windows
    return {kind: Part(*names[kind], layers[kind], order) for kind in names if kind in layers}


def _kind(module: Any, name: str) -> str:
    attention = module.get_submodule(name)
    if not isinstance(attention, SelfAttention):
        return "cross"
    return "decoder" if attention.causal else "encoder"


def _lens(model: Runner, states: States, last: Tensor, asked: Question) -> Lens:
    """Ask every layer; a model without layers of its own kind, such as a recurrent one, answers once."""
    if not states.found:
        return lens(model.module, torch.nn.Identity(), [last[asked.rows]], asked, TOP)
    return lens(model.module, _stack(model.module).norm, states.found, asked, TOP)
