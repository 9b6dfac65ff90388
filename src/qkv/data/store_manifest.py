"""The manifest of a store: it lists the files and their digests, so that changed files are detected."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from qkv.common import disk
from qkv.common.errors import QkvError, UsageError

MANIFEST = "manifest.json"
VERSION = 1
DTYPES = {"int32": "<i4", "float32": "<f4", "uint8": "|u1"}
OFFSETS = "<i8"


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """Return the manifest, or None if there is none."""
    path = folder / MANIFEST
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        manifest: dict[str, Any] = json.loads(data)
        del manifest["digest"]
        whole = _said(manifest) == data
    except (ValueError, KeyError, TypeError):
        whole = False
    if not whole:
        raise damaged(path, "it does not match its own digest")
    if manifest["version"] != VERSION:
        raise QkvError(f"{path} has version {manifest['version']}, but this qkv reads version {VERSION}")
    check_names(manifest["columns"])
    return manifest


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write the manifest atomically."""
    disk.replace_file(folder / MANIFEST, _said(manifest))


def files(manifest: Mapping[str, Any]) -> Iterator[tuple[str, int, str]]:
    """Yield the name, size and digest of each file."""
    for name, column in manifest["columns"].items():
        yield f"{name}.bin", column["values"] * np.dtype(DTYPES[column["dtype"]]).itemsize, column["bin"]
        yield f"{name}.offsets", (manifest["rows"] + 1) * np.dtype(OFFSETS).itemsize, column["offsets"]


def check_file(path: Path, size: int, digest: str | None) -> None:
    """Raise an error if a file is missing or has the wrong size or, if one is given, the wrong digest."""
    if not path.is_file():
        raise damaged(path, "it is missing")
    if path.stat().st_size != size:
        raise damaged(path, f"it has {path.stat().st_size} bytes instead of {size}")
    if digest is not None:
        with path.open("rb") as handle:
            if hashlib.file_digest(handle, "sha256").hexdigest() != digest:
                raise damaged(path, "its digest has changed")


def check_names(columns: Iterable[str]) -> None:
    """Raise an error for a column name that would put files outside the folder."""
    for name in columns:
        if not re.fullmatch(r"\w+", name, re.ASCII):
            raise UsageError(f"column {name!r} cannot name a file: letters, digits and _ are allowed")


def damaged(path: Path, why: str) -> QkvError:
    """Return the error for a file that has changed since it was written."""
    return QkvError(f"{path} is damaged: {why}; remove {path.parent} to rebuild it")


def _said(manifest: Mapping[str, Any]) -> bytes:
    """Return the manifest as bytes, with its own digest."""
    digest = hashlib.sha256(json.dumps(manifest).encode()).hexdigest()
    return (json.dumps({**manifest, "digest": digest}, indent=2) + "\n").encode()
