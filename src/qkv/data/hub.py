"""Data sets on the Hugging Face Hub: `hf:NAME[/CONFIG][:SPLIT]`, through the package `datasets`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from qkv.common.errors import QkvError
from qkv.data.files import HUB
from qkv.data.optional import need


def is_hub(path: object) -> bool:
    """Return whether a path names a data set on the Hub."""
    return str(path).startswith(HUB)


def hub_rows(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the place ("hf:imdb:train:1") and the columns of each row; class numbers become names."""
    name, _, split = path.removeprefix(HUB).partition(":")
    data = _load(path, name, split or "train")
    for number, row in enumerate(data, 1):
        yield (
            f"{HUB}{name}:{split or 'train'}:{number}",
            {key: named(data.features[key], value) for key, value in row.items()},
        )


def _load(path: str, name: str, split: str) -> Any:
    """Load one split. `a/b` is tried as owner and name first, then as name and config."""
    datasets = need("datasets", f"reading {path}", "'qkv[hub]'")
    parts = name.split("/")
    readings: list[tuple[str, ...]] = [(name,), (parts[0], parts[-1])] if len(parts) == 2 else [(name,)]
    if len(parts) == 3:
        readings = [("/".join(parts[:2]), parts[2])]
    problem: Exception | None = None
    for reading in readings:
        try:
            return datasets.load_dataset(*reading, split=split)
        except Exception as error:  # many kinds: not found, no such config or split, no network, a broken file
            problem = problem or error
    raise QkvError(f"{path} cannot be loaded: {' '.join(str(problem).split())}") from None


def named(feature: Any, value: Any) -> Any:
    """Replace class numbers by names, in lists too; -1 means that there is no label."""
    if isinstance(value, list):
        inner = getattr(feature, "feature", feature[0] if isinstance(feature, list) else None)
        return [named(inner, item) for item in value] if inner is not None else value
    if isinstance(value, int) and hasattr(feature, "int2str"):
        return feature.int2str(value) if value >= 0 else None
    return value
