"""The recipe tables of the parts of a mixture: [data.mix.NAME] and [objective.mix.NAME]."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from fnmatch import fnmatch
from pathlib import PurePath
from typing import Any

from qkv.common.config import override
from qkv.common.errors import UsageError, unknown
from qkv.data.config import DataConfig

Tables = dict[str, dict[str, Any]]

# Keys that a part can set.
OWN = ("format", "encoding", "unit", "text", "second", "label", "separator", "max_length", "dropout")


def both_tables(objective: Mapping[str, Any], data: DataConfig, known: Collection[str]) -> tuple[Tables, Tables]:
    """Return the tables of the parts in [objective.mix] and in [data.mix], which must name the same parts."""
    settings, files = (
        tables_of(mix, where, known)
        for mix, where in ((objective.get("mix", {}), "objective.mix"), (data.mix, "data.mix"))
    )
    if settings.keys() != files.keys():
        both = f"objective.mix has {', '.join(settings)} and data.mix has {', '.join(files)}"
        raise UsageError(f"{both}: they must name the same parts")
    return settings, files


def weight_of(name: str, weight: Any) -> float:
    """Check the weight of a part."""
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < float("inf"):
        raise UsageError(f"objective.mix.{name}.weight must be a number of at least 0, got {weight!r}")
    return float(weight)


def tables_of(mix: Any, where: str, known: Collection[str]) -> Tables:
    """Check the tables of the parts and sort them by name, since data positions depend on their order.

    Args:
        mix: a table of tables.
        where: its key, for messages.
        known: the names that parts can have; if empty, any.
    """
    found = deepcopy(dict(mix)) if isinstance(mix, Mapping) else {}
    if not found:
        hint = f"; parts can be {', '.join(known)}" if known else ""
        raise UsageError(f"a mixture needs a table for each part in {where}{hint}")
    for name, table in found.items():
        if known and name not in known:
            raise unknown("part of a mixture", name, known)
        if not isinstance(table, Mapping):
            raise UsageError(f"{where}.{name} must be a table, got {table!r}")
    return dict(sorted(found.items()))


def own_data(data: DataConfig, name: str, table: Mapping[str, Any]) -> DataConfig:
    """Return the [data] of a part: the recipe's, with the files and keys of the part."""
    changes = {key: value for key, value in table.items() if key != "files"}
    if other := changes.keys() - set(OWN):
        raise unknown("key of data.mix", min(other), ["files", *OWN])
    files = {key: chosen_files(getattr(data, key), name, table) for key in ("train", "valid") if getattr(data, key)}
    files["test"] = matching(data.test, patterns_of(name, table))
    return override(data, {**files, **changes, "mix": {}})


def chosen_files(paths: Sequence[str], name: str, table: Mapping[str, Any]) -> list[str]:
    """Choose the files of a part by its patterns, which are matched against the whole path and the file name."""
    found = matching(paths, patterns_of(name, table))
    if not found:
        raise UsageError(f"data.mix.{name}.files matches none of {', '.join(paths)}")
    return found


def patterns_of(name: str, table: Mapping[str, Any]) -> list[str]:
    """Return the patterns that choose the files of a part."""
    patterns = table.get("files")
    patterns = [patterns] if isinstance(patterns, str) else patterns
    if not isinstance(patterns, list | tuple) or not all(isinstance(pattern, str) for pattern in patterns):
        raise UsageError(f'data.mix.{name}.files takes file names or patterns, for example ["*.txt"]')
    return list(patterns)


def matching(paths: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """Return the paths that match a pattern, by the whole path or by the file name."""
    return [path for path in paths if any(fnmatch(n, p) for p in patterns for n in (path, PurePath(path).name))]
