"""How a model's representations change from layer to layer, and how two models compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from qkv.common.batch import Tokens
from qkv.common.errors import UsageError
from qkv.insight.depth import Alikeness, AlikenessMeter, layer_states
from qkv.insight.layer_similarity import ROWS, layer_similarity
from qkv.insight.position_geometry import scores_by_distance
from qkv.predict.heads import same_tokens, text_batches
from qkv.predict.runner import Runner
from qkv.predict.texts import check_texts
from qkv.predict.verbs import tokenizer_for

VARIANTS = {  # skip connections, feed-forward layers
    "whole model": (True, True),
    "no feed-forward": (True, False),
    "no skip": (False, True),
    "attention alone": (False, False),
}
REACH = 32
LONGEST = 128  # tokens of the sequence in which only positions differ


@dataclass(frozen=True)
class Layers:
    """What the layers of a model do to some texts; of an encoder-decoder, those of the encoder.

    Attributes:
        alike: how alike the tokens of a text are after each layer, for the model and without some of its parts.
        similarity: linear CKA of each layer with each layer, of this model or of the other. Layer 0 is the embeddings.
        rows: what CKA compares: tokens, or texts if the two models cut texts into different tokens.
        scores: the mean q·k by distance, from -32 to 32, of each layer and head, on the texts.
        positions: the same with one token at every place, which leaves only what positions do.
    """

    alike: dict[str, Alikeness]
    similarity: list[list[float]]
    rows: str
    scores: Tensor
    positions: Tensor

    def to_dict(self) -> dict[str, Any]:
        """Return everything for JSON; a distance that does not occur is null."""
        alike = {name: {"cosine": one.cosine, "residual": one.residual} for name, one in self.alike.items()}
        distances = list(range(-REACH, REACH + 1))
        curves = {"distances": distances, "texts": self.scores.tolist(), "same_token": self.positions.tolist()}
        return {"alike": alike, "similarity": self.similarity, "rows": self.rows, "scores": curves}


def layers(model: Runner, texts: Sequence[str], other: Runner | None = None) -> Layers:
    """Measure the layers of a model; see `Model.layers`."""
    for one in (model, model if other is None else other):
        one.check_layers("layers")
    if not check_texts("layers", texts):
        raise UsageError("layers are measured on texts: give at least one")
    tokenizer_for(model, "layers")
    batches = [batch for batch in text_batches(model, texts, targets=False) if isinstance(batch, Tokens)]
    alike = {name: AlikenessMeter() for name in VARIANTS}
    for batch in batches:
        for name, (skip, feedforward) in VARIANTS.items():
            alike[name].add(*layer_states(model.module, batch, skip=skip, feedforward=feedforward))
    similarity, rows = compare_layers(model, model if other is None else other, texts)
    (scores,) = scores_by_distance(model.module, batches, REACH).values()
    (positions,) = scores_by_distance(model.module, [same_tokens(model, LONGEST)], REACH).values()
    return Layers(
        alike={name: meter.result() for name, meter in alike.items()},
        similarity=similarity.tolist(),
        rows=rows,
        scores=scores,
        positions=positions,
    )


def compare_layers(model: Runner, other: Runner, texts: Sequence[str]) -> tuple[Tensor, str]:
    """Return the linear CKA of each layer of one model with each of another, and what it compares: tokens or texts.

    Shape: [layers + 1, layers + 1]; the first of each is the embeddings.
    """
    first, second = model.encode(texts).ids, other.encode(texts).ids
    by_token = [len(ids) for ids in first] == [len(ids) for ids in second] and (
        model is other or _cuts(model) == _cuts(other)
    )
    states = _states(model, texts, by_token)
    found = states if model is other else _states(other, texts, by_token)
    if len(states[0]) < 4:
        raise UsageError(f"layers are compared on at least 4 {'tokens' if by_token else 'texts'}: give more text")
    return layer_similarity(states, found), "tokens" if by_token else "texts"


def _cuts(model: Runner) -> str:
    return model.tokenizer.fingerprint if model.tokenizer else ""


def _states(model: Runner, texts: Sequence[str], by_token: bool) -> list[Tensor]:
    """Return the states of each layer, for at most some thousand tokens or texts. Shape of each: [T, D]."""
    encoded = model.encode(texts)
    parts: list[list[Tensor]] = []
    rows = 0
    for number in islice(range(len(texts)), ROWS * 4):
        segments = [encoded.segments[number]] if getattr(model.config, "num_segments", 0) > 1 else None
        states, layout = layer_states(
            model.module, Tokens.of([encoded.ids[number]], segments=segments, device=model.device)
        )
        parts.append([(x if by_token else layout.mean(x)).cpu() for x in states])
        rows += len(parts[-1][0])
        if rows >= ROWS * 2:
            break
    return [torch.cat(list(layer)) for layer in zip(*parts, strict=True)]
