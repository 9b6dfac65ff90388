"""The one place that writes to disk: whole and synced, or not at all.

A file or folder is written beside its place under the name of a process, synced, and renamed last. What a killed
process leaves is known by that name. Links are followed; devices, pipes and sockets are never replaced. A manifest
holds the SHA-256 of every file, because no tensor format notices a flipped bit by itself.

    .NAME.PID-NUMBER.new    being written        .NAME.PID-NUMBER.gone    being removed
    .NAME.old               a folder whose successor is about to take its place
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
# What versions up to 0.1 left behind.
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
    """Remove a file, a link or a folder, if it is there; a kill leaves no half of a folder under its name."""
    if not path.is_dir() or path.is_symlink():
        path.unlink(missing_ok=True)
        return
    gone = path if LEFT.fullmatch(path.name) else _beside(path, "gone")
    with contextlib.suppress(OSError):
        os.replace(path, gone)
    shutil.rmtree(gone if gone.exists() else path, ignore_errors=True)


def plain_file(file: Path) -> Path:
    """Return the plain file that a path means, through links; it need not exist, but anything else there is refused."""
    if kind := _kind(file):
        raise UsageError(f"{file} is {kind}: name a plain file instead")
    place = Path(os.path.realpath(file))
    if not place.parent.is_dir():
        raise UsageError(f"{file} cannot be written: it must name a file in a folder that exists")
    return place


def plain_folder(folder: Path) -> Path:
    """Return the folder that a path means, through links; it need not exist, but anything else there is refused."""
    if (kind := _kind(folder)) != "a folder" and os.path.exists(folder):
        raise UsageError(f"{folder} is {kind or 'a file'}: name a folder instead")
    return Path(os.path.realpath(folder))


def replace_file(file: Path, data: bytes) -> None:
    """Put new contents in the place of a file."""
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
    """Give a stream to a file that takes its place only when it is whole.

    A terminal, a pipe, /dev/null and /dev/stdout have no place to take: they are written to as the bytes come.
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
    """Put a folder of files in its place; what stood there goes only when the new one stands.

    A manifest is for folders that nobody else writes: a model folder is edited by people and by other libraries.
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
    """Give a name for a new folder of synced files, which then takes the place of `target`."""
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
    """Finish a replacement that was cut off between its two renames: the old folder gets its name back."""
    if not target.name:  # the root of the file system, or "."
        return
    target = Path(os.path.realpath(target))
    aside = _aside(target)
    if os.path.isdir(aside) and not os.path.exists(target):  # False for a name that is too long, too
        rename(aside, target)


def sweep(folder: Path) -> None:
    """Remove what killed processes left in a folder and below. Nobody else may be writing there."""
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
    """Whether a path has a name that only unfinished work has."""
    return bool(LEFT.fullmatch(path.name) or LEFT_BEFORE.fullmatch(path.name))


def seal(folder: Path) -> None:
    """Write the manifest of the files that stand in a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / MANIFEST)
    table = {str(path.relative_to(folder)): digest_of(path) for path in files}
    replace_file(folder / MANIFEST, table_bytes("sha256", table))


def damage(folder: Path, manifest: str = MANIFEST) -> str | None:
    """Say what is wrong with a folder that has a manifest, or None if every byte is as it was written."""
    wanted = listed(folder / manifest)
    if wanted is None:
        return f"{folder / manifest} is missing or damaged"
    for name, digest in wanted.items():
        if not (folder / name).is_file():  # nor a pipe or a device, which never end
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
    """Whether a name stays within its folder."""
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts and "\0" not in name


def digest_of(file: Path) -> str:
    """Return the SHA-256 of a file."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def table_bytes(name: str, table: dict[str, Any]) -> bytes:
    """Return a table as JSON, by its name, with a digest of itself."""
    return json.dumps({name: table, "self": _digest_of_table(table)}, indent=2).encode() + b"\n"


def read_table(file: Path, name: str) -> dict[str, Any]:
    """Read what `table_bytes` gave; a change of any byte is an error."""
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
    """Turn the system's errors of writing into one sentence."""
    try:
        yield
    except BrokenPipeError:  # nobody reads on: the command line ends without a word
        raise
    except OSError as error:
        raise StorageError(
            f"{what} could not be written: {reason_of(error)}; what was there before is untouched"
        ) from None


def manifest_of(files: dict[str, bytes]) -> bytes:
    """Return a manifest: the SHA-256 of each file, and of the table itself."""
    return table_bytes("sha256", {name: hashlib.sha256(data).hexdigest() for name, data in files.items()})


def unfinished(place: Path) -> Path:
    """Return the name that a file or folder has while it is written; what dead processes left for it is removed."""
    for left in place.parent.glob(f".{glob.escape(place.name)}.*.new"):
        found = LEFT.fullmatch(left.name)
        if found and not _alive(int(found[1])):
            remove(left)
    work = _beside(place, "new")
    remove(work)  # of a dead process that had our id
    return work


def _beside(place: Path, ending: str) -> Path:
    return place.with_name(f".{place.name}.{os.getpid()}-{next(_number)}.{ending}")


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # somebody else's
        return True
    return True


def _kind(path: Path) -> str | None:
    """Say what stands at a path, through links, where it is not a plain file."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return None
    return next((name for is_kind, name in KINDS if is_kind(mode)), None)


def _stream(file: Path) -> BinaryIO | None:
    """Open what is written to as bytes come: one of this process's own streams, a character device or a pipe."""
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
