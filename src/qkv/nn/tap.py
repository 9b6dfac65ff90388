"""Taps: named places in a model where you can record what it computes, without changing the model.

A recorder belongs to a call, not to the model. `recording` sets it for the current thread only, so two threads can
record the same model without seeing each other's forward passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

import torch
from torch import nn


class Recorder(Protocol):
    """Receives the values that reach the taps."""

    def begin(self, tap: Tap, layer: int) -> None:
        """Note the start of a forward pass of the attention module that owns `tap`, in layer `layer`."""
        ...

    def add(self, tap: Tap, seen: Any) -> None:
        """Receive the value given to `tap`."""
        ...


_RECORDERS: ContextVar[tuple[Recorder, ...]] = ContextVar("qkv_recorders", default=())


@contextmanager
def recording(recorder: Recorder) -> Iterator[None]:
    """Send the values of all taps in this thread to `recorder` until the block ends."""
    token = _RECORDERS.set((*_RECORDERS.get(), recorder))
    try:
        yield
    finally:
        _RECORDERS.reset(token)


def recorders() -> tuple[Recorder, ...]:
    """Return the recorders of this thread. Compiled code has none."""
    return () if torch.compiler.is_compiling() else _RECORDERS.get()


class Tap(nn.Module):
    """A named place to record: attention passes it the final `Call` (see `kernels.weights`).

    A forward hook works too, but sees the forward passes of all threads.
    """

    @property
    def needs_all_rows(self) -> bool:
        """Whether a recorder asks the last layer for all rows, also where the head reads only some."""
        return any(getattr(recorder, "all_rows", False) for recorder in recorders())

    @property
    def watched(self) -> bool:
        """Whether a hook or a recorder is active."""
        return bool(self._forward_hooks) or bool(recorders())

    def begin(self, layer: int) -> None:
        """Tell the recorders that a forward pass starts."""
        for recorder in recorders():
            recorder.begin(self, layer)

    def forward(self, seen: Any) -> None:
        """Pass `seen` to the recorders."""
        for recorder in recorders():
            recorder.add(self, seen)
