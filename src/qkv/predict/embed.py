"""One vector for a text: its states pooled, then what its folder puts after that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from qkv.checkpoints.sentence import POOLINGS, Dense, SentenceModel
from qkv.common.errors import UsageError, unknown
from qkv.common.outputs import Hidden
from qkv.predict.finite import finite
from qkv.predict.runner import Runner
from qkv.predict.texts import check_texts

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "Tanh": torch.tanh,
    "Identity": lambda x: x,
    "ReLU": F.relu,
    "GELU": F.gelu,
    "SiLU": F.silu,
    "Sigmoid": torch.sigmoid,
}


def embed(
    model: Runner,
    texts: Sequence[str],
    *,
    pooling: str | None,
    normalize: bool,
    prompt: str | None,
    prompt_name: str | None,
    output: str,
    progress: Callable[[int], None] | None,
) -> np.ndarray[Any, Any] | Tensor:
    """Turn each text into one vector; see `Model.embed`."""
    check_texts("embed", texts)
    way = chosen(model.sentence, pooling)
    before = prompt_of(way, prompt, prompt_name)
    if output not in ("numpy", "torch"):
        raise unknown("output", output, ["numpy", "torch"])
    encoded = model.encode([before + text for text in texts] if before else texts)
    skip = _prompt_tokens(model, before) if before and not way.include_prompt else 0

    def pool(hidden: Hidden) -> list[Tensor]:
        return list(vectors(hidden, way, skip))

    rows = model.run(encoded.ids, model.module.encoder_states, pool, segments=encoded.segments, progress=progress)
    found = finite(torch.stack(rows)) if rows else torch.empty(0, way.width(model.config.dim))
    if normalize:
        found = F.normalize(found, dim=-1)
    return found.cpu().numpy() if output == "numpy" else found


def _prompt_tokens(model: Runner, prompt: str) -> int:
    """Count the tokens of a prompt that stand before those of a text: a special one at its end does not."""
    (ids,) = model.encode([prompt]).ids
    special = set(model.tokenizer.specials.values()) if model.tokenizer else set()
    return len(ids) - (bool(ids) and ids[-1] in special)


def chosen(sentence: SentenceModel, pooling: str | None) -> SentenceModel:
    """Return the folder's own way, or a pooling that the caller asks for instead, with nothing after it."""
    if pooling is None or pooling == "+".join(sentence.pooling):
        return sentence
    for way in pooling.split("+"):
        if way not in POOLINGS:
            raise unknown("pooling", pooling, ["mean", *(name for name in POOLINGS if name != "mean")])
    return SentenceModel(pooling=tuple(pooling.split("+")), prompts=sentence.prompts)


def prompt_of(sentence: SentenceModel, prompt: str | None, prompt_name: str | None) -> str:
    """Return what is put before each text: the given prompt, the named one, or the folder's default."""
    if prompt is not None and prompt_name is not None:
        raise UsageError("give a prompt or a prompt_name, not both")
    if prompt is not None:
        return prompt
    name = sentence.default_prompt if prompt_name is None else prompt_name
    if name is None:
        return ""
    if name not in sentence.prompts:
        raise unknown("prompt_name", name, sentence.prompts)
    return sentence.prompts[name]


def vectors(hidden: Hidden, sentence: SentenceModel, skip: int) -> Tensor:
    """Pool the states of each text and apply the folder's layers; `skip` leaves out its first tokens.

    Shape: [T, D] -> [B, vector].
    """
    x = pool(hidden, sentence.pooling, 0 if sentence.include_prompt else skip).float()
    for part in sentence.after:
        if isinstance(part, Dense):
            bias = None if part.bias is None else part.bias.to(x)
            x = ACTIVATIONS[part.activation](F.linear(x, part.weight.to(x), bias))
        else:
            x = F.normalize(x, dim=-1)
    return x


def pool(hidden: Hidden, ways: Sequence[str], skip: int = 0) -> Tensor:
    """Turn the states of each text into one vector, or into several that are joined. Shape: [T, D] -> [B, ways · D]."""
    layout, x_TD = hidden.layout, hidden.states
    if list(ways) == ["mean"] and not skip:
        return layout.mean(x_TD)
    kept = (layout.position_of >= skip).unsqueeze(-1)

    def total(weights: Tensor) -> tuple[Tensor, Tensor]:
        weights = (weights * kept).float()
        sums = x_TD.new_zeros(layout.num_sequences, x_TD.shape[-1] + 1, dtype=torch.float32)
        sums.index_add_(0, layout.sequence_of, torch.cat([x_TD.float() * weights, weights], -1))
        return sums[:, :-1], sums[:, -1:].clamp_min(1e-9)

    def one(way: str) -> Tensor:
        if way == "first":
            return x_TD[layout.first + torch.where(layout.lengths > skip, skip, 0)].float()
        if way == "last":
            return x_TD[layout.last].float()
        if way == "max":
            rows = layout.sequence_of.long().unsqueeze(-1).expand_as(x_TD)
            lowest = x_TD.new_full((layout.num_sequences, x_TD.shape[-1]), -torch.inf)
            return lowest.scatter_reduce(0, rows, x_TD.masked_fill(~kept, -torch.inf), "amax").float()
        weighted = way == "weighted_mean"
        sums, count = total(layout.position_of.unsqueeze(-1) + 1 if weighted else torch.ones_like(kept))
        return sums / (count.sqrt() if way == "mean_sqrt" else count)

    return torch.cat([one(way) for way in ways], -1)
