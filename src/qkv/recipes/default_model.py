"""The model that a recipe starts from if it names none: the built-in encoder, for tasks that fine-tune one.

A copy of qkv without that encoder starts from random weights, so that a table is all that a first run needs.
"""

from __future__ import annotations

from qkv.common.config import override
from qkv.predict.loading import built_in
from qkv.recipes.schema import Recipe, Say
from qkv.tasks.base import Task

ENCODER = "english"
RANDOM = "bert-mini"  # the preset without it
OTHERS = "set model.init=FOLDER or hf:OWNER/NAME for another"


def with_default_model(recipe: Recipe, task: Task, say: Say) -> Recipe:
    """Return the recipe with a model, and say so, if it names none and the task fine-tunes an encoder."""
    if recipe.model.preset or recipe.model.init or not task.starts_from_encoder:
        return recipe
    if ENCODER not in built_in():
        say(
            f"this copy of qkv has no built-in encoder {ENCODER!r}: starting from random weights "
            f"(model.preset={RANDOM}), which needs more examples; set model.init=FOLDER or hf:OWNER/NAME "
            "for trained ones"
        )
        return override(recipe, {"model.preset": RANDOM})
    say(f"starting from the built-in encoder {ENCODER}; {OTHERS}")
    return override(recipe, {"model.init": ENCODER})
