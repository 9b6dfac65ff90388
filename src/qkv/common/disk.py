"""The one place that writes to disk: whole and synced, or not at all.

A folder is written beside its place, every file synced, and renamed there last. A checkpoint's manifest holds the
SHA-256 of every file, because no tensor format notices a flipped bit by itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from qkv.common.errors import QkvError

MANIFEST = "manifest.json"


def write(file: Path, data: bytes) -> None:
    """Write a new file and sync it."""
    with file.open("wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())


def sync(folder: Path) -> None:
    """Make the names in a folder last."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def rename(old: Path, new: Path) -> None:
    """Rename, replacing a file that stands there."""
    os.replace(old, new)


def remove(path: Path) -> None:
    """Remove a file or a folder, if it is there."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def replace_file(file: Path, data: bytes) -> None:
    """Put new contents in the place of a file."""
    work = file.with_name(f".{file.name}.new")
    try:
        write(work, data)
        rename(work, file)
        sync(file.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            remove(work)
        raise


def replace_folder(target: Path, files: dict[str, bytes], *, manifest: bool) -> None:
    """Put a folder of files in its place; what stood there goes only when the new one stands.

    A manifest is for folders that nobody else writes: a model folder is edited by people and by other libraries.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        os.chmod(work, 0o755)
        for name, data in files.items():
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            write(work / name, data)
        if manifest:
            write(work / MANIFEST, manifest_of(files))
        for folder in {(work / name).parent for name in files}:
            sync(folder)
        _swap(work, target)
    finally:
        with contextlib.suppress(OSError):
            remove(work)


def recover(target: Path) -> None:
    """Finish a replacement that was cut off between its two renames: the old folder gets its name back."""
    if not target.name:  # the root of the file system, or "."
        return
    aside = _aside(target)
    if os.path.isdir(aside) and not os.path.exists(target):  # False for a name that is too long, too
        rename(aside, target)


def damage(folder: Path, manifest: str = MANIFEST) -> str | None:
    """Say what is wrong with a folder that has a manifest, or None if every byte is as it was written."""
    wanted = listed(folder / manifest)
    if wanted is None:
        return f"{folder / manifest} is missing or damaged"
    for name, digest in wanted.items():
        if not (folder / name).is_file():  # nor a pipe or a device, which never end
            return f"{folder / name} is missing"
        with (folder / name).open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != digest:
            return f"{folder / name} is damaged: its SHA-256 is not the one in {manifest}"
    return None


def listed(manifest: Path) -> dict[str, str] | None:
    """Return the names and digests of a manifest, or None where it is missing or damaged."""
    try:
        raw = json.loads(manifest.read_bytes())
        table: dict[str, str] = dict(raw["sha256"])
        inside = all(_inside(name) for name in table)
        return table if inside and raw["self"] == _digest_of_table(table) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _inside(name: str) -> bool:
    """Whether a name stays within its folder."""
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts and "\0" not in name


@contextlib.contextmanager
def no_space(what: str) -> Iterator[None]:
    """Turn the system's errors of writing into one sentence."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise QkvError(f"{what} could not be written: {reason}; what was there before is untouched") from None


def manifest_of(files: dict[str, bytes]) -> bytes:
    """Return a manifest: the SHA-256 of each file, and of the table itself."""
    table = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    return json.dumps({"sha256": table, "self": _digest_of_table(table)}, indent=2).encode() + b"\n"


def _digest_of_table(table: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()


def _aside(target: Path) -> Path:
    return target.with_name(f".{target.name}.old")


def _swap(work: Path, target: Path) -> None:
    if not target.exists():
        rename(work, target)
    else:
        aside = _aside(target)
        remove(aside)
        rename(target, aside)
        try:
            rename(work, target)
        except BaseException:
            rename(aside, target)
            raise
        remove(aside)
    sync(target.parent)
