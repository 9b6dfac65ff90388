"""What `qkv train FILE` recognised, and the error for data that it cannot place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from qkv.common.errors import UsageError


@dataclass(frozen=True)
class Recognised:
    """The recipe that fits some data.

    Attributes:
        recipe: its name.
        why: what was recognised, in words.
        changes: keys of the recipe to change, besides data.train.
    """

    recipe: str
    why: str
    changes: Mapping[str, Any] = field(default_factory=dict)


def command(recipe: str, files: Sequence[str], more: str = "") -> str:
    """Return the command that runs a recipe on files."""
    train = files[0] if len(files) == 1 else f"[{','.join(files)}]"
    return f"qkv train {recipe} --set data.train={train}{' ' if more else ''}{more}"


def undecided(files: Sequence[str], why: str, *choices: str) -> UsageError:
    """Return the error that says why no recipe was chosen and which commands to type instead."""
    return UsageError(f"{' and '.join(files)}: {why}; type {', or '.join(choices)}")
