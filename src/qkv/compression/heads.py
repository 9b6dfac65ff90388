"""Remove attention heads for good (Michel et al. 2019): the matrices become smaller, and the width of a head stays.

Every layer loses the same number of heads, so that a config still describes a model by `num_heads` and `head_dim`, and
every kernel, cache and engine takes it. Heads that share something go together: the query heads of one key/value head,
the layers of ALBERT that share their weights, and the layers of a T5 stack, which share one table of position biases.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from qkv.checkpoints.folder import Folder
from qkv.common.errors import UsageError
from qkv.compression.refit import refit
from qkv.models.catalogue import family_of
from qkv.models.skeleton import EncoderDecoder, Transformer
from qkv.nn.attention import CrossAttention, SelfAttention
from qkv.nn.positions import AlibiPosition, BucketedPosition
from qkv.nn.stack import Stack

Attention = SelfAttention | CrossAttention
PARTS = {"self": "attention", "encoder": "attention", "decoder": "attention", "cross": "cross"}  # of a block, by kind


def prune_heads(folder: Folder, importance: Mapping[str, Tensor], share: float) -> Folder:
    """Remove the least important heads of every layer.

    Args:
        folder: a model with attention heads.
        importance: how much each head matters, by kind of attention, as `insight.head_importance` gives it. Shape of
            each: [layers, heads].
        share: the share of the heads to remove, above 0 and below 1.
    """
    config = check_heads(folder, share)
    tensors = dict(folder.model.state_dict())
    names = {module: name for name, module in folder.model.named_modules()}
    for kind, stack in stacks_by_kind(folder.model).items():
        kept = _kept(stack, PARTS[kind], importance[kind], share)
        for attention, groups in kept.items():
            _cut(tensors, names[attention], attention, groups)
        if isinstance(stack.position, BucketedPosition) and kind != "cross":
            table = f"{names[stack.position]}.table.weight"
            tensors[table] = tensors[table][:, next(iter(kept.values()))]
    return refit(folder, config, tensors)


def check_heads(folder: Folder, share: float) -> Any:
    """Return the config of the model without a share of its heads; raise an error if they cannot be removed."""
    config, model = folder.config, folder.model
    family = family_of(config)
    if "head_dim" not in {field.name for field in dataclasses.fields(config)} or not stacks_by_kind(model):
        raise UsageError(f"{family} has no attention heads to remove")
    stacks = list(stacks_by_kind(model).values())
    if any(isinstance(stack.position, AlibiPosition) for stack in stacks):
        raise UsageError("ALiBi gives each head a slope by its number, so that no head can be removed")
    if len({_attentions(stack, "attention")[0].head_dim for stack in stacks}) > 1:
        raise UsageError("the heads of encoder and decoder have different widths, which no config can say once some go")
    if not 0 < share < 1:
        raise UsageError(f"heads must be a share above 0 and below 1, such as 0.25, got {share:g}")
    return _config(folder, share)


def stacks_by_kind(model: nn.Module) -> dict[str, Stack]:
    """Return the stack of each kind of attention; an encoder-decoder has three kinds in two stacks."""
    if isinstance(model, Transformer):
        return {"self": model.stack}
    if not isinstance(model, EncoderDecoder):
        return {}
    decoder = {} if model.decoder is None else {"decoder": model.decoder, "cross": model.decoder}
    return {"encoder": model.encoder, **decoder}


def removed(groups: int, share: float) -> int:
    """Return how many of a layer's heads go: the nearest number, and an error if that is none or all of them."""
    number = round(share * groups)
    if not 0 < number < groups:
        what = "none" if number == 0 else "all"
        raise UsageError(f"{share:g} of the {groups} heads of a layer is {what} of them: choose another share")
    return number


def _attentions(stack: Stack, part: str) -> list[Attention]:
    """Return the attention of each layer; layers may share one."""
    return [getattr(stack.blocks[i * len(stack.blocks) // stack.depth], part).part for i in range(stack.depth)]


def _kept(stack: Stack, part: str, importance: Tensor, share: float) -> dict[Attention, Tensor]:
    """Choose the key/value heads that stay in each attention of a stack."""
    sums: dict[Any, Tensor] = {}
    together = isinstance(stack.position, BucketedPosition) and part == "attention"
    layers = _attentions(stack, part)
    for attention, row in zip(layers, importance, strict=True):
        groups = row.view(attention.num_kv_heads, -1).sum(1)
        key = None if together else attention
        sums[key] = sums.get(key, torch.zeros_like(groups)) + groups
    most = {key: len(row) - removed(len(row), share) for key, row in sums.items()}
    best = {key: row.argsort(descending=True, stable=True)[: most[key]].sort().values for key, row in sums.items()}
    return {attention: best[None if together else attention] for attention in layers}


def _cut(tensors: dict[str, Tensor], name: str, attention: Attention, groups: Tensor) -> None:
    """Keep the rows of some key/value heads and their query heads, and the columns of the output that read them."""
    width, count = attention.head_dim, attention.num_kv_heads
    queries = _rows(groups, width * attention.num_heads // count)
    keys, start = _rows(groups, width), width * attention.num_heads
    if isinstance(attention, SelfAttention):
        cuts = {"qkv": torch.cat([queries, start + keys, start + width * count + keys])}
    else:
        cuts = {"q": queries, "kv": torch.cat([keys, width * count + keys])}
    for product, rows in cuts.items():
        for part in ("weight", "bias"):
            if (whole := f"{name}.{product}.{part}") in tensors:
                tensors[whole] = tensors[whole][rows]
    tensors[f"{name}.out.weight"] = tensors[f"{name}.out.weight"][:, queries]


def _rows(groups: Tensor, width: int) -> Tensor:
    """Return the rows of some heads of `width` rows each."""
    return (groups.unsqueeze(1) * width + torch.arange(width)).flatten()


def _config(folder: Folder, share: float) -> Any:
    config, changes = folder.config, dict[str, int]()
    for field in ("num_heads", "num_kv_heads", "num_decoder_heads"):
        if (number := getattr(config, field, None)) is not None:
            changes[field] = number
    groups = changes.get("num_kv_heads", changes["num_heads"])
    left = groups - removed(groups, share)
    changes["num_heads"] = changes["num_heads"] // groups * left
    if "num_kv_heads" in changes:
        changes["num_kv_heads"] = left
    if other := changes.get("num_decoder_heads"):
        changes["num_decoder_heads"] = other - removed(other, share)
    (width, *_) = (_attentions(stack, "attention")[0].head_dim for stack in stacks_by_kind(folder.model).values())
    return dataclasses.replace(config, **changes, head_dim=width)
