"""Replace the model in a folder that has other files too, so that a killed process leaves the old or the new model.

    folder/.qkv-update/   first, all new files and their digests; the folder gets this name once it is complete
    folder/               then each file moves here, files that only the old model has are removed, and the digests
                          move last

A reader that finds `.qkv-update` finishes the moves first. Until that folder exists, the old model is untouched.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from qkv.checkpoints.weights import INDEX, SHARDS, WHOLE
from qkv.common import disk
from qkv.common.errors import QkvError

DIGESTS = "qkv_digests.json"  # SHA-256 of each file that qkv wrote; other libraries ignore it
EXPORT = "qkv_export.json"  # in a folder that another engine runs: graphs instead of weights
STAGE = ".qkv-update"
VERIFY = "QKV_VERIFY"  # environment variable: 0 loads folders that do not match their digests

# Files that always belong to the model, whichever library wrote them: they are removed with it.
OWN = (
    "config.json", WHOLE, INDEX, SHARDS, "preprocessor_config.json",
    "modules.json", "config_sentence_transformers.json", "sentence_bert_config.json",
    EXPORT,
    "[0-9]*_Pooling/config.json", "[0-9]*_Dense/config.json", "[0-9]*_Dense/model.safetensors",
)  # fmt: skip
# Superseded by a new tokenizer.json. A model without a tokenizer keeps these files unless qkv wrote them.
TOKENIZER = (
    "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.txt", "vocab.json", "merges.txt",
)  # fmt: skip


def with_digests(files: dict[str, bytes]) -> dict[str, bytes]:
    """Add the file with the digests of all files."""
    return files | {DIGESTS: disk.manifest_of(files)}


def check_digests(folder: Path) -> None:
    """Raise an error if a file has changed since qkv wrote it. A folder without digests passes."""
    if os.environ.get(VERIFY) == "0" or not (folder / DIGESTS).exists():
        return
    try:
        reason = disk.damage(folder, DIGESTS)
    except OSError as error:
        raise QkvError(f"{folder} could not be read: {error.strerror or error}") from None
    if reason:
        raise QkvError(
            f"{reason}; if you or another program changed the folder on purpose, delete {DIGESTS}, or load it with "
            f"verify=False (or with {VERIFY}=0 in the environment)"
        )


def update_folder(target: Path, files: dict[str, bytes]) -> None:
    """Write a model's files into a folder and keep all files that do not belong to a model."""
    finish_update(target)
    for left in target.glob(f".{STAGE}.*"):  # from a save that was interrupted before its files were complete
        disk.remove(left)
    stage = target / STAGE
    moved: list[str] = []
    try:
        disk.replace_folder(stage, with_digests(files), manifest=False)
        _move(stage, target, moved)
    except BaseException as error:
        if not moved:
            with contextlib.suppress(OSError):
                disk.remove(stage)
            raise
        if isinstance(error, OSError):
            reason = error.strerror or error
            raise QkvError(f"saving to {target} was interrupted: {reason}; loading the folder completes it") from None
        raise


def finish_update(target: Path) -> None:
    """Finish an update that was interrupted after its files were complete."""
    stage = target / STAGE
    if not stage.is_dir():
        return
    try:
        _move(stage, target, [])
    except OSError as error:
        raise QkvError(
            f"saving to {target} was interrupted, and completing it failed: {error.strerror or error}"
        ) from None


def _move(stage: Path, target: Path, moved: list[str]) -> None:
    """Move the staged files into place and add their names to `moved`. Safe to repeat at any point."""
    new = disk.listed(stage / DIGESTS)
    if new and new.keys() & {"config.json", WHOLE}:  # digests move last: without them, nothing is left to do
        for name in new:
            if (stage / name).is_file() and _within(target, name):
                (target / name).parent.mkdir(exist_ok=True)
                with contextlib.suppress(FileNotFoundError):  # another process is finishing the same update
                    disk.rename(stage / name, target / name)
                moved.append(name)
        for name in _stale(target, set(new)):
            disk.remove(target / name)
        for place in {target, *((target / name).parent for name in new)}:
            disk.sync(place)
        with contextlib.suppress(FileNotFoundError):
            disk.rename(stage / DIGESTS, target / DIGESTS)
    disk.remove(stage)
    disk.sync(target)


def _stale(target: Path, new: set[str]) -> list[str]:
    """List the files of the old model that the new one does not have."""
    patterns = [*OWN, *(TOKENIZER if "tokenizer.json" in new else ())]
    there = {file.relative_to(target).as_posix() for pattern in patterns for file in target.glob(pattern)}
    there |= set(disk.listed(target / DIGESTS) or ())
    return sorted(name for name in there - new if _within(target, name) and not (target / name).is_dir())


def _within(target: Path, name: str) -> bool:
    """Return whether a file is inside the folder and not behind a symbolic link that leads out of it."""
    return (target / name).parent.resolve().is_relative_to(target.resolve())
