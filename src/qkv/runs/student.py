"""The model that a student begins as: chosen layers of a trained model."""

from __future__ import annotations

from dataclasses import replace

from qkv.checkpoints.folder import Folder
from qkv.common.errors import UsageError
from qkv.compression.layers import drop_layers, stacks
from qkv.objectives.distill import DistillConfig
from qkv.recipes.schema import INIT, ModelSection, Recipe


def starting_from(recipe: Recipe, model: str) -> Recipe:
    """Return a recipe that starts from a model, whose sizes, tokenizer and stored dtype it takes."""
    auto = tuple(key for key in recipe.auto or () if not key.startswith(("model.", "tokenizer.")))
    return replace(recipe, model=ModelSection(init=model, dtype=INIT), auto=auto or None)


def student_of(start: Folder, config: DistillConfig) -> Folder:
    """Return the model to start from with the layers that the recipe chooses, all if it chooses none."""
    chosen = {"distill.layers": config.layers, "distill.decoder_layers": config.decoder_layers}
    if not any(chosen.values()):
        return start
    there = stacks(start)
    for (key, layers), name in zip(
        chosen.items(), ("encoder" if "encoder" in there else "stack", "decoder"), strict=True
    ):
        if not layers:
            continue
        if name not in there:
            raise UsageError(f"{key}: model.init has no {name}, only {', '.join(there)}")
        depth = there[name].depth
        if list(layers) != sorted(set(layers)) or not 0 <= layers[0] <= layers[-1] < depth:
            raise UsageError(f"{key} takes rising numbers of layers from 0 to {depth - 1}, got {list(layers)}")
        if len(layers) < depth:
            start = drop_layers(start, name, set(range(depth)) - set(layers))
    return start


def even_layers(depth: int, count: int) -> tuple[int, ...]:
    """Return `count` of `depth` layers, evenly from the first to the last; of one, the first (Shleifer & Rush 2020)."""
    return tuple(round(layer * (depth - 1) / max(1, count - 1)) for layer in range(count))


def default_layers(depth: int, name: str) -> int:
    """Return how many layers of a stack a student has by default: a third, at least one; an "encoder" keeps all.

    In an encoder-decoder, the encoder reads a text once, while the decoder runs for each token and is the one whose
    depth matters less (Kasai et al. 2021).
    """
    return depth if name == "encoder" else max(1, round(depth / 3))
