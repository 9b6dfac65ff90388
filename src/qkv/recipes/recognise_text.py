"""Recognise the task of files that are no tables: tagged words, aligned sentences, images, plain text."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from qkv.common.errors import UsageError
from qkv.data.files import content_name, read_lines
from qkv.data.images import ENDINGS as IMAGES
from qkv.data.languages import is_language
from qkv.recipes.recognised import Recognised, command, undecided

LINES = 2000  # lines to inspect
TAGGED = (".conll", ".conllu", ".iob", ".iob2", ".bio")
PRETRAINING = ("pretrain-bert", "pretrain-electra", "pretrain-gpt", "pretrain-t5")
COMMON = 50  # the most frequent words of a language
SAME, DIFFERENT = 0.4, 0.25  # shares of those words in common; English and German share one in eight
WORDS = 200  # fewer words tell nothing about the language
FEW = 20  # different first words of lines that begin with a label


def folder_kind(folder: str) -> Recognised:
    """Recognise a folder with one folder per class, of images or of texts."""
    if (Path(folder) / "config.json").is_file():
        how = command("classify", ["FILE"], f"model.init={folder}")
        raise undecided([folder], "a model folder, not data", f"`{how}`")
    classes = sorted(place for place in Path(folder).iterdir() if place.is_dir() and not place.name.startswith("."))
    inside = {file.suffix.lower() for place in classes for file in islice(place.iterdir(), LINES)}
    found = f"{len(classes)} folders, one per class"
    if len(classes) > 1 and inside & set(IMAGES):
        return Recognised("image", f"images in {found}")
    if len(classes) > 1 and ".txt" in inside:
        return Recognised("classify", f"text files in {found}")
    raise UsageError(f"{folder} has no folder of images or .txt files for each class: name a file or a recipe")


def is_image_file(path: str) -> bool:
    """Whether a file holds images: IDX, as MNIST has them, or npz."""
    name = os.path.basename(path).lower()
    return name.endswith(".npz") or "idx3-ubyte" in name or "idx1-ubyte" in name


def pair_kind(files: Sequence[str]) -> Recognised:
    """Recognise two aligned text files: translations if their languages differ."""
    endings = [Path(content_name(file)).suffix.lstrip(".") for file in files]
    if all(map(is_language, endings)) and endings[0].lower() != endings[1].lower():
        return Recognised("translate", f"aligned sentences in two languages ({' and '.join(endings)})")
    first, second = ([line for _, line in islice(read_lines(file), LINES)] for file in files)
    return two_languages(files, first, second, "aligned text files")


def two_languages(
    files: Sequence[str], first: Iterable[str], second: Iterable[str], what: str, more: str = ""
) -> Recognised:
    """Recognise translations by their words; `what` and `more` describe the data and the keys that select it."""
    share = shared_words(first, second)
    if share is not None and share <= DIFFERENT:
        return Recognised("translate", f"{what} in two languages ({share:.0%} of their frequent words are the same)")
    why = f"{what}, but it is not clear whether their languages differ"
    if share is not None and share >= SAME:
        why = f"{what} in one language ({share:.0%} of their frequent words are the same)"
    close, generate = (command(name, files, more) for name in ("sentence-embeddings", "translate"))
    choices = f"`{close}` to bring the texts of a pair together", f"`{generate}` to generate the second text"
    raise undecided(files, why, *choices)


def shared_words(first: Iterable[str], second: Iterable[str]) -> float | None:
    """Return how many of the most frequent words of two sides are the same, or None for too few words.

    Sides in different scripts share none, whatever their number.
    """
    words = ((word for text in side for word in re.findall(r"[^\W\d_]+", text.lower())) for side in (first, second))
    counts = [Counter(side) for side in words]
    if not counts[0].keys() & counts[1].keys() and all(counts):
        return 0.0
    if min(count.total() for count in counts) < WORDS:
        return None
    tops = [{word for word, _ in count.most_common(COMMON)} for count in counts]
    return len(tops[0] & tops[1]) / min(map(len, tops))


def text_kind(path: str, lines: Sequence[str]) -> Recognised:
    """Recognise a text file by its first lines: a label before each text; plain text needs a choice."""
    if lines and lines[0].startswith("__label__"):
        return Recognised("classify", "lines that begin with __label__")
    firsts = [line.split(None, 1)[0] for line in lines if len(line.split(None, 1)) == 2]
    if len(firsts) == len(lines) >= FEW and 2 <= len(set(firsts)) <= min(FEW, len(firsts) / 10):
        change = {"data.format": "label-first"}
        return Recognised("classify", f"lines that begin with one of {len(set(firsts))} labels", change)
    first, *others = PRETRAINING
    raise undecided(
        [path],
        "plain text without labels, which is for pre-training",
        f"`{command(first, [path])}` (also with {', '.join(others)})",
        f"`{command('adapt', [path], 'model.init=FOLDER')}` to continue with a model",
    )


def is_tagged(path: str, lines: Sequence[str]) -> bool:
    """Whether lines are words with tags: blank lines between sentences, columns of equal number, tags that repeat."""
    if Path(content_name(path)).suffix.lower() in TAGGED:
        return True
    blocks = list(_blocks(lines))
    rows = [cells for block in blocks[:-1] or blocks for cells in block]  # the last one may be cut off
    widths = {len(cells) for cells in rows}
    if len(blocks) < 2 or len(widths) != 1 or widths == {1}:
        return False
    return len({cells[-1] for cells in rows}) <= len(rows) / 2 and all(len(cells[0].split()) == 1 for cells in rows)


def _blocks(lines: Sequence[str]) -> Iterator[list[list[str]]]:
    block: list[list[str]] = []
    for line in lines:
        if line.strip() and not line.startswith(("-DOCSTART-", "# ")):
            block.append(line.split("\t") if "\t" in line else line.split())
        elif block and not line.strip():
            yield block
            block = []
    if block:
        yield block
