"""The graphs of a model by name: the modules of `modules.py` with example inputs to trace them.

    text model      model                     ids, mask                    ─► states, scores of each head
    language model  model                     ids, mask, past              ─► states, scores, present
    images          model                     pixels                       ─► states, scores
    translator, T5  encoder_model             ids, mask                    ─► states, keys and values for the decoder
                    decoder_model             ids, mask, past, those       ─► states, scores, present
    all             head_NAME                 states of some rows          ─► scores of one head
    mlm, lm         states                    ids, mask                    ─► states alone, without a large product

The names of inputs and outputs are those of Hugging Face's exporters where they have one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from qkv.common.errors import UsageError
from qkv.compression.export.cells import attend
from qkv.compression.export.modules import (
    MEMORY,
    PAST,
    SIDES,
    DecoderGraph,
    EncoderGraph,
    HeadGraph,
    ImageGraph,
    Named,
    TextGraph,
    crosses_of,
    named,
)
from qkv.models.convnet import ConvNet
from qkv.models.skeleton import EncoderDecoder, Headed, Transformer
from qkv.nn.attention import CrossAttention, SelfAttention
from qkv.nn.embeddings import PatchEmbeddings, TextEmbeddings
from qkv.nn.positions import DynamicRotaryPosition
from qkv.nn.stack import Stack

MODEL, STATES, ENCODER, DECODER, HEAD = "model", "states", "encoder_model", "decoder_model", "head_"
LARGE = {"mlm", "lm"}  # heads over the vocabulary, which not every verb needs
B, L, S, P = 2, 5, 7, 3  # of the examples: sequences, new tokens, source tokens, tokens before


@dataclass(frozen=True)
class Graph:
    """A module to trace.

    Attributes:
        module: takes a dict of tensors and returns one.
        example: inputs to trace it with. Sizes of dimensions that vary are at least 2, and different from each other.
        dims: the names of the dimensions that vary, by input; None for those that do not.
    """

    module: nn.Module
    example: Named
    dims: Mapping[str, tuple[str | None, ...]]


def graphs_of(model: Headed) -> dict[str, Graph]:
    """Return the graphs of a model by name. This replaces its attention: afterwards it can only be traced."""
    check_exportable(model)
    for module in model.modules():
        if isinstance(module, SelfAttention | CrossAttention):
            module.kernel = attend
    heads = list(model.heads)
    found = {}
    if isinstance(model, EncoderDecoder):
        found[ENCODER] = _encoder(model, heads if model.decoder is None else [])
        if model.decoder is not None:
            found[DECODER] = _decoder(model, heads)
    elif isinstance(model, ConvNet) or isinstance(getattr(model, "embeddings", None), PatchEmbeddings):
        found[MODEL] = _images(model, heads)
    elif isinstance(model, Transformer):
        found[MODEL] = _text(model, heads, cached="lm" in heads)
        if LARGE & set(heads):
            found[STATES] = _text(model, [], cached=False)
    return found | {HEAD + name: _head(model, name) for name in heads}


def check_exportable(model: Headed) -> None:
    """Raise an error for a model whose parts no graph can hold."""
    if not isinstance(model, Transformer | EncoderDecoder | ConvNet):
        raise UsageError("only models with attention and convolutional networks can be exported")
    for module in model.modules():
        if isinstance(module, Stack) and type(module) is not Stack:
            raise UsageError("a model with attention within windows cannot be exported")
        if isinstance(module, DynamicRotaryPosition):
            raise UsageError("a model with rotary-dynamic positions cannot be exported")
        if isinstance(module, Stack) and any(not isinstance(b.attention.part, SelfAttention) for b in module.blocks):  # type: ignore[union-attr]
            raise UsageError("a model whose layers are convolutions over text cannot be exported")


def _text(model: Transformer, heads: Sequence[str], *, cached: bool) -> Graph:
    total = P + L if cached else L
    example = {"input_ids": torch.ones(B, L, dtype=torch.int64), "attention_mask": _mask(total)}
    dims: dict[str, tuple[str | None, ...]] = {"input_ids": ("batch", "sequence")}
    dims["attention_mask"] = ("batch", "past + sequence" if cached else "sequence")
    segment = model.embeddings.segment if isinstance(model.embeddings, TextEmbeddings) else None
    if segment is not None and segment.num_embeddings > 1:
        example["token_type_ids"] = torch.zeros(B, L, dtype=torch.int64)
        dims["token_type_ids"] = ("batch", "sequence")
    if cached:
        past = named(PAST, _room(model.stack, B, P))
        example |= past
        dims |= dict.fromkeys(past, ("batch", None, "past", None))
    return Graph(TextGraph(model, heads, cached=cached), example, dims)


def _encoder(model: EncoderDecoder, heads: Sequence[str]) -> Graph:
    example = {"input_ids": torch.ones(B, S, dtype=torch.int64), "attention_mask": _mask(S)}
    return Graph(EncoderGraph(model, heads), example, dict.fromkeys(example, ("batch", "source")))


def _decoder(model: EncoderDecoder, heads: Sequence[str]) -> Graph:
    beams, stack = 4, model.decoder
    assert stack is not None
    example = {"input_ids": torch.ones(B, beams, L, dtype=torch.int64), "encoder_attention_mask": _mask(S)}
    dims: dict[str, tuple[str | None, ...]] = {"input_ids": ("batch", "beam", "sequence")}
    dims["encoder_attention_mask"] = ("batch", "source")
    past, memory = named(PAST, _room(stack, B * beams, P)), named(MEMORY, _room(stack, B, S, crosses=crosses_of(model)))
    dims |= dict.fromkeys(past, ("batch * beam", None, "past", None))
    dims |= dict.fromkeys(memory, ("batch", None, "source", None))
    return Graph(DecoderGraph(model, heads), example | past | memory, dims)


def _images(model: Any, heads: Sequence[str]) -> Graph:
    shape = model.shape if isinstance(model, ConvNet) else model.embeddings.shape
    dims = {"pixel_values": ("batch", None, None, None)}
    return Graph(ImageGraph(model, heads), {"pixel_values": torch.zeros(B, *shape)}, dims)


def _head(model: Headed, name: str) -> Graph:
    leading = model.head(name).over == "leading"
    return Graph(
        HeadGraph(model, name),
        {"states": torch.zeros(B, 2, _width(model)) if leading else torch.zeros(B, _width(model))},
        {"states": ("rows", None, None) if leading else ("rows", None)},
    )


def _width(model: Any) -> int:
    """Return D."""
    if isinstance(model, ConvNet):
        return int(model.norm.num_channels)
    stack: Any = model.stack if isinstance(model, Transformer) else model.encoder
    return int(stack.blocks[0].attention.part.out.out_features)


def cache_shape(stack: Any) -> tuple[int, int, int]:
    """Return the layers, heads and width of a head of a stack's cache."""
    part = stack.blocks[0].attention.part
    return stack.depth, part.num_kv_heads, part.head_dim


def _room(stack: Stack, rows: int, length: int, crosses: Sequence[CrossAttention] = ()) -> list[Any]:
    depth, heads, head_dim = cache_shape(stack)
    if crosses:
        heads, head_dim = crosses[0].num_kv_heads, crosses[0].head_dim
    return [tuple(torch.zeros(rows, heads, length, head_dim) for _ in SIDES) for _ in range(depth)]


def _mask(length: int) -> Tensor:
    mask = torch.ones(B, length, dtype=torch.int64)
    mask[1, -1] = 0
    return mask
