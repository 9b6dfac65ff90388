"""The layers of a decoder on the CPU engine, and searches over them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from qkv.native.library import ACTIVATIONS, load

PARTS = ("qkv", "out", "ask", "memory", "back", "up", "down")  # in the order of decoder.cpp
NORMS = ("attention", "feedforward", "cross")
LAST = -1  # the layer of the table and of the last norm


class Decoder:
    """The layers of a decoder and its table, with weights packed for the engine.

    Args:
        name: the variant.
        num_layers: layers.
        dim: D.
        num_heads: query heads.
        num_kv_heads: key and value heads.
        head_dim: H.
        ff_dim: width inside the feed-forward.
        activation: one of `ACTIVATIONS`.
        pre_norm: norms before the parts instead of after the sums.
        eps: epsilon of the norms.
        scale: factor of q·k in self-attention.
        cross_scale: the same in cross-attention.
    """

    def __init__(
        self,
        name: str,
        *,
        num_layers: int,
        dim: int,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int,
        ff_dim: int,
        activation: str,
        pre_norm: bool,
        eps: float,
        scale: float,
        cross_scale: float,
    ) -> None:
        self.library, self.vocab_size = load(name), 0
        kind = ACTIVATIONS.index(activation)
        sizes = (num_layers, dim, num_heads, num_kv_heads, head_dim, ff_dim, kind, int(pre_norm))
        self.handle = self.library.qkv_decoder_new(
            (ctypes.c_int * len(sizes))(*sizes), (ctypes.c_float * 3)(eps, scale, cross_scale)
        )

    def set_weights(self, layer: int, part: str, weight: Tensor, bias: Tensor | None, *, int8: bool) -> None:
        """Pack the weights of one product. Shape: [out, in], [out]."""
        weight = weight.detach().contiguous()
        given = None if bias is None else bias.detach().contiguous()
        self.library.qkv_decoder_weights(
            self.handle, layer, PARTS.index(part), weight.data_ptr(), None if given is None else given.data_ptr(),
            weight.shape[1], weight.shape[0], int8,
        )  # fmt: skip

    def set_table(self, weight: Tensor, bias: Tensor | None, *, int8: bool) -> None:
        """Pack the table of the vocabulary. Shape: [V, D], [V]."""
        self.vocab_size = len(weight)
        self.set_weights(LAST, PARTS[0], weight, bias, int8=int8)

    def set_norm(self, layer: int, part: str, weight: Tensor, bias: Tensor) -> None:
        """Copy the weights of a norm; that of layer `LAST` follows all layers. Shape: [D], [D]."""
        weight, bias = weight.detach().contiguous(), bias.detach().contiguous()
        self.library.qkv_decoder_norm(self.handle, layer, NORMS.index(part), weight.data_ptr(), bias.data_ptr())

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        """A copy of a model packs its own weights."""

    def __del__(self) -> None:
        """Free the packed weights."""
        if handle := getattr(self, "handle", None):
            self.library.qkv_decoder_free(handle)


class Session:
    """One search: the cache of its rows and, of an encoder-decoder, the memory they attend to."""

    def __init__(self, decoder: Decoder, num_rows: int) -> None:
        self._decoder, self._library = decoder, decoder.library
        self._handle = self._library.qkv_session_new(decoder.handle, num_rows)

    def remember(self, states: Tensor, offsets: Tensor) -> None:
        """Compute the keys and values of the encoder states; each row has its own source. Shape: [S, D], [R + 1]."""
        states, offsets = states.contiguous(), offsets.to(torch.int64).contiguous()
        self._library.qkv_session_remember(
            self._handle, states.data_ptr(), offsets.data_ptr(), len(offsets) - 1, torch.get_num_threads()
        )

    def reorder(self, rows: Tensor) -> None:
        """Make row i continue what row `rows[i]` held."""
        rows = rows.to(torch.int64).contiguous()
        self._library.qkv_session_reorder(self._handle, rows.data_ptr(), len(rows))

    def read(self, x: Tensor, counts: Sequence[int], turn: tuple[Tensor, Tensor] | None = None) -> None:
        """Read some tokens of each row. `turn` has the cosines and sines of rotary positions.

        Shape: [T, D], [R], [T, H / 2].
        """
        self._step(x, turn, _int32(counts))

    def logits(
        self, x: Tensor, turn: tuple[Tensor, Tensor] | None = None, counts: Sequence[int] | None = None
    ) -> Tensor:
        """Read one token of each row; compute the scores of the next. Shape: [R, D], [R, H / 2] -> [R, V].

        Rows that `counts` gives no token have none in `x` and no scores.
        """
        found = torch.empty(len(x), self._decoder.vocab_size)
        self._step(x, turn, _int32(counts), logits=found)
        return found

    def best(
        self, x: Tensor, count: int, turn: tuple[Tensor, Tensor] | None = None, counts: Sequence[int] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Read one token of each row; find the most likely next ones and their log-probabilities, best first.

        Shape: [R, D], [R, H / 2] -> [R, count] each; `counts` as above.
        """
        values, tokens = torch.empty(len(x), count), torch.empty(len(x), count, dtype=torch.int64)
        self._step(x, turn, _int32(counts), best=values, tokens=tokens)
        return values, tokens

    def _step(
        self,
        x: Tensor,
        turn: tuple[Tensor, Tensor] | None,
        counts: ctypes.Array[ctypes.c_int32] | None = None,
        *,
        logits: Tensor | None = None,
        best: Tensor | None = None,
        tokens: Tensor | None = None,
    ) -> None:
        x = x.clone(memory_format=torch.contiguous_format)
        cos, sin = (None, None) if turn is None else (part.float().contiguous() for part in turn)
        given = [None if tensor is None else tensor.data_ptr() for tensor in (cos, sin, logits, best, tokens)]
        count = 0 if best is None else best.shape[1]
        self._library.qkv_session_step(self._handle, x.data_ptr(), counts, *given, count, torch.get_num_threads())

    def __del__(self) -> None:
        """Free the cache."""
        if handle := getattr(self, "_handle", None):
            self._library.qkv_session_free(handle)


def _int32(counts: Sequence[int] | None) -> ctypes.Array[ctypes.c_int32] | None:
    return None if counts is None else (ctypes.c_int32 * len(counts))(*counts)
