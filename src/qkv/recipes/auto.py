"""Values that are "auto": they follow from the data and the model, by a rule of the task.

    lr = "auto"  ─►  measure the training examples  ─►  the task's rule  ─►  lr = 2e-4 in the run's recipe.toml

Only keys that are not strings can be "auto"; train.precision and train.compile have an "auto" of their own.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

AUTO = "auto"


def is_auto(cls: type[Any], key: str, value: Any) -> bool:
    """Whether a value leaves its dotted key to a rule."""
    return value == AUTO and isinstance(value, str) and _type_of(cls, key) is not str


def without_auto(cls: type[Any], raw: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Split the tables of a recipe into those without "auto" and the dotted keys that are "auto"."""
    found = tuple(sorted(key for key, value in _leaves(raw, "") if is_auto(cls, key, value)))
    return _removed(raw, "", set(found)), found


def with_auto(values: Mapping[str, Any], auto: Iterable[str]) -> dict[str, Any]:
    """Put "auto" back into the tables of a recipe, in the place of the values that a rule has not set yet."""
    found = {key: value for key, value in values.items() if key != AUTO}
    for key in auto:
        head, dot, rest = key.partition(".")
        found[head] = with_auto(found.get(head, {}), [rest]) if dot else AUTO
    return found


def _leaves(table: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def _removed(table: Mapping[str, Any], path: str, keys: set[str]) -> dict[str, Any]:
    """Leave out keys, and the tables that hold nothing else."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        if f"{path}{key}" in keys:
            continue
        inner = _removed(value, f"{path}{key}.", keys) if isinstance(value, Mapping) else value
        if inner != {} or value == {}:
            found[key] = inner
    return found


def _type_of(cls: type[Any], key: str) -> Any:
    """Return the declared type of a dotted key; None inside a plain table, whose keys have no declared type."""
    kind: Any = cls
    for part in key.split("."):
        if not dataclasses.is_dataclass(kind):
            return None
        kind = typing.get_type_hints(kind).get(part, str)  # an unknown key is reported where it is read
    return kind
