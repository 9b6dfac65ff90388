"""What is exported of a model: modules from named tensors to named tensors, traced with example inputs.

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

from qkv.common.batch import Images, Tokens
from qkv.common.errors import UsageError
from qkv.common.outputs import Hidden
from qkv.compression.export.cells import Cells, PastCache, attend
from qkv.models.convnet import ConvNet
from qkv.models.skeleton import EncoderDecoder, Headed, Transformer
from qkv.nn.attention import CrossAttention, PassContext, SelfAttention
from qkv.nn.embeddings import PatchEmbeddings, TextEmbeddings
from qkv.nn.positions import DynamicRotaryPosition, Place
from qkv.nn.stack import Stack

MODEL, STATES, ENCODER, DECODER, HEAD = "model", "states", "encoder_model", "decoder_model", "head_"
LARGE = {"mlm", "lm"}  # heads over the vocabulary, which not every verb needs

Named = dict[str, Tensor]


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
    """Return the graphs of a model by name. The attention of the model is changed: it can only be traced afterwards."""
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


class TextGraph(nn.Module):
    """One stack over text: an encoder, or with a cache a language model."""

    def __init__(self, model: Transformer, heads: Sequence[str], *, cached: bool) -> None:
        super().__init__()
        self.model, self.names, self.cached = model, heads, cached

    def forward(self, given: Named) -> Named:
        """Compute states and scores."""
        keys, length = Cells.of(given["attention_mask"]), given["input_ids"].shape[1]
        queries = keys.newest(length) if self.cached else keys
        cache = PastCache(queries, keys, pairs(given, PAST), []) if self.cached else None
        context: Any = context_of(queries, keys, cache)
        x = self.model.stack(_embedded(self.model, given, queries, context.place), context)
        found = {"last_hidden_state": queries.spread(x)} | scores(self.model, x, queries, self.names)
        return found | (named(PRESENT, cache.present) if cache is not None else {})


class EncoderGraph(nn.Module):
    """The encoder of an encoder-decoder, and the keys and values that each layer of the decoder makes of its states."""

    def __init__(self, model: EncoderDecoder, heads: Sequence[str]) -> None:
        super().__init__()
        self.model, self.names = model, heads

    def forward(self, given: Named) -> Named:
        """Compute states, and the memory of the decoder."""
        cells = Cells.of(given["attention_mask"])
        context: Any = context_of(cells, cells, None)
        x = self.model.encoder(_embedded(self.model, given, cells, context.place), context)
        memory = [
            tuple(cells.spread(side).transpose(1, 2) for side in cross.project(x)) for cross in _crosses(self.model)
        ]
        return {"last_hidden_state": cells.spread(x)} | scores(self.model, x, cells, self.names) | named(MEMORY, memory)


class DecoderGraph(nn.Module):
    """The decoder of an encoder-decoder: several targets of each source, which share its memory."""

    def __init__(self, model: EncoderDecoder, heads: Sequence[str]) -> None:
        super().__init__()
        self.model, self.names = model, heads

    def forward(self, given: Named) -> Named:
        """Compute states and scores of new tokens, all at the same position."""
        ids, past = given["input_ids"], pairs(given, PAST)
        sources, beams, length = ids.shape
        before = past[0][0].shape[2]
        queries = Cells.full(sources * beams, length, before)
        cache = PastCache(queries, Cells.full(sources * beams, before + length), past, pairs(given, MEMORY))
        memory: Any = Hidden(ids, Cells.of(given["encoder_attention_mask"]))  # type: ignore[arg-type]
        context: Any = context_of(queries, cache.keys, cache, memory, Cells.full(sources, beams * length))
        embedded = _embedded(self.model, {"input_ids": ids.flatten(0, 1)}, queries, context.place)
        assert self.model.decoder is not None
        x = self.model.decoder(embedded, context)
        found = {"last_hidden_state": queries.spread(x)} | scores(self.model, x, queries, self.names)
        found = {name: rows.unflatten(0, (sources, beams)) for name, rows in found.items()}
        return found | named(PRESENT, cache.present)


class ImageGraph(nn.Module):
    """A model of images."""

    def __init__(self, model: Any, heads: Sequence[str]) -> None:
        super().__init__()
        self.model, self.names = model, heads

    def forward(self, given: Named) -> Named:
        """Compute states and scores."""
        images = Images(given["pixel_values"])
        if isinstance(self.model, ConvNet):
            x = self.model.features(images)
            cells = Cells.full(images.pixels.shape[0], 1)
        else:
            x_BLD = self.model.embeddings.patches(images)
            cells = Cells.full(x_BLD.shape[0], x_BLD.shape[1])
            context: Any = context_of(cells, cells, None)
            x = self.model.stack(self.model.embeddings.complete(x_BLD, context.place), context)
        return {"last_hidden_state": cells.spread(x)} | scores(self.model, x, cells, self.names)


class HeadGraph(nn.Module):
    """One head over states: of rows, or of the row that a sequence is pooled from (the first two, for DeiT)."""

    def __init__(self, model: Headed, name: str) -> None:
        super().__init__()
        self.model, self.name = model, name

    def forward(self, given: Named) -> Named:
        """Compute scores."""
        states = given["states"]
        if self.model.head(self.name).over == "leading":
            cells: Any = Cells.full(states.shape[0], 2)
            return {"logits": self.model.logits(Hidden(states.flatten(0, 1), cells), self.name)}
        each: Any = Cells.full(states.shape[0], 1)
        return {"logits": self.model.logits(Hidden(states, each), self.name)}


PAST, PRESENT, MEMORY = "past_key_values", "present", "memory"


def named(prefix: str, layers: Sequence[Any]) -> Named:
    """Name the keys and values of each layer."""
    return {f"{prefix}.{i}.{side}": x for i, pair in enumerate(layers) for side, x in zip(SIDES, pair, strict=True)}


SIDES = ("key", "value")


def pairs(given: Mapping[str, Any], prefix: str) -> list[tuple[Any, Any]]:
    """Return the keys and values of each layer."""
    number = sum(name.startswith(prefix + ".") for name in given) // 2
    return [(given[f"{prefix}.{i}.key"], given[f"{prefix}.{i}.value"]) for i in range(number)]


def scores(model: Headed, x: Tensor, cells: Cells, names: Sequence[str]) -> Named:
    """Compute the scores of heads; the first is called `logits`, and both sides of a span as elsewhere."""
    layout: Any = cells
    found: Named = {}
    for number, name in enumerate(names):
        scored = model.logits(Hidden(x, layout), name)
        scored = cells.spread(scored) if model.head(name).over == "rows" else scored
        if name == "span":
            found |= {"start_logits": scored[..., 0], "end_logits": scored[..., 1]}
        else:
            found["logits" if number == 0 else f"logits_{name}"] = scored
    return found


def context_of(queries: Any, keys: Any, cache: Any, memory: Any = None, askers: Any = None) -> PassContext:
    """Start a pass over cells."""
    return PassContext(Place(queries, keys, queries.position_of), cache, memory, askers or queries)


def _embedded(model: Any, given: Named, cells: Any, place: Place) -> Tensor:
    segments = given.get("token_type_ids")
    batch = Tokens(cells.rows(given["input_ids"]), cells, None if segments is None else cells.rows(segments))
    found: Tensor = model.embeddings(batch, place)
    return found


def _crosses(model: EncoderDecoder) -> list[CrossAttention]:
    """List the cross-attention of each layer of the decoder."""
    if model.decoder is None:
        return []
    blocks: list[Any] = list(model.decoder.blocks)
    return [blocks[i * len(blocks) // model.decoder.depth].cross.part for i in range(model.decoder.depth)]


B, L, S, P = 2, 5, 7, 3  # of the examples: sequences, new tokens, source tokens, tokens before


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
    past, memory = named(PAST, _room(stack, B * beams, P)), named(MEMORY, _room(stack, B, S, crosses=_crosses(model)))
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
        {"states": torch.zeros(B, 2, width(model)) if leading else torch.zeros(B, width(model))},
        {"states": ("rows", None, None) if leading else ("rows", None)},
    )


def width(model: Any) -> int:
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
