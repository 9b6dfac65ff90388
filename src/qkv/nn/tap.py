"""A place in a model where you can watch what it computes, without changing the model.

A recorder belongs to a call, not to the model: `recording` sets it for the current thread alone, so that two threads
can watch one model and neither sees the other's pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

import torch
from torch import nn


class Recorder(Protocol):
    """Receives what passes the taps."""

    def begin(self, tap: Tap, layer: int) -> None:
        """Start a pass of the attention that holds `tap`, as layer number `layer`."""
        ...

    def add(self, tap: Tap, seen: Any) -> None:
        """Receive what `tap` was given."""
        ...


_RECORDERS: ContextVar[tuple[Recorder, ...]] = ContextVar("qkv_recorders", default=())


@contextmanager
def recording(recorder: Recorder) -> Iterator[None]:
    """Send what the taps see in this thread to `recorder` until the block ends."""
    token = _RECORDERS.set((*_RECORDERS.get(), recorder))
    try:
        yield
    finally:
        _RECORDERS.reset(token)


def recorders() -> tuple[Recorder, ...]:
    """Return the recorders of this thread; compiled code has none."""
    return () if torch.compiler.is_compiling() else _RECORDERS.get()


class Tap(nn.Module):
    """A named place to watch: an attention gives it the final `Call` (see `kernels.weights`).

    A forward hook works here too, but sees the passes of all threads.
    """

    @property
    def watched(self) -> bool:
        """Whether a hook or a recorder watches."""
        return bool(self._forward_hooks) or bool(recorders())

    def begin(self, layer: int) -> None:
        """Tell the recorders that a pass starts."""
        for recorder in recorders():
            recorder.begin(self, layer)

    def forward(self, seen: Any) -> None:
        """Hand `seen` to the recorders."""
        for recorder in recorders():
            recorder.add(self, seen)
