"""The folder of a run: a new one, or one to resume with the same recipe and input files.

.lock           the process that trains here; the system releases the lock when the process ends
recipe.toml     the resolved recipe; its paths are absolute
inputs.json     the SHA-256 of the files that the run reads
rows/           the training rows, if they were given from Python
teacher/        the answers of a teacher, if the run learns them
tokenizer/      the trained tokenizer, with a manifest
"""

from __future__ import annotations

import fcntl
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from qkv.checkpoints.state import steps
from qkv.common import disk
from qkv.common.config import override, to_toml
from qkv.common.errors import QkvError, UsageError, reason_of
from qkv.recipes.schema import Recipe, read_recipe
from qkv.runs.given import ROWS
from qkv.runs.inputs import check_inputs
from qkv.runs.layout import LOCK, RECIPE, TEACHER
from qkv.runs.paths import absolute, file_names
from qkv.tokenizers.text import TextTokenizer
from qkv.training.trackers import LogConfig

# Keys that may change when a run resumes; recipes are compared with these values filled in.
FREE: dict[str, Any] = {
    "out": "",
    "log": LogConfig(),
    "data.cache": "",
    "train.workers": 1,
    "train.keep": 1,
    "train.log_every": 1,
    "train.keep_checkpoints": False,
    "train.threads": 0,
    "train.carbon_intensity": 0.0,
}


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Lock a folder during a run; a second run gets an error with the process id of the first."""
    with disk.no_space(str(folder)):
        made = not folder.exists()
        disk.plain_folder(folder).mkdir(parents=True, exist_ok=True)
        handle = _locked(folder)
    try:
        yield
    finally:
        with suppress(OSError):
            (folder / LOCK).unlink(missing_ok=True)
        os.close(handle)
        if made:
            with suppress(OSError):  # not empty, which is the normal case
                folder.rmdir()


def open_folder(folder: Path, recipe: Recipe, resume: bool, name: str = RECIPE) -> bool:
    """Set up the folder of a new run (True), or of a resumed run whose recipe, in the file `name`, is the same."""
    file = folder / name
    new = not file.is_file()
    if not new and not resume:
        raise UsageError(f"{folder} already holds a run: use --resume, or choose another folder with --set out=…")
    if new:
        check_free(folder)
    else:
        check_same(file, recipe)
    with disk.no_space(str(folder)):
        folder.mkdir(parents=True, exist_ok=True)
        disk.sweep(folder)
        disk.replace_file(file, to_toml(absolute(recipe)).encode())
        _seal_tokenizer(folder)
    if name == RECIPE:  # the runs of a search check the files themselves
        check_inputs(folder, recipe)
    return new


def check_free(folder: Path) -> None:
    """Raise an error for the folder of a new run that holds other things than the data for it."""
    inside = folder.iterdir() if folder.exists() else ()
    if not all(path.name in (LOCK, ROWS, TEACHER) or disk.is_left(path) for path in inside):
        raise UsageError(f"{folder} is not empty and holds no run: choose another folder with --set out=…")


def remove_run(folder: Path) -> None:
    """Remove a run that has not begun, but for the answers of a teacher, which may have taken hours."""
    if not (folder / TEACHER).is_dir():
        disk.remove(folder)
        return
    for path in folder.iterdir():
        if path.name not in (LOCK, TEACHER):
            disk.remove(path)


def check_same(file: Path, recipe: Recipe) -> None:
    """Raise an error if the recipe of a run, in `file`, differs from this one in anything that affects the weights."""
    if (old := _deciding(read_recipe(str(file)))) != (now := _deciding(recipe)):
        changed = _first_difference(old, now)
        raise UsageError(f"{file} differs from this recipe ({changed}): resume with the recipe the run started with")


def find_tokenizer(folder: Path) -> TextTokenizer | None:
    """Return the tokenizer that the run has trained, or None if it has none yet.

    A new tokenizer would assign different ids to the tokens, so a changed or lost tokenizer is an error.
    """
    kept = folder / "tokenizer"
    if not kept.exists() and not steps(folder / "checkpoints"):
        return None
    if reason := disk.damage(kept):
        raise QkvError(f"{reason}; the run cannot be resumed with another tokenizer: restore {kept} or start again")
    return TextTokenizer.find(kept)


def keep_tokenizer(folder: Path, tokenizer: TextTokenizer) -> None:
    """Save the trained tokenizer in the run's folder."""
    with disk.no_space(str(folder / "tokenizer")):
        disk.replace_folder(folder / "tokenizer", tokenizer.files(), manifest=True)


def _seal_tokenizer(folder: Path) -> None:
    """Add a manifest to the tokenizer of a run that an earlier version started, which wrote no inputs.json."""
    kept = folder / "tokenizer"
    if kept.is_dir() and not (folder / "inputs.json").exists() and not (kept / disk.MANIFEST).exists():
        disk.seal(kept)


def _locked(folder: Path) -> int:
    """Lock a folder through a file in it and return the file descriptor."""
    while True:
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            process = os.read(handle, 20).decode(errors="replace").strip()
            os.close(handle)
            raise UsageError(
                f"{folder} is in use by another run (process {process or 'unknown'}): wait for it or stop it"
            ) from None
        except OSError as error:  # some network file systems do not support locks
            warnings.warn(f"{folder} cannot be locked ({reason_of(error)}): start only one run there", stacklevel=2)
        with suppress(OSError):
            if os.path.samestat(os.fstat(handle), os.stat(folder / LOCK)):
                os.truncate(handle, 0)
                os.write(handle, f"{os.getpid()}\n".encode())
                return handle
        os.close(handle)  # the previous owner removed the file after this process opened it


def _deciding(recipe: Recipe) -> str:
    """Return the settings that affect the results of a run as text."""
    return to_toml(file_names(override(recipe, FREE)))


def _first_difference(old: str, new: str) -> str:
    for a, b in zip(old.splitlines(), new.splitlines(), strict=False):
        if a != b:
            return f"it has {a!r}, this one has {b!r}"
    return "one is longer than the other"
