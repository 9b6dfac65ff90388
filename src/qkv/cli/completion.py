"""What the Tab key offers, found without importing torch: `qkv --install-completion` sets it up for your shell.

Where nothing here begins with what was typed, the shell offers files and folders.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

DEVICES = ("cpu", "cuda")
ENGINES = ("torch", "torch-bf16", "native", "native-int8", "onnxruntime", "ctranslate2", "torch-compiled")
DTYPES = ("float32", "bfloat16", "float16")
TOP = ("task", "out", "model.preset", "model.init")


def recipes(incomplete: str) -> list[str]:
    """Offer the shipped recipes."""
    from qkv.recipes.shelf import shipped

    return _starting(shipped(), incomplete)


def comparisons(incomplete: str) -> list[str]:
    """Offer the shipped comparisons, and the measurement of layers."""
    folder = Path(__file__).parents[1] / "recipes" / "comparisons"
    return _starting(["layers", *(file.stem for file in folder.glob("*.toml"))], incomplete)


def models(incomplete: str) -> list[str]:
    """Offer the models that came with the package."""
    folder = Path(__file__).parents[1] / "pretrained"
    return _starting([file.parent.name for file in folder.glob("*/config.json")], incomplete)


def devices(incomplete: str) -> list[str]:
    """Offer the kinds of devices."""
    return _starting(DEVICES, incomplete)


def engines(incomplete: str) -> list[str]:
    """Offer the engines of `qkv latency`."""
    return _starting(ENGINES, incomplete)


def dtypes(incomplete: str) -> list[str]:
    """Offer the numbers that weights can be."""
    return _starting(DTYPES, incomplete)


def settings(incomplete: str) -> list[str]:
    """Offer the keys of a recipe, for --set: those of tables whose classes need no torch, and those of shipped recipes.

    A value is left to the shell, which knows files.
    """
    from dataclasses import fields

    from qkv.data.config import DataConfig
    from qkv.recipes.shelf import flat_keys, shipped
    from qkv.training.config import TrainConfig
    from qkv.training.trackers import LogConfig

    if _is_value():
        return []
    tables = {"data": DataConfig, "train": TrainConfig, "log": LogConfig}
    keys = {*TOP, *(f"{name}.{field.name}" for name, table in tables.items() for field in fields(table))}
    keys.update(*map(flat_keys, shipped()))
    return _starting([f"{key}=" for key in keys], incomplete)


def _is_value() -> bool:
    """Whether bash completes what follows "=", which it takes for a word of its own."""
    words, place = os.environ.get("COMP_WORDS", "").split("\n"), int(os.environ.get("COMP_CWORD", "0"))
    return "=" in words[max(place - 1, 0) : place + 1]


def _starting(names: Iterable[str], incomplete: str) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))
