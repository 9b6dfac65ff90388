"""Drop whole layers of a stack (Fan et al. 2020; Sajjad et al. 2023)."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

import torch

from qkv.checkpoints.folder import Folder
from qkv.common.errors import UsageError
from qkv.compression.refit import refit
from qkv.models.catalogue import family_of
from qkv.models.skeleton import EncoderDecoder, Transformer
from qkv.models.word2vec import Word2VecConfig
from qkv.nn.positions import ShawPosition
from qkv.nn.stack import Stack

FIELDS = {"stack": "num_layers", "encoder": "num_layers", "decoder": "num_decoder_layers"}


def stacks(folder: Folder) -> dict[str, Stack]:
    """Return the stacks of a model by the name of their module: stack, or encoder and decoder."""
    model = folder.model
    if isinstance(model, Transformer):
        return {"stack": model.stack}
    if not isinstance(model, EncoderDecoder):
        raise UsageError(f"{family_of(folder.config)} has no stack of layers to drop some of")
    return {"encoder": model.encoder} | ({} if model.decoder is None else {"decoder": model.decoder})


def check_layered(folder: Folder, name: str) -> None:
    """Raise an error for word vectors, with the name of their folder."""
    if isinstance(folder.config, Word2VecConfig):
        raise UsageError(
            f"{name} holds word vectors, without layers and heads: `qkv prune --vocabulary FILE` keeps the words of a "
            "text, and `qkv quantize` stores the vectors in int8"
        )


def check_layers(folder: Folder, name: str, count: int) -> None:
    """Raise an error if `count` layers cannot be dropped from a stack."""
    there = stacks(folder)
    if name not in there:
        raise UsageError(f"this {family_of(folder.config)} has no {name}: it has {', '.join(there)}")
    stack = there[name]
    if not 0 < count < stack.depth:
        raise UsageError(f"from 1 to {stack.depth - 1} of the {stack.depth} layers can be dropped, got {count}")
    if type(stack) is not Stack:
        raise UsageError("layers that attend within windows and layers that do not take turns: none can be dropped")
    if 1 < len(stack.blocks) < stack.depth:
        raise UsageError("the layers share their weights in groups, so that none can be dropped by itself")


def drop_layers(folder: Folder, name: str, dropped: Collection[int]) -> Folder:
    """Drop layers of one stack.

    Args:
        folder: the model.
        name: the stack: "stack", or "encoder" or "decoder".
        dropped: the layers, from 0. Where all layers share their weights (ALBERT), only their number counts.
    """
    check_layers(folder, name, len(set(dropped)))
    stack = stacks(folder)[name]
    if wrong := [layer for layer in dropped if not 0 <= layer < stack.depth]:
        raise UsageError(f"layers are numbered from 0 to {stack.depth - 1}, got {wrong[0]}")
    kept = [layer for layer in range(stack.depth) if layer not in dropped]
    places = {str(old): str(new) for new, old in enumerate(kept)} if len(stack.blocks) == stack.depth else {"0": "0"}
    block = re.compile(rf"{name}\.blocks\.(\d+)(\..*)")
    tensors = {}
    for key, tensor in folder.model.state_dict().items():
        found = block.fullmatch(key)
        if found is None:
            tensors[key] = tensor
        elif found[1] in places:
            tensors[f"{name}.blocks.{places[found[1]]}{found[2]}"] = tensor
    if isinstance(stack.position, ShawPosition):  # a table for each layer
        for part in ("keys", "values"):
            tensors[f"{name}.position.{part}"] = tensors[f"{name}.position.{part}"][torch.tensor(kept)]
    return refit(folder, replace(folder.config, **{FIELDS[name]: len(kept)}), tensors)
