"""`qkv train reviews.csv`: recognise the task from the data, and read the recipe for it.

    a table         a text and classes           classify      two texts and classes   pairs
                    a text and numbers           regress       two languages           translate
    words in lines, and their tags               tag
    questions, contexts and answers              answer
    two aligned text files in two languages      translate
    a folder of images per class, IDX, npz       image

Only the first rows are read. Where no task fits, or several do, the error says what to type.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from qkv.common.config import override
from qkv.common.errors import UsageError
from qkv.data.files import HUB, content_name, expand, open_binary, read_lines, stored_file
from qkv.data.split import cut_part
from qkv.data.tables import find_format
from qkv.recipes.recognise_table import Given, table_kind
from qkv.recipes.recognise_text import LINES, folder_kind, is_image_file, is_tagged, pair_kind, text_kind
from qkv.recipes.recognised import Recognised
from qkv.recipes.renamed import with_new_names
from qkv.recipes.schema import Recipe, Say, parse_change, read_recipe
from qkv.recipes.shelf import shipped

DATA = "data."
SQUAD = b'"paragraphs"'
START = 1 << 16  # bytes of a JSON file to inspect


def recipe_for(what: str, changes: Sequence[str] = (), *, debug: bool = False, say: Say) -> Recipe:
    """Read a recipe by name or file, or the one that fits data files.

    Args:
        what: a recipe, or a data file or folder.
        changes: changes to the recipe ("key=value"); the others are further data files.
        debug: use the small numbers of the recipe's `[debug]` table.
        say: told what was recognised.
    """
    if what in shipped() or what.endswith(".toml") or not _is_data(what):
        return read_recipe(what, changes, debug=debug)
    files = [what, *(change for change in changes if "=" not in change)]
    changed = with_new_names(dict(parse_change(change) for change in changes if "=" in change))
    return recipe_of(files, changed, debug=debug, say=say)


def recipe_of(files: Sequence[str], changed: Mapping[str, Any], *, debug: bool = False, say: Say) -> Recipe:
    """Return the recipe that fits data files, with dotted keys changed."""
    given = {key.removeprefix(DATA): str(value) for key, value in changed.items() if key.startswith(DATA)}
    found = recognise(files, given)
    say(f"{' and '.join(files)}: {found.why}: running the recipe {found.recipe}")
    own = {"data.train": list(files), "out": f"runs/{_stem(files[0])}", **found.changes}
    return override(override(read_recipe(found.recipe, debug=debug), own), dict(changed))


def recognise(files: Sequence[str], given: Given | None = None) -> Recognised:
    """Return the recipe for data files; `given` are keys of [data] that the user has set."""
    if not files:
        raise UsageError("data.train is empty: name the file to train on")
    for file in files:
        if not file.startswith(HUB) and not any(os.path.exists(stored_file(path)) for path in expand([file])):
            raise UsageError(f"there is no file {file}")
    if all(map(is_image_file, files)):
        return Recognised("image", "images in arrays")
    if len(files) == 2 and not any(map(find_format, files)):
        return pair_kind(files)
    if len(files) > 1:
        how = "name the one to train on, and the others with --set data.valid=FILE data.test=FILE"
        raise UsageError(f"{len(files)} files that are not two aligned text files: {how}")
    return _one(cut_part(expand(files)[0])[0] if not os.path.exists(files[0]) else files[0], given or {})


def _one(path: str, given: Given) -> Recognised:
    if os.path.isdir(path):
        return folder_kind(path)
    if content_name(path).lower().endswith(".json") and _starts_with_squad(path):
        return Recognised("answer", "questions about texts, in SQuAD's format")
    if given.get("format") or find_format(path):
        return table_kind(path, given)
    lines = [line for _, line in islice(read_lines(path), LINES)]
    if is_tagged(path, lines):
        return Recognised("tag", "one word per line with its tag, and blank lines between sentences")
    if lines and all("\t" in line for line in lines):
        found = table_kind(path, {**given, "format": "tsv"})
        return replace(found, changes={**found.changes, "data.format": "tsv"})
    return text_kind(path, lines)


def _starts_with_squad(path: str) -> bool:
    with open_binary(path) as stream:
        return SQUAD in stream.read(START)


def _is_data(what: str) -> bool:
    """Whether an argument is data: a path, a pattern, a data set of the Hub, or something that looks like a file."""
    return what.startswith(HUB) or os.path.exists(stored_file(what)) or glob.has_magic(what) or bool(Path(what).suffix)


def _stem(what: str) -> str:
    """Return the name of a run: the file's without its endings."""
    name = os.path.basename(content_name(what).rstrip("/")) if os.path.exists(what) else os.path.basename(what)
    return "".join(c if c.isalnum() or c in "-_" else "-" for c in name.split(".")[0]).strip("-") or "data"
