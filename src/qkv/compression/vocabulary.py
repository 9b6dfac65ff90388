"""Keep only the tokens that a field uses: the tokenizer and the tables of tokens shrink together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from qkv.checkpoints.folder import Folder
from qkv.checkpoints.hf.generation import GenerationDefaults
from qkv.common.errors import UsageError
from qkv.compression.refit import refit
from qkv.models import catalogue
from qkv.nn.init import without_weights
from qkv.tokenizers.subset import subset

SPECIAL = ("start_id", "end_id", "pad_id")  # of a config
LISTS = ("suppress_tokens", "begin_suppress_tokens", "bad_words_ids", "force_words_ids")  # of generation_config.json


def prune_vocabulary(folder: Folder, texts: Iterable[str]) -> Folder:
    """Keep the tokens of some texts, the special tokens and the letters.

    A text is encoded as before, with other numbers, if all of its tokens are kept; any other text is still split into
    pieces. The scores of kept tokens do not change.

    Args:
        folder: a model of text with its tokenizer.
        texts: as many texts of the field as there are; for a translator, of both languages.
    """
    if folder.tokenizer is None or not hasattr(folder.config, "vocab_size"):
        raise UsageError(f"{catalogue.family_of(folder.config)} has no tokens to remove: it comes without a tokenizer")
    config = folder.config
    named = [number for key in SPECIAL if (number := getattr(config, key, None)) is not None]
    tokenizer, kept = subset(folder.tokenizer, _with_prompts(folder, texts), always=named)
    place = {old: new for new, old in enumerate(kept)}
    ids = {key: place[getattr(config, key)] for key in SPECIAL if getattr(config, key, None) is not None}
    fields = {key: number for key, number in ids.items() if key in type(config).__dataclass_fields__}
    if any(ids[key] != getattr(config, key) for key in ids.keys() - fields.keys()):
        raise UsageError("this family starts with token 0, which the tokenizer does not know: its tokens cannot move")
    smaller = replace(config, vocab_size=len(kept), **fields)
    shrunk = refit(folder, smaller, _rows(folder, smaller, torch.tensor(kept)))
    return replace(shrunk, tokenizer=tokenizer, generation=_renumbered(folder.generation, place))


def _with_prompts(folder: Folder, texts: Iterable[str]) -> Iterable[str]:
    """Add what the model reads before and after the user's texts."""
    yield from (folder.prefix, folder.suffix)
    for task in folder.text_tasks.values():
        yield from (task.prefix, task.between, *task.labels.values())
    yield from folder.sentence.prompts.values()
    yield from texts


def _rows(folder: Folder, smaller: Any, kept: Tensor) -> dict[str, Tensor]:
    """Cut every dimension that depends on the vocabulary: those in which a model of the smaller config differs."""
    with without_weights():
        wanted = catalogue.build(smaller).state_dict()
    found = {}
    for name, tensor in folder.model.state_dict().items():
        for dimension, (old, new) in enumerate(zip(tensor.shape, wanted[name].shape, strict=True)):
            if old != new:
                tensor = tensor.index_select(dimension, kept.to(tensor.device))
        found[name] = tensor
    return found


def _renumbered(known: GenerationDefaults | None, place: Mapping[int, int]) -> GenerationDefaults | None:
    """Renumber the tokens in generation_config.json; lists of tokens that are forbidden or forced are left out."""
    if known is None:
        return None

    def new(value: Any) -> Any:
        return [new(one) for one in value] if isinstance(value, list) else place.get(value)

    raw = {key: new(value) if key.endswith("_token_id") else value for key, value in known.raw.items()}
    return GenerationDefaults({key: value for key, value in raw.items() if key not in LISTS})
