"""The models on the Hub that a run starts and learns from: a run uses one commit, also when it resumes."""

from __future__ import annotations

from pathlib import Path

from qkv.checkpoints import hub
from qkv.common.config import override
from qkv.data.hub import is_hub
from qkv.recipes.check import value_of
from qkv.recipes.schema import Recipe, Say, read_recipe


def with_commit(recipe: Recipe, file: Path, say: Say) -> Recipe:
    """Put the commit into a `model.init` and a `distill.teacher` that name a model on the Hub.

    If `file`, the recipe of an earlier attempt, names the same model, and the revision is not given, its commit is
    used, even if the branch has moved since.
    """
    for key in ("model.init", "distill.teacher"):
        if is_hub(name := value_of(recipe, key)):
            recipe = override(recipe, {key: _pinned(name, key, file, say)})
    return recipe


def _pinned(name: str, key: str, file: Path, say: Say) -> str:
    asked = hub.parse(name)
    if asked.revision is None and file.is_file():
        before = value_of(read_recipe(str(file)), key)
        if is_hub(before) and hub.parse(before).repo == asked.repo:
            return str(before)
    found = hub.pinned(name)
    if found != name:
        say(f"{name} is at commit {hub.parse(found).revision}")
    return found
