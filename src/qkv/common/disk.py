"""Atomic writes to disk: a target is complete and synced, or unchanged.

A file or folder is written next to its target under a temporary name, synced, and then renamed. The temporary name
contains the process id, so what a killed process leaves behind can be found. Symbolic links are followed; devices,
pipes and sockets are never replaced. A manifest contains the SHA-256 of every file, because no tensor format detects a
flipped bit.

    .NAME.PID-NUMBER.new    being written        .NAME.PID-NUMBER.gone    being removed
    .NAME.old               an old folder that is being replaced
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import itertools
import json
import os
import re
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from qkv.common.errors import StorageError, UsageError, reason_of

MANIFEST = "manifest.json"
LEFT = re.compile(r"\..+\.(\d+)-\d+\.(new|gone)")
# Names of unfinished files in versions up to 0.1.
LEFT_BEFORE = re.compile(
    r"\.[\w-]+\.(toml|json|safetensors)\.new|\.\w+\.(bin|offsets)\.\d+\.part|\.(best|tokenizer|step-\d+)\.[a-z0-9_]{8}"
)
INHERITED = re.compile(r"/(?:dev|proc/self)/(?:fd/(\d+)|(stdin|stdout|stderr))")
KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
)
_number = itertools.count()


def write(file: Path, data: bytes) -> None:
    """Write a new file and sync it."""
    with file.open("wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())


def sync(folder: Path) -> None:
    """Sync a folder, so that renames in it survive a crash."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def rename(old: Path, new: Path) -> None:
    """Rename a path; an existing file is replaced."""
    os.replace(old, new)


def remove(path: Path) -> None:
    """Remove a file, a link or a folder if it exists. A folder is renamed first, so a kill leaves no partial folder."""
    if not path.is_dir() or path.is_symlink():
        path.unlink(missing_ok=True)
        return
    gone = path if LEFT.fullmatch(path.name) else _beside(path, "gone")
    with contextlib.suppress(OSError):
        os.replace(path, gone)
    shutil.rmtree(gone if gone.exists() else path, ignore_errors=True)


def plain_file(file: Path) -> Path:
    """Resolve a path to a regular file. It need not exist, but anything else at the path is an error."""
    if kind := _kind(file):
        raise UsageError(f"{file} is {kind}: give a regular file instead")
    place = Path(os.path.realpath(file))
    if not place.parent.is_dir():
        raise UsageError(f"{file} cannot be written: its folder does not exist")
    return place


def plain_folder(folder: Path) -> Path:
    """Resolve a path to a folder. It need not exist, but anything else at the path is an error."""
    if (kind := _kind(folder)) != "a folder" and os.path.exists(folder):
        raise UsageError(f"{folder} is {kind or 'a file'}: give a folder instead")
    return Path(os.path.realpath(folder))


def replace_file(file: Path, data: bytes) -> None:
    """Write a file atomically."""
    place = plain_file(file)
    work = unfinished(place)
    try:
        write(work, data)
        rename(work, place)
        sync(place.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            remove(work)
        raise


@contextlib.contextmanager
def streaming(file: Path) -> Iterator[BinaryIO]:
    """Open a stream for writing a file, which replaces the target only when it is complete.

    Terminals, pipes, /dev/null and /dev/stdout cannot be replaced: bytes go to them directly.
    """
    with no_space(str(file)):
        special = _stream(file)
    if special is not None:
        with special:
            yield special
        return
    place = plain_file(file)
    work = unfinished(place)
    try:
        with no_space(str(file)):
            out = work.open("wb")
        with out:
            yield out
            with no_space(str(file)):
                out.flush()
                os.fsync(out.fileno())
        with no_space(str(file)):
            rename(work, place)
            sync(place.parent)
    finally:
        with contextlib.suppress(OSError):
            remove(work)


def replace_folder(target: Path, files: dict[str, bytes], *, manifest: bool) -> None:
    """Write a folder atomically; an existing folder is removed only after the new one is complete.

    Use a manifest only for folders that nobody else writes to. People and other libraries edit model folders.
    """
    with new_folder(target) as work:
        work.mkdir()
        for name, data in files.items():
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            write(work / name, data)
        if manifest:
            write(work / MANIFEST, manifest_of(files))
        for folder in {(work / name).parent for name in files}:
            sync(folder)


@contextlib.contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Yield a path for a new folder of synced files, which replaces `target` when the block ends."""
    place = plain_folder(target)
    place.parent.mkdir(parents=True, exist_ok=True)
    work = unfinished(place)
    try:
        yield work
        _swap(work, place)
    finally:
        with contextlib.suppress(OSError):
            remove(work)


def recover(target: Path) -> None:
    """Undo a replacement that was interrupted between its two renames: the old folder gets its name back."""
    if not target.name:  # the root of the file system, or "."
        return
    target = Path(os.path.realpath(target))
    aside = _aside(target)
    if os.path.isdir(aside) and not os.path.exists(target):  # also False if the name is too long
        rename(aside, target)


def sweep(folder: Path) -> None:
    """Remove what killed processes left in a folder and its subfolders. No other process may be writing there."""
    for path in sorted(folder.rglob(".*")):
        if path.name.endswith(".old") and path.is_dir():
            target = path.with_name(path.name.removeprefix(".").removesuffix(".old"))
            if target.is_dir():
                remove(path)
            else:
                rename(path, target)
        elif is_left(path):
            remove(path)


def is_left(path: Path) -> bool:
    """Return whether a path has the temporary name of an unfinished write."""
    return bool(LEFT.fullmatch(path.name) or LEFT_BEFORE.fullmatch(path.name))


def seal(folder: Path) -> None:
    """Write a manifest of all files in a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / MANIFEST)
    table = {str(path.relative_to(folder)): digest_of(path) for path in files}
    replace_file(folder / MANIFEST, table_bytes("sha256", table))


def damage(folder: Path, manifest: str = MANIFEST) -> str | None:
    """Return the first missing or changed file of a folder with a manifest as a message, or None if all match."""
    wanted = listed(folder / manifest)
    if wanted is None:
        return f"{folder / manifest} is missing or damaged"
    for name, digest in wanted.items():
        if not (folder / name).is_file():  # False for pipes and devices, which may never end
            return f"{folder / name} is missing"
        try:
            found = digest_of(folder / name)
        except OSError as error:
            return f"{folder / name} cannot be read: {reason_of(error)}"
        if found != digest:
            return f"{folder / name} is damaged: its SHA-256 is not the one in {manifest}"
    return None


def listed(manifest: Path) -> dict[str, str] | None:
    """Return the names and digests of a manifest, or None if it is missing or damaged.

    A manifest that cannot be read now is an error: taking it for a missing one would lose what it lists.
    """
    if not os.path.lexists(manifest):
        return None
    try:
        table = read_table(manifest, "sha256")
    except StorageError as error:
        if isinstance(error.__cause__, OSError):
            raise
        return None
    return table if all(_inside(name) for name in table) else None


def _inside(name: str) -> bool:
    """Return whether a relative name stays inside its folder."""
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts and "\0" not in name


def read_object(file: Path) -> dict[str, Any]:
    """Read a JSON file that holds one object."""
    try:
        raw = json.loads(file.read_text("utf-8"))
    except (ValueError, OSError, RecursionError) as error:
        raise StorageError(f"{file} is damaged: {error}") from None
    if not isinstance(raw, dict):
        raise StorageError(f"{file} is damaged: it is not a JSON object")
    return raw


def digest_of(file: Path) -> str:
    """Return the SHA-256 of a file."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def table_bytes(name: str, table: dict[str, Any]) -> bytes:
    """Return a named table as JSON, together with its digest."""
    return json.dumps({name: table, "self": _digest_of_table(table)}, indent=2).encode() + b"\n"


def read_table(file: Path, name: str) -> dict[str, Any]:
    """Read a table written by `table_bytes`. Raises an error if any byte has changed."""
    try:
        found = json.loads(file.read_bytes())
        table: dict[str, Any] = found[name]
        whole = found["self"] == _digest_of_table(table) and isinstance(table, dict)
    except OSError as error:
        raise StorageError(f"{file} cannot be read: {reason_of(error)}") from error
    except (ValueError, KeyError, TypeError, RecursionError):
        whole = False
    if not whole:
        raise StorageError(f"{file} is damaged: it does not match its own digest")
    return table


@contextlib.contextmanager
def no_space(what: str) -> Iterator[None]:
    """Turn system errors while writing into a one-sentence `StorageError`."""
    try:
        yield
    except BrokenPipeError:  # the reader is gone: the command line exits silently
        raise
    except OSError as error:
        raise StorageError(
            f"{what} could not be written: {reason_of(error)}; existing contents are unchanged"
        ) from None


def manifest_of(files: dict[str, bytes]) -> bytes:
    """Return a manifest: the SHA-256 of each file, and a digest of the table itself."""
    return table_bytes("sha256", {name: hashlib.sha256(data).hexdigest() for name, data in files.items()})


def unfinished(place: Path) -> Path:
    """Return the temporary path for writing a file or folder, and remove what dead processes left for it."""
    for left in place.parent.glob(f".{glob.escape(place.name)}.*.new"):
        found = LEFT.fullmatch(left.name)
        if found and not _alive(int(found[1])):
            remove(left)
    work = _beside(place, "new")
    remove(work)  # left by a dead process with the same id
    return work


def _beside(place: Path, ending: str) -> Path:
    return place.with_name(f".{place.name}.{os.getpid()}-{next(_number)}.{ending}")


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # it belongs to another user
        return True
    return True


def _kind(path: Path) -> str | None:
    """Return what is at a path, following links, or None if it is missing or a regular file."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return None
    return next((name for is_kind, name in KINDS if is_kind(mode)), None)


def _stream(file: Path) -> BinaryIO | None:
    """Open a target that cannot be replaced: an inherited stream, a character device or a pipe. None for others."""
    if found := INHERITED.fullmatch(os.path.abspath(file)):
        number = found[1] or ("stdin", "stdout", "stderr").index(found[2])
        return os.fdopen(os.dup(int(number)), "wb")
    if _kind(file) == "a pipe" or (os.path.exists(file) and stat.S_ISCHR(os.stat(file).st_mode)):
        return open(file, "wb")
    return None


def _digest_of_table(table: dict[str, Any]) -> str:
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
