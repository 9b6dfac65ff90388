"""The model that a recipe starts from if it names none: the built-in encoder, for tasks that fine-tune one."""

from __future__ import annotations

from qkv.common.config import override
from qkv.common.errors import UsageError
from qkv.predict.loading import built_in
from qkv.recipes.schema import Recipe, Say
from qkv.tasks.base import Task

ENCODER = "english"
OTHERS = "set model.init=FOLDER or hf:OWNER/NAME for another"


def with_default_model(recipe: Recipe, task: Task, say: Say) -> Recipe:
    """Return the recipe with `model.init`, and say so, if it names no model and the task fine-tunes an encoder."""
    if recipe.model.preset or recipe.model.init or not task.starts_from_encoder:
        return recipe
    if ENCODER not in built_in():
        raise UsageError(
            f"this copy of qkv has no built-in encoder {ENCODER!r}: set model.init=FOLDER or hf:OWNER/NAME, or "
            "model.preset=NAME to start with random weights"
        )
    say(f"starting from the built-in encoder {ENCODER}; {OTHERS}")
    return override(recipe, {"model.init": ENCODER})
