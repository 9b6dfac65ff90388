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

# Keys that a part can set.
OWN = ("format", "encoding", "unit", "text", "second", "label", "separator", "max_length", "dropout")


def tables_of(mix: Any, where: str, known: Collection[str]) -> dict[str, dict[str, Any]]:
    """Check the tables of the parts and sort them by name, since data positions depend on their order."""
    found = deepcopy(dict(mix)) if isinstance(mix, Mapping) else {}
    if not found:
        raise UsageError(f"a mixture needs a table for each part in {where}; parts can be {', '.join(known)}")
    for name, table in found.items():
        if name not in known:
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
    return override(data, {**files, **changes, "mix": {}})


def chosen_files(paths: Sequence[str], name: str, table: Mapping[str, Any]) -> list[str]:
    """Choose the files of a part by its patterns, which are matched against the whole path and the file name."""
    patterns = table.get("files")
    patterns = [patterns] if isinstance(patterns, str) else patterns
    if not isinstance(patterns, list | tuple) or not all(isinstance(pattern, str) for pattern in patterns):
        raise UsageError(f'data.mix.{name}.files takes file names or patterns, for example ["*.txt"]')
    found = [path for path in paths if any(fnmatch(n, p) for p in patterns for n in (path, PurePath(path).name))]
    if not found:
        raise UsageError(f"data.mix.{name}.files matches none of {', '.join(paths)}")
    return found
