"""Load the CPU engine for this processor, and call it."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from qkv.common.errors import unknown
from qkv.native.build import VARIANTS, file_of

ACTIVATIONS = ("none", "relu", "gelu", "gelu_tanh", "silu", "tanh")  # in the order of tiles.h
PARTS = ("qkv", "out", "up", "down")
OFF = "0"
_POINTER, _INT, _FLOAT = ctypes.c_void_p, ctypes.c_int, ctypes.c_float
_ARGUMENTS: dict[str, tuple[Any, list[Any]]] = {
    "qkv_has_int8": (_INT, []),
    "qkv_encoder_new": (_POINTER, [_INT] * 7 + [_FLOAT] * 2),
    "qkv_encoder_weights": (None, [_POINTER, _INT, _INT, _POINTER, _POINTER, _INT, _INT, _INT]),
    "qkv_encoder_norm": (None, [_POINTER, _INT, _INT, _POINTER, _POINTER]),
    "qkv_encoder_run": (None, [_POINTER, _POINTER, _POINTER, _INT, _POINTER, _POINTER, _INT]),
    "qkv_encoder_free": (None, [_POINTER]),
    "qkv_decoder_new": (_POINTER, [_POINTER, _POINTER]),
    "qkv_decoder_weights": (None, [_POINTER, _INT, _INT, _POINTER, _POINTER, _INT, _INT, _INT]),
    "qkv_decoder_norm": (None, [_POINTER, _INT, _INT, _POINTER, _POINTER]),
    "qkv_decoder_free": (None, [_POINTER]),
    "qkv_session_new": (_POINTER, [_POINTER, _INT]),
    "qkv_session_remember": (None, [_POINTER, _POINTER, _POINTER, _INT, _INT]),
    "qkv_session_reorder": (None, [_POINTER, _POINTER, _INT]),
    "qkv_session_step": (None, [_POINTER] * 8 + [_INT] * 2),
    "qkv_session_free": (None, [_POINTER]),
}


def variant() -> str | None:
    """Return the variant for this processor, or None. QKV_NATIVE=0 switches the engine off, a name chooses one."""
    wanted = os.environ.get("QKV_NATIVE", "")
    if wanted == OFF:
        return None
    if wanted and wanted not in VARIANTS:
        raise unknown("QKV_NATIVE", wanted, [OFF, *VARIANTS])
    able = [name for name, (_, needed) in VARIANTS.items() if set(needed.split()) <= _flags()]
    return next((name for name in able if wanted in ("", name) and file_of(name).is_file()), None)


@cache
def _flags() -> frozenset[str]:
    """Return what this processor can do, as Linux lists it."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return frozenset()
    return next((frozenset(line.partition(":")[2].split()) for line in lines if line.startswith("flags")), frozenset())


@cache
def load(name: str) -> ctypes.CDLL:
    """Load the library of a variant. Its OpenMP is the one that torch has loaded."""
    library = ctypes.CDLL(str(file_of(name)))
    for function, (result, arguments) in _ARGUMENTS.items():
        called = getattr(library, function)
        called.restype, called.argtypes = result, arguments
    return library


def has_int8(name: str) -> bool:
    """Whether a variant multiplies in int8."""
    return bool(load(name).qkv_has_int8())


class Encoder:
    """The layers of an encoder, with weights packed for the engine.

    Args:
        name: the variant.
        num_layers: layers.
        dim: D.
        num_heads: attention heads.
        head_dim: H; all heads together may be narrower than D.
        ff_dim: width inside the feed-forward.
        activation: one of `ACTIVATIONS`.
        pre_norm: norms before the parts instead of after the sums.
        eps: epsilon of the norms.
        scale: factor of q·k.
    """

    def __init__(
        self,
        name: str,
        *,
        num_layers: int,
        dim: int,
        num_heads: int,
        head_dim: int,
        ff_dim: int,
        activation: str,
        pre_norm: bool,
        eps: float,
        scale: float,
    ) -> None:
        self._library, self._dim = load(name), dim
        kind = ACTIVATIONS.index(activation)
        sizes = (num_layers, dim, num_heads, head_dim, ff_dim)
        self._handle = self._library.qkv_encoder_new(*sizes, kind, pre_norm, eps, scale)

    def set_weights(self, layer: int, part: str, weight: Tensor, bias: Tensor | None, *, int8: bool) -> None:
        """Pack the weights of one product. Shape: [out, in], [out]."""
        weight = weight.detach().contiguous()
        given = None if bias is None else bias.detach().contiguous()
        self._library.qkv_encoder_weights(
            self._handle, layer, PARTS.index(part), weight.data_ptr(), None if given is None else given.data_ptr(),
            weight.shape[1], weight.shape[0], int8,
        )  # fmt: skip

    def set_norm(self, layer: int, part: int, weight: Tensor, bias: Tensor) -> None:
        """Copy the weights of a norm: 0 for attention, 1 for the feed-forward. Shape: [D], [D]."""
        weight, bias = weight.detach().contiguous(), bias.detach().contiguous()
        self._library.qkv_encoder_norm(self._handle, layer, part, weight.data_ptr(), bias.data_ptr())

    def run(self, x: Tensor, offsets: Tensor, turn: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """Compute the states after the last layer. `turn` has the cosines and sines of rotary positions.

        Shape: [T, D], [B + 1], [T, H / 2] -> [T, D].
        """
        x = x.clone(memory_format=torch.contiguous_format)
        offsets = offsets.to(torch.int64).contiguous()
        cos, sin = (None, None) if turn is None else (part.float().contiguous() for part in turn)
        self._library.qkv_encoder_run(
            self._handle, x.data_ptr(), offsets.data_ptr(), len(offsets) - 1,
            None if cos is None else cos.data_ptr(), None if sin is None else sin.data_ptr(), torch.get_num_threads(),
        )  # fmt: skip
        return x

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        """A copy of a model packs its own weights."""

    def __del__(self) -> None:
        """Free the packed weights."""
        if handle := getattr(self, "_handle", None):
            self._library.qkv_encoder_free(handle)
