"""Old names in recipes. They still work, but a warning gives the new name."""

from __future__ import annotations

import warnings
from typing import Any

TASKS = {"twins": "embeddings", "picture": "image"}
# Old key names, by the top-level table they are in; they may be nested at any depth.
KEYS = {
    "objective": {"agreement": "r_drop", **TASKS},
    "model": {"reach": "conv_width"},
    "data": TASKS,
}
# Keys that moved to [distill]; `teacher` says that the others belong to it.
TAUGHT = {"teacher": "teacher", "distill": "targets", "alpha": "weight", "temperature": "temperature"}
EARLIER = {"targets": "hard", "temperature": 3.0}  # their defaults there


def with_new_names(raw: dict[str, Any]) -> dict[str, Any]:
    """Return the tables of a recipe, or its dotted changes, with every old name replaced."""
    found: dict[str, Any] = {}
    for key, value in _taught(raw).items():
        table = KEYS.get(key.partition(".")[0], {})
        new = ".".join(_name(part, table, key) for part in key.split("."))
        found[new] = _renamed(value, table, key) if isinstance(value, dict) else value
    if isinstance(task := found.get("task"), str):
        found["task"] = _name(task, TASKS, "task")
    return found


def _taught(raw: dict[str, Any]) -> dict[str, Any]:
    """Move the keys of a teacher from [objective], where only images had them, to [distill]."""
    table = raw.get("objective") if isinstance(raw.get("objective"), dict) else {}
    old = {f"objective.{key}": value for key, value in (table or {}).items()} | raw
    if "objective.teacher" not in old:
        return raw
    warnings.warn("objective.teacher and its keys are now in [distill]: distill.teacher and so on", stacklevel=3)
    moved = {f"objective.{key}" for key in TAUGHT}
    asked = EARLIER | {new: old[f"objective.{key}"] for key, new in TAUGHT.items() if f"objective.{key}" in old}
    found = {key: value for key, value in raw.items() if key not in moved}
    if table:
        found["objective"] = {key: value for key, value in table.items() if key not in TAUGHT}
        return found | {"distill": asked}
    return found | {f"distill.{key}": value for key, value in asked.items()}


def _renamed(values: dict[str, Any], table: dict[str, str], where: str) -> dict[str, Any]:
    return {
        _name(key, table, f"{where}.{key}"): _renamed(value, table, f"{where}.{key}")
        if isinstance(value, dict)
        else value
        for key, value in values.items()
    }


def _name(old: str, table: dict[str, str], where: str) -> str:
    if old not in table:
        return old
    warnings.warn(f"{where}: {old!r} is now called {table[old]!r}", stacklevel=2)
    return table[old]
