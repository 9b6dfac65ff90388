"""Packages that only some files need."""

from __future__ import annotations

import importlib
from typing import Any

from qkv.common.errors import QkvError


def need(module: str, reason: str, install: str) -> Any:
    """Import `module`, or say what needs it and how it is installed.

    Args:
        module: the name to import.
        reason: what cannot be done without it ("reading a.parquet").
        install: what to give to `pip install`.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise QkvError(f"{reason} needs the package {module.split('.')[0]}: pip install {install}") from None
