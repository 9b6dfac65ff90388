"""Packages that only some files need, imported on demand."""

from __future__ import annotations

import importlib
from typing import Any

from qkv.common.errors import QkvError


def need(module: str, reason: str, install: str) -> Any:
    """Import `module`, or raise an error that says what needs it and how to install it.

    Args:
        module: the name to import.
        reason: what needs it ("reading a.parquet").
        install: the argument of `pip install`.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise QkvError(f"{reason} needs the package {module.split('.')[0]}: pip install {install}") from None
