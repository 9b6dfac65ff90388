"""Zip archives: `archive.zip!member.txt` is a path, and an archive with a single member needs no name.

Members whose names begin with _ or . (_about.txt, __MACOSX) are ignored unless you name them.
"""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from fnmatch import fnmatchcase
from typing import BinaryIO, cast

from qkv.common.errors import QkvError, UsageError

ENDING = ".zip"
# How zipfile fails at damaged archives; RuntimeError is an encrypted member or a method that Python does not know.
BROKEN = (zipfile.BadZipFile, OSError, RuntimeError, ValueError, ArithmeticError, LookupError, struct.error, zlib.error)


def cut(name: str) -> tuple[str, str | None]:
    """Split `a.zip!b` into the file `a.zip` and the member `b`; other names have no member."""
    head, mark, member = name.partition(f"{ENDING}!")
    return (head + ENDING, member) if mark else (name, None)


def is_zipped(name: str) -> bool:
    """Return whether a path refers to a member of a zip archive."""
    return cut(name)[0].lower().endswith(ENDING)


def find_member(name: str) -> tuple[str, str]:
    """Return the archive and the member that `name` refers to."""
    archive, wanted = cut(name)
    members = list_members(archive)
    if wanted in members:
        return archive, str(wanted)
    plain = [member for member in members if not member.startswith(("_", "."))]
    if wanted is None and len(plain or members) == 1:
        return archive, (plain or members)[0]
    shown = ", ".join(members[:5]) + (", ..." if len(members) > 5 else "")
    many = f"contains {len(members)} files; choose one with {archive}!FILE"
    raise UsageError(f"{archive} {many if wanted is None else f'has no member {wanted!r}'} (it contains: {shown})")


def open_member(name: str) -> tuple[BinaryIO, str]:
    """Open the member that `name` refers to; return the stream and the name of the member."""
    archive, member = find_member(name)
    try:
        # A member keeps the archive's file open until it is closed itself.
        with zipfile.ZipFile(archive) as opened:
            return cast(BinaryIO, opened.open(member)), member
    except BROKEN as error:
        raise QkvError(f"{name} cannot be opened: {error}") from None


def match_members(name: str) -> list[str]:
    """Return the paths of the members that the pattern after `!` matches."""
    archive, pattern = cut(name)
    return [f"{archive}!{member}" for member in list_members(archive) if fnmatchcase(member, pattern or "*")]


def list_members(archive: str) -> list[str]:
    """Return the names of the files in an archive."""
    if not os.path.isfile(archive):
        raise UsageError(f"{archive} {'is not a regular file' if os.path.exists(archive) else 'does not exist'}")
    try:
        with zipfile.ZipFile(archive) as opened:
            return [info.filename for info in opened.infolist() if not info.is_dir()]
    except BROKEN as error:
        raise QkvError(f"{archive} is not a zip archive, or is truncated: {error}") from None
