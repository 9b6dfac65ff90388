"""The tables of a mixture's parts in a recipe: [data.mix.NAME] and [objective.mix.NAME]."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from fnmatch import fnmatch
from pathlib import PurePath
from typing import Any

from qkv.common.config import override
from qkv.common.errors import UsageError, unknown
from qkv.data.config import DataConfig

OWN = ("format", "unit", "text", "second", "label", "separator", "max_length", "dropout")  # keys a part may set itself


def tables_of(mix: Any, where: str, known: Collection[str]) -> dict[str, dict[str, Any]]:
    """Check the tables of the parts and put them in the order of their names, which a data position relies on."""
    found = deepcopy(dict(mix)) if isinstance(mix, Mapping) else {}
    if not found:
        raise UsageError(f"a mixture names its parts in {where}: a table for any of {', '.join(known)}")
    for name, table in found.items():
        if name not in known:
            raise unknown("part of a mixture", name, known)
        if not isinstance(table, Mapping):
            raise UsageError(f"{where}.{name} takes a table of keys, got {table!r}")
    return dict(sorted(found.items()))


def own_data(data: DataConfig, name: str, table: Mapping[str, Any]) -> DataConfig:
    """Return a part's [data]: the recipe's, with the part's own files and keys."""
    changes = {key: value for key, value in table.items() if key != "files"}
    if other := changes.keys() - set(OWN):
        raise unknown("key of data.mix", min(other), ["files", *OWN])
    files = {key: chosen_files(getattr(data, key), name, table) for key in ("train", "valid") if getattr(data, key)}
    return override(data, {**files, **changes, "mix": {}})


def chosen_files(paths: Sequence[str], name: str, table: Mapping[str, Any]) -> list[str]:
    """Choose a part's files by its patterns, which a whole path or its last name must match."""
    patterns = table.get("files")
    patterns = [patterns] if isinstance(patterns, str) else patterns
    if not isinstance(patterns, list | tuple) or not all(isinstance(pattern, str) for pattern in patterns):
        raise UsageError(f'data.mix.{name}.files takes file names or patterns, for example ["*.txt"]')
    found = [path for path in paths if any(fnmatch(n, p) for p in patterns for n in (path, PurePath(path).name))]
    if not found:
        raise UsageError(f"data.mix.{name}.files fits none of {', '.join(paths)}")
    return found
