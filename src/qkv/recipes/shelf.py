"""The recipes that come with the package, read without importing torch."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SHIPPED = Path(__file__).parent


@dataclass(frozen=True)
class Listed:
    """A shipped recipe in a list.

    Attributes:
        name: what `qkv train` takes.
        task: what it learns.
        summary: the first line of its comment.
    """

    name: str
    task: str
    summary: str


def shipped() -> list[str]:
    """List the recipes that come with the package."""
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def listed() -> list[Listed]:
    """Return every shipped recipe with its task and one line about it."""
    return [Listed(name, tomllib.loads(text_of(name))["task"], comment_of(text_of(name))[0]) for name in shipped()]


def file_of(name: str) -> Path:
    """Return the file of a recipe: a path that ends in .toml, or the name of a shipped one."""
    return Path(name) if name.endswith(".toml") else SHIPPED / f"{name}.toml"


def text_of(name: str) -> str:
    """Return the text of a recipe."""
    return file_of(name).read_text("utf-8")


def flat_keys(name: str) -> list[str]:
    """Return the dotted keys that a shipped recipe sets."""
    return [key for key, _ in flat(tomllib.loads(text_of(name))) if not key.startswith("debug.")]


def flat(table: dict[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted keys and the values of a table of tables."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from flat(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def comment_of(text: str) -> list[str]:
    """Return the lines of the comment at the top of a recipe."""
    lines: list[str] = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    return lines or [""]
