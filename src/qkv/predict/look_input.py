"""Turn a text, a pair or an image into what a model reads, with a name for each of its tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from qkv.common.batch import Images, Pairs, Tokens
from qkv.common.errors import UsageError
from qkv.common.pixels import ImageProcessor
from qkv.data.resize import fitted
from qkv.insight.look import Picture
from qkv.models.position import position_limit
from qkv.predict.batching import check_ids
from qkv.predict.fill import spelled
from qkv.predict.images import read_images
from qkv.predict.runner import Runner
from qkv.predict.translate import best_path
from qkv.predict.verbs import tokenizer_for
from qkv.tokenizers.text import TextTokenizer


@dataclass(frozen=True, eq=False)
class Input:
    """What a model reads.

    Attributes:
        batch: one sequence, pair or image.
        tokens: the names of its tokens; in an encoder-decoder, those of the source.
        ids: the ids of these tokens; none for an image.
        read: in an encoder-decoder, the names of the tokens that the decoder reads.
        written: in an encoder-decoder, the names of the tokens that it predicts, one for each that it reads.
        wanted: their ids.
        picture: the image.
        notes: what a reader should know.
        said: the model's own translation, if no target was given.
    """

    batch: Tokens | Pairs | Images
    tokens: list[str]
    ids: list[int]
    read: list[str] | None = None
    written: list[str] | None = None
    wanted: list[int] | None = None
    picture: Picture | None = None
    notes: tuple[str, ...] = ()
    said: str | None = None


def read_input(model: Runner, text: str, target: str | None, options: Mapping[str, Any]) -> Input:
    """Prepare one input of any family.

    Args:
        model: the model.
        text: a text, or the path of an image.
        target: the translation, or the second text of a pair.
        options: of the search, if the model is to write the target itself.
    """
    decodes = getattr(model.module, "decoder", None) is not None
    if options and not (decodes and target is None):
        raise UsageError(f"{', '.join(options)}: only a translator that writes the target itself takes these options")
    if model.family == "vit":
        return _image(model, text, target)
    tokenizer = tokenizer_for(model, "look")
    if decodes:
        return _pair(model, tokenizer, text, target, options)
    return _text(model, tokenizer, text, target)


def _text(model: Runner, tokenizer: TextTokenizer, text: str, second: str | None) -> Input:
    """Prepare a text, or a pair of texts."""
    if second is not None and model.family == "gpt":
        raise UsageError("this gpt reads one text: give no second one")
    mask = tokenizer.specials.get("mask")
    if mask is not None:
        text = spelled(text, tokenizer.token_of(mask) or "", tokenizer)
    encoded = model.encode([text], None if second is None else [second])
    ids, segments = encoded.ids[0], None
    if model.family == "gpt" and ids[-1:] == [tokenizer.specials.get("end")]:
        ids = ids[:-1]  # what comes next is the question
    _some(ids)
    if getattr(model.config, "num_segments", 0) > 1:
        segments = encoded.segments
    check_ids(model.config, [ids], None, segments)
    return Input(Tokens.of([ids], segments=segments, device=model.device), tokenizer.pieces(ids), ids)


def _pair(model: Runner, tokenizer: TextTokenizer, text: str, target: str | None, options: Mapping[str, Any]) -> Input:
    """Prepare a source and its target, or the model's own translation: the path of the chosen hypothesis."""
    source = _some(model.encode([text]).ids[0])
    wanted = best_path(model, source, options) if target is None else model.encode([target]).ids[0]
    wanted = _some(wanted)[: position_limit(model.config)]
    read = [model.config.start_id, *wanted[:-1]]
    check_ids(model.config, [source], [read], None)
    said = tokenizer.decode(wanted) if target is None else None
    return Input(
        batch=Pairs(Tokens.of([source], device=model.device), Tokens.of([read], device=model.device)),
        tokens=tokenizer.pieces(source),
        ids=source,
        read=tokenizer.pieces(read),
        written=tokenizer.pieces(wanted),
        wanted=wanted,
        notes=() if said is None else (f"The model's own translation: {said}",),
        said=said,
    )


def _image(model: Runner, file: str, second: str | None) -> Input:
    """Prepare an image; a token is a patch, named by its row and column."""
    if second is not None:
        raise UsageError("this vit reads one image: give no second input")
    config = model.config
    (image,), (place,) = read_images("look", [file])
    pixels = torch.from_numpy(
        fitted(image, (config.channels, config.image_size, config.image_size), model.processor, place)
    )
    leading = ["[class]", "[distillation]"][: 2 if config.distilled else 1]
    grid = config.image_size // config.patch_size
    names = [*leading, *(f"patch {row},{column}" for row in range(grid) for column in range(grid))]
    picture = Picture(pixels, grid, len(leading))
    numbers = (model.processor or ImageProcessor()).numbers(pixels.unsqueeze(0))
    return Input(Images(numbers.to(model.device)), names, [], picture=picture)


def _some(ids: list[int]) -> list[int]:
    if not ids:
        raise UsageError("the text has no tokens: give one with at least one word")
    return ids
