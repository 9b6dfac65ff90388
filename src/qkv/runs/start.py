"""The model on the Hub that a run starts from: a run uses one commit, also when it resumes."""

from __future__ import annotations

from pathlib import Path

from qkv.checkpoints import hub
from qkv.common.config import override
from qkv.data.hub import is_hub
from qkv.recipes.schema import Recipe, Say, read_recipe


def with_commit(recipe: Recipe, file: Path, say: Say) -> Recipe:
    """Put the commit into a `model.init` that names a model on the Hub.

    If `file`, the recipe of an earlier attempt, names the same model, and the revision is not given, its commit is
    used, even if the branch has moved since.
    """
    if not is_hub(recipe.model.init):
        return recipe
    asked = hub.parse(recipe.model.init)
    if asked.revision is None and file.is_file():
        before = read_recipe(str(file)).model.init
        if is_hub(before) and hub.parse(before).repo == asked.repo:
            return override(recipe, {"model.init": before})
    name = hub.pinned(recipe.model.init)
    if name != recipe.model.init:
        say(f"{recipe.model.init} is at commit {hub.parse(name).revision}")
    return override(recipe, {"model.init": name})
