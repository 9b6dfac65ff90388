"""Word vectors in the files that other tools write and read, plain or gzipped.

word2vec text    `N D`, then a line for each word: the word and D numbers, a space before each
GloVe text       the same without the first line
word2vec binary  `N D`, then for each word: the word, a space, D little-endian floats, a line feed that may be missing

A name that ends in .bin is binary.
"""

from __future__ import annotations

import gzip
import warnings
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, normalizers, processors

from qkv.checkpoints.folder import Folder
from qkv.common import disk
from qkv.common.errors import QkvError, UsageError
from qkv.data.files import content_name, open_binary, read_lines
from qkv.data.limits import too_large
from qkv.models.word2vec import Word2Vec, Word2VecConfig
from qkv.tokenizers.kinds import KINDS
from qkv.tokenizers.text import TextTokenizer

Floats = NDArray[np.float32]
Rows = Iterator[tuple[str, Any]]

UNKNOWN, END = "<unk>", "</s>"
LONGEST = 1 << 22  # bytes of one vector and of its line; those of 300 numbers have about 3,000
LONGEST_WORD = 1 << 16  # bytes


def read_vectors(path: str | Path) -> tuple[list[str], Floats]:
    """Read words and their vectors; of a word that stands there twice, the first. Shape: [words, D]."""
    found: dict[str, Any] = {}
    count = 0
    for word, vector in _read_binary(path) if content_name(path).endswith(".bin") else _read_text(path):
        found.setdefault(word, vector)
        count += 1
    if not found:
        raise QkvError(f"{path} holds no word vectors")
    if count > len(found):
        warnings.warn(f"{path}: {count - len(found)} words stand there twice, and the first is taken", stacklevel=2)
    vectors = np.stack(list(found.values())).astype(np.float32, copy=False)
    if not np.isfinite(vectors).all():
        bad = list(found)[int(np.flatnonzero(~np.isfinite(vectors).all(1))[0])]
        raise QkvError(f"{path}: the vector of {bad!r} holds what is no finite number")
    return list(found), vectors


def read_vector_file(path: str | Path) -> Folder:
    """Read word vectors as a model: words that are unknown, and the end of a text, are zero."""
    words, vectors = read_vectors(path)
    added = [token for token in (UNKNOWN, END) if token not in set(words)]
    config = Word2VecConfig(vocab_size=len(words) + len(added), dim=vectors.shape[1])
    with torch.device("meta"):
        model = Word2Vec(config)
    table = torch.cat([torch.from_numpy(vectors), torch.zeros(len(added), config.dim)])
    # The table of words asked for is not in such a file: the context head scores by likeness.
    model.load_state_dict({"inputs.weight": table, "outputs.weight": table.clone()}, assign=True)
    return Folder(config, model.eval(), _tokenizer([*words, *added]))


def write_vectors(path: str | Path, words: Sequence[str], vectors: NDArray[Any], *, header: bool = True) -> None:
    """Write words and their vectors: the file is whole or not there.

    Args:
        path: ends in .bin for the binary form, and in .gz to be gzipped.
        words: a word with white space in it is left out (said aloud), as no reader could tell where it ends.
        vectors: Shape: [words, D].
        header: write `N D` first; GloVe's own text has none.
    """
    file, zipped = Path(path), str(path).endswith(".gz")
    binary = str(path).removesuffix(".gz").endswith(".bin")
    if binary and not header:
        raise UsageError(f"{file}: the binary form always begins with `N D`; only text can be without")
    if file.is_dir() or not file.parent.is_dir():
        raise UsageError(f"{file} cannot be written: it must name a file in a folder that exists")
    kept = [row for row, word in enumerate(words) if len(word.split()) == 1 and word == word.strip()]
    if len(kept) < len(words):
        warnings.warn(f"{len(words) - len(kept)} words with white space in them are left out", stacklevel=2)
    rows = ((words[row], np.asarray(vectors[row], dtype="<f4")) for row in kept)
    first = [f"{len(kept)} {vectors.shape[1]}\n".encode()] if header else []
    _write(file, chain(first, _binary(rows) if binary else _text(rows)), zipped)


def _read_text(path: str | Path) -> Rows:
    """Give words and vectors; words may hold spaces, as some of GloVe's do."""
    lines = read_lines(path, LONGEST)
    number, line = next(lines, (1, ""))
    fields = line.rstrip().split(" ")
    said = None
    if len(fields) == 2 and all(_is_count(field) for field in fields):
        said, dim = map(int, fields)
        _check_dim(path, dim)
    else:
        dim, lines = len(fields) - 1, chain([(number, line)], lines)
    seen = 0
    for place, text in lines:
        word, *numbers = text.rstrip(" ").rsplit(" ", dim)
        try:
            vector = np.array(numbers, dtype=np.float32)
        except ValueError:
            vector = np.empty(0, np.float32)
        if not word or not dim or len(vector) != dim:
            raise QkvError(f"{path}:{place} is not a word and {max(dim, 1)} numbers: {text[:40]!r}")
        seen += 1
        yield word, vector
    if said is not None and seen != said:
        raise QkvError(f"{path} says that it holds {said} words and holds {seen}")


def _read_binary(path: str | Path) -> Rows:
    with open_binary(path) as stream:
        fields = stream.readline(100).split()
        if len(fields) != 2 or not all(_is_count(field.decode("latin-1")) for field in fields):
            raise QkvError(f"{path} does not begin with the number of words and of numbers, as word2vec's .bin do")
        count, dim = map(int, fields)
        _check_dim(path, dim)
        for number in range(1, count + 1):
            word, data = _until_space(stream), stream.read(4 * dim)
            if len(word) > LONGEST_WORD:
                raise too_large(f"{path}: word {number}", "word", LONGEST_WORD)
            if len(data) < 4 * dim:
                raise QkvError(f"{path} is cut off: word {number} of {count} is not whole")
            try:
                yield word.decode(), np.frombuffer(data, "<f4")
            except UnicodeDecodeError:
                raise QkvError(f"{path}: word {number} is not UTF-8: {word[:40]!r}") from None


def _is_count(field: str) -> bool:
    return field.isascii() and field.isdecimal() and len(field) < 20


def _check_dim(path: str | Path, dim: int) -> None:
    if 4 * dim > LONGEST:
        raise QkvError(f"{path} has vectors of {dim:,} numbers; at most {LONGEST // 4:,} are read")


def _until_space(stream: BinaryIO) -> bytes:
    letters = bytearray()
    while len(letters) <= LONGEST_WORD and (letter := stream.read(1)) not in (b" ", b""):
        letters += letter
    return bytes(letters).lstrip(b"\n")


def _text(rows: Rows) -> Iterator[bytes]:
    # numpy writes as few digits as bring the same float back
    return (f"{word} {' '.join(vector.astype(str))}\n".encode() for word, vector in rows)


def _binary(rows: Rows) -> Iterator[bytes]:
    return (word.encode() + b" " + vector.tobytes() + b"\n" for word, vector in rows)


def _write(file: Path, parts: Iterator[bytes], zipped: bool) -> None:
    with disk.streaming(file) as raw, disk.no_space(str(file)):
        if zipped:  # without name and time, so that the same vectors are the same bytes
            with gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as out:
                out.writelines(parts)
        else:
            raw.writelines(parts)


def _tokenizer(words: list[str]) -> TextTokenizer:
    """Make a tokenizer of whole words; where no word has a capital, texts are read as lower case."""
    inner = Tokenizer(models.WordLevel({word: row for row, word in enumerate(words)}, unk_token=UNKNOWN))
    if all(word == word.lower() for word in words):
        inner.normalizer = normalizers.Lowercase()
    inner.pre_tokenizer = KINDS["word"].split()
    inner.post_processor = processors.TemplateProcessing(
        single=f"$A {END}", pair=f"$A {END} $B {END}", special_tokens=[(END, words.index(END))]
    )
    return TextTokenizer(inner, {"unk_token": UNKNOWN, "eos_token": END})
