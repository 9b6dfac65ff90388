"""A model's files within a folder that holds more: put in place so that a kill leaves the old model or the new one.

    folder/.qkv-update/   the new files with their digests, complete before the folder gets this name
    folder/               then each is moved here, files of the old model that the new one lacks are removed, and the
                          digests are moved last

Whoever reads a folder that still has `.qkv-update` finishes the moves first. Before that folder has its name, the old
model is untouched.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from qkv.checkpoints.weights import INDEX, SHARDS, WHOLE
from qkv.common import disk
from qkv.common.errors import QkvError

DIGESTS = "qkv_digests.json"  # the SHA-256 of each file that qkv wrote; other libraries ignore it
STAGE = ".qkv-update"
VERIFY = "QKV_VERIFY"  # the environment variable: 0 loads folders that do not match their digests

# What belongs to a model whoever wrote it, so that none of it may outlive the model.
OWN = (
    "config.json", WHOLE, INDEX, SHARDS,
    "modules.json", "config_sentence_transformers.json", "sentence_bert_config.json",
    "[0-9]*_Pooling/config.json", "[0-9]*_Dense/config.json", "[0-9]*_Dense/model.safetensors",
)  # fmt: skip
# Replaced by tokenizer.json: a model without a tokenizer leaves another's alone, unless qkv wrote it.
TOKENIZER = (
    "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.txt", "vocab.json", "merges.txt",
)  # fmt: skip


def with_digests(files: dict[str, bytes]) -> dict[str, bytes]:
    """Return the files of a model folder, and the one that holds their digests."""
    return files | {DIGESTS: disk.manifest_of(files)}


def check_digests(folder: Path) -> None:
    """Stop where a file is not as qkv wrote it; a folder without digests passes."""
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
    """Put a model's files into a folder and keep every file there that is not a model's."""
    finish_update(target)
    for left in target.glob(f".{STAGE}.*"):  # of a save that was cut off before its files were complete
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
            raise QkvError(f"saving into {target} stopped midway: {reason}; loading the folder finishes it") from None
        raise


def finish_update(target: Path) -> None:
    """Finish an update that was cut off once its files were complete."""
    stage = target / STAGE
    if not stage.is_dir():
        return
    try:
        _move(stage, target, [])
    except OSError as error:
        raise QkvError(
            f"saving into {target} was cut off, and finishing it failed: {error.strerror or error}"
        ) from None


def _move(stage: Path, target: Path, moved: list[str]) -> None:
    """Move what is staged into place; names that have moved are added to `moved`. It may be repeated at any point."""
    new = disk.listed(stage / DIGESTS)
    if new and new.keys() & {"config.json", WHOLE}:  # digests move last, so without them nothing is left to do
        for name in new:
            if (stage / name).is_file() and _within(target, name):
                (target / name).parent.mkdir(exist_ok=True)
                with contextlib.suppress(FileNotFoundError):  # another process finishes the same update
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
    """List the files of the model that stood here which the new one does not have."""
    patterns = [*OWN, *(TOKENIZER if "tokenizer.json" in new else ())]
    there = {file.relative_to(target).as_posix() for pattern in patterns for file in target.glob(pattern)}
    there |= set(disk.listed(target / DIGESTS) or ())
    return sorted(name for name in there - new if _within(target, name) and not (target / name).is_dir())


def _within(target: Path, name: str) -> bool:
    """Whether a file lies in the folder, and not behind a link that leads out of it."""
    return (target / name).parent.resolve().is_relative_to(target.resolve())
