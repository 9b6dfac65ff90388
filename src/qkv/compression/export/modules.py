"""The modules that are traced: from named tensors to named tensors, over the layouts in `cells.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from qkv.common.batch import Images, Tokens
from qkv.common.outputs import Hidden
from qkv.compression.export.cells import Cells, PastCache
from qkv.models.convnet import ConvNet
from qkv.models.skeleton import EncoderDecoder, Headed, Transformer
from qkv.nn.attention import CrossAttention, PassContext
from qkv.nn.positions import Place

PAST, PRESENT, MEMORY = "past_key_values", "present", "memory"
SIDES = ("key", "value")

Named = dict[str, Tensor]


class TextGraph(nn.Module):
    """One stack over text: an encoder, or with a cache a language model."""

    def __init__(self, model: Transformer, heads: Sequence[str], *, cached: bool) -> None:
        super().__init__()
        self.model, self.names, self.cached = model, heads, cached

    def forward(self, given: Named) -> Named:
        """Compute states and scores."""
        keys, length = Cells.of(given["attention_mask"]), given["input_ids"].shape[1]
        queries = keys.newest(length) if self.cached else keys
        cache = PastCache(queries, keys, _pairs(given, PAST), []) if self.cached else None
        context: Any = _context(queries, keys, cache)
        x = self.model.stack(_embedded(self.model, given, queries, context.place), context)
        found = {"last_hidden_state": queries.spread(x)} | _scores(self.model, x, queries, self.names)
        return found | (named(PRESENT, cache.present) if cache is not None else {})


class EncoderGraph(nn.Module):
    """The encoder of an encoder-decoder, and the keys and values that each layer of the decoder makes of its states."""

    def __init__(self, model: EncoderDecoder, heads: Sequence[str]) -> None:
        super().__init__()
        self.model, self.names = model, heads

    def forward(self, given: Named) -> Named:
        """Compute states, and the memory of the decoder."""
        cells = Cells.of(given["attention_mask"])
        context: Any = _context(cells, cells, None)
        x = self.model.encoder(_embedded(self.model, given, cells, context.place), context)
        memory = [
            tuple(cells.spread(side).transpose(1, 2) for side in cross.project(x)) for cross in crosses_of(self.model)
        ]
        return (
            {"last_hidden_state": cells.spread(x)} | _scores(self.model, x, cells, self.names) | named(MEMORY, memory)
        )


class DecoderGraph(nn.Module):
    """The decoder of an encoder-decoder: several targets of each source, which share its memory."""

    def __init__(self, model: EncoderDecoder, heads: Sequence[str]) -> None:
        super().__init__()
        self.model, self.names = model, heads

    def forward(self, given: Named) -> Named:
        """Compute states and scores of new tokens, all at the same position."""
        ids, past = given["input_ids"], _pairs(given, PAST)
        sources, beams, length = ids.shape
        before = past[0][0].shape[2]
        queries = Cells.full(sources * beams, length, before)
        cache = PastCache(queries, Cells.full(sources * beams, before + length), past, _pairs(given, MEMORY))
        memory: Any = Hidden(ids, Cells.of(given["encoder_attention_mask"]))  # type: ignore[arg-type]
        context: Any = _context(queries, cache.keys, cache, memory, Cells.full(sources, beams * length))
        embedded = _embedded(self.model, {"input_ids": ids.flatten(0, 1)}, queries, context.place)
        assert self.model.decoder is not None
        x = self.model.decoder(embedded, context)
        found = {"last_hidden_state": queries.spread(x)} | _scores(self.model, x, queries, self.names)
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
            context: Any = _context(cells, cells, None)
            x = self.model.stack(self.model.embeddings.complete(x_BLD, context.place), context)
        return {"last_hidden_state": cells.spread(x)} | _scores(self.model, x, cells, self.names)


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


def named(prefix: str, layers: Sequence[Any]) -> Named:
    """Name the keys and values of each layer."""
    return {f"{prefix}.{i}.{side}": x for i, pair in enumerate(layers) for side, x in zip(SIDES, pair, strict=True)}


def _pairs(given: Mapping[str, Any], prefix: str) -> list[tuple[Any, Any]]:
    """Return the keys and values of each layer."""
    number = sum(name.startswith(prefix + ".") for name in given) // 2
    return [(given[f"{prefix}.{i}.key"], given[f"{prefix}.{i}.value"]) for i in range(number)]


def _scores(model: Headed, x: Tensor, cells: Cells, names: Sequence[str]) -> Named:
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


def _context(queries: Any, keys: Any, cache: Any, memory: Any = None, askers: Any = None) -> PassContext:
    """Start a pass over cells."""
    return PassContext(Place(queries, keys, queries.position_of), cache, memory, askers or queries)


def _embedded(model: Any, given: Named, cells: Any, place: Place) -> Tensor:
    segments = given.get("token_type_ids")
    batch = Tokens(cells.rows(given["input_ids"]), cells, None if segments is None else cells.rows(segments))
    found: Tensor = model.embeddings(batch, place)
    return found


def crosses_of(model: EncoderDecoder) -> list[CrossAttention]:
    """List the cross-attention of each layer of the decoder."""
    if model.decoder is None:
        return []
    blocks: list[Any] = list(model.decoder.blocks)
    return [blocks[i * len(blocks) // model.decoder.depth].cross.part for i in range(model.decoder.depth)]
