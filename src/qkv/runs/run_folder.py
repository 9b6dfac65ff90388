"""A run's folder: a new one, or one to resume whose recipe and input files give the same numbers.

.lock           the process that trains here; the system lets go of it when that process ends
recipe.toml     the recipe, as resolved
inputs.json     the SHA-256 of the files that the run reads
tokenizer/      the tokenizer that was trained, with a manifest
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
from qkv.runs.inputs import check_inputs
from qkv.tokenizers.text import TextTokenizer
from qkv.training.trackers import LogConfig

LOCK = ".lock"
RECIPE = "recipe.toml"

# What may change when a run goes on; a recipe is compared with these values in it.
FREE: dict[str, Any] = {
    "out": "",
    "log": LogConfig(),
    "data.cache": "",
    "train.workers": 1,
    "train.keep": 1,
    "train.log_every": 1,
    "train.carbon_intensity": 0.0,
}


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold a folder while a run is made in it; a second run is refused with the process id of the first."""
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
            with suppress(OSError):  # it holds something, as it should
                folder.rmdir()


def claim(folder: Path, recipe: Recipe, resume: bool, name: str = RECIPE) -> bool:
    """Take a run's folder: a new one (true), or one to resume whose recipe, kept by `name`, gives the same numbers."""
    file = folder / name
    new = not file.is_file()
    if not new and not resume:
        raise UsageError(f"{folder} holds a run already: go on with --resume, or choose another place with --set out=…")
    if new and folder.exists() and not all(path.name == LOCK or disk.is_left(path) for path in folder.iterdir()):
        raise UsageError(f"{folder} is not empty and holds no run: choose another place with --set out=…")
    if not new and (old := _deciding(read_recipe(str(file)))) != (now := _deciding(recipe)):
        changed = _first_difference(old, now)
        raise UsageError(f"{file} is another recipe ({changed}): resume with the recipe the run began with")
    with disk.no_space(str(folder)):
        folder.mkdir(parents=True, exist_ok=True)
        disk.sweep(folder)
        disk.replace_file(file, to_toml(recipe).encode())
        _seal_tokenizer(folder)
    if name == RECIPE:  # a search leaves its files to the runs that it makes
        check_inputs(folder, recipe)
    return new


def find_tokenizer(folder: Path) -> TextTokenizer | None:
    """Return the tokenizer that the run has trained, or None for a run that has none yet.

    Another tokenizer would give every token another number, so that one which was changed or lost cannot be replaced.
    """
    kept = folder / "tokenizer"
    if not kept.exists() and not steps(folder / "checkpoints"):
        return None
    if reason := disk.damage(kept):
        raise QkvError(f"{reason}; the run cannot be resumed with another tokenizer: restore {kept} or start again")
    return TextTokenizer.find(kept)


def keep_tokenizer(folder: Path, tokenizer: TextTokenizer) -> None:
    """Keep the tokenizer that the run has trained."""
    with disk.no_space(str(folder / "tokenizer")):
        disk.replace_folder(folder / "tokenizer", tokenizer.files(), manifest=True)


def _seal_tokenizer(folder: Path) -> None:
    """Give the tokenizer of a run that an earlier version began a manifest; that version wrote no inputs.json."""
    kept = folder / "tokenizer"
    if kept.is_dir() and not (folder / "inputs.json").exists() and not (kept / disk.MANIFEST).exists():
        disk.seal(kept)


def _locked(folder: Path) -> int:
    """Lock a folder by a file in it and return the open file."""
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
        except OSError as error:  # some network file systems have no locks
            warnings.warn(f"{folder} cannot be locked ({reason_of(error)}): start no second run there", stacklevel=2)
        with suppress(OSError):
            if os.path.samestat(os.fstat(handle), os.stat(folder / LOCK)):
                os.truncate(handle, 0)
                os.write(handle, f"{os.getpid()}\n".encode())
                return handle
        os.close(handle)  # the one before removed the file after it was opened here


def _deciding(recipe: Recipe) -> str:
    """Write down what decides a run's numbers: all but where things lie, who prepares them and what is shown."""
    return to_toml(override(recipe, FREE))


def _first_difference(old: str, new: str) -> str:
    for a, b in zip(old.splitlines(), new.splitlines(), strict=False):
        if a != b:
            return f"it has {a!r}, now {b!r}"
    return "one is longer"
