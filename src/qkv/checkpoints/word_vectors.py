"""Read and write word vectors in the formats of other tools, plain or gzipped.

word2vec text    `N D`, then one line per word: the word and D numbers, separated by spaces
GloVe text       the same without the first line
word2vec binary  `N D`, then for each word: the word, a space, D little-endian floats, and optionally a line feed

Files whose names end in .bin are binary.
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
from qkv.nn.init import without_weights
from qkv.tokenizers.kinds import KINDS
from qkv.tokenizers.text import TextTokenizer

Floats = NDArray[np.float32]
Rows = Iterator[tuple[str, Any]]

UNKNOWN, END = "<unk>", "</s>"
LONGEST = 1 << 22  # maximum bytes of a vector or a line; a line with 300 numbers has about 3,000
LONGEST_WORD = 1 << 16  # maximum bytes of a word


def read_vectors(path: str | Path) -> tuple[list[str], Floats]:
    """Read words and their vectors. If a word occurs twice, the first vector is used. Shape: [words, D]."""
    found: dict[str, Any] = {}
    count = 0
    for word, vector in _read_binary(path) if content_name(path).endswith(".bin") else _read_text(path):
        found.setdefault(word, vector)
        count += 1
    if not found:
        raise QkvError(f"{path} contains no word vectors")
    if count > len(found):
        warnings.warn(f"{path}: repeated words: {count - len(found)}; the first vector of each is used", stacklevel=2)
    vectors = np.stack(list(found.values())).astype(np.float32, copy=False)
    if not np.isfinite(vectors).all():
        bad = list(found)[int(np.flatnonzero(~np.isfinite(vectors).all(1))[0])]
        raise QkvError(f"{path}: the vector of {bad!r} contains a number that is not finite")
    return list(found), vectors


def read_vector_file(path: str | Path) -> Folder:
    """Read word vectors as a model. The vectors of unknown words and of the end of a text are zero."""
    words, vectors = read_vectors(path)
    added = [token for token in (UNKNOWN, END) if token not in set(words)]
    config = Word2VecConfig(vocab_size=len(words) + len(added), dim=vectors.shape[1])
    with without_weights():
        model = Word2Vec(config)
    table = torch.cat([torch.from_numpy(vectors), torch.zeros(len(added), config.dim)])
    # Such a file has no output table, so the context head scores by similarity to the input vectors.
    model.load_state_dict({"inputs.weight": table, "outputs.weight": table.clone()}, assign=True)
    return Folder(config, model.eval(), _tokenizer([*words, *added]))


def write_vectors(path: str | Path, words: Sequence[str], vectors: NDArray[Any], *, header: bool = True) -> None:
    """Write words and their vectors atomically.

    Args:
        path: ends in .bin for the binary format, and in .gz to be gzipped.
        words: words that contain white space are left out with a warning: readers cannot tell where they end.
        vectors: Shape: [words, D].
        header: write `N D` first. GloVe text files have no header.
    """
    file, zipped = Path(path), str(path).endswith(".gz")
    binary = str(path).removesuffix(".gz").endswith(".bin")
    if binary and not header:
        raise UsageError(f"{file}: the binary format always has the header `N D`; only text files can omit it")
    if file.is_dir() or not file.parent.is_dir():
        raise UsageError(f"{file} cannot be written: give a file in an existing folder")
    kept = [row for row, word in enumerate(words) if len(word.split()) == 1 and word == word.strip()]
    if len(kept) < len(words):
        warnings.warn(f"words left out because they contain white space: {len(words) - len(kept)}", stacklevel=2)
    rows = ((words[row], np.asarray(vectors[row], dtype="<f4")) for row in kept)
    first = [f"{len(kept)} {vectors.shape[1]}\n".encode()] if header else []
    _write(file, chain(first, _binary(rows) if binary else _text(rows)), zipped)


def _read_text(path: str | Path) -> Rows:
    """Yield words and vectors. Words may contain spaces, as some in GloVe do."""
    lines = read_lines(path, LONGEST, "utf-8")
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
            raise QkvError(f"{path}:{place} is not a word followed by {max(dim, 1)} numbers: {text[:40]!r}")
        seen += 1
        yield word, vector
    if said is not None and seen != said:
        raise QkvError(f"{path} declares {said} words but contains {seen}")


def _read_binary(path: str | Path) -> Rows:
    with open_binary(path) as stream:
        fields = stream.readline(100).split()
        if len(fields) != 2 or not all(_is_count(field.decode("latin-1")) for field in fields):
            raise QkvError(f"{path} does not begin with the word count and the vector size, as word2vec .bin files do")
        count, dim = map(int, fields)
        _check_dim(path, dim)
        for number in range(1, count + 1):
            word, data = _until_space(stream), stream.read(4 * dim)
            if len(word) > LONGEST_WORD:
                raise too_large(f"{path}: word {number}", "word", LONGEST_WORD)
            if len(data) < 4 * dim:
                raise QkvError(f"{path} is truncated: word {number} of {count} is incomplete")
            try:
                yield word.decode(), np.frombuffer(data, "<f4")
            except UnicodeDecodeError:
                raise QkvError(f"{path}: word {number} is not UTF-8: {word[:40]!r}") from None


def _is_count(field: str) -> bool:
    return field.isascii() and field.isdecimal() and len(field) < 20


def _check_dim(path: str | Path, dim: int) -> None:
    if 4 * dim > LONGEST:
        raise QkvError(f"{path} has vectors of size {dim:,}; the maximum is {LONGEST // 4:,}")


def _until_space(stream: BinaryIO) -> bytes:
    letters = bytearray()
    while len(letters) <= LONGEST_WORD and (letter := stream.read(1)) not in (b" ", b""):
        letters += letter
    return bytes(letters).lstrip(b"\n")


def _text(rows: Rows) -> Iterator[bytes]:
    # numpy writes the fewest digits that round-trip to the same float
    return (f"{word} {' '.join(vector.astype(str))}\n".encode() for word, vector in rows)


def _binary(rows: Rows) -> Iterator[bytes]:
    return (word.encode() + b" " + vector.tobytes() + b"\n" for word, vector in rows)


def _write(file: Path, parts: Iterator[bytes], zipped: bool) -> None:
    with disk.streaming(file) as raw, disk.no_space(str(file)):
        if zipped:  # no file name and no time: equal vectors give equal bytes
            with gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as out:
                out.writelines(parts)
        else:
            raw.writelines(parts)


def _tokenizer(words: list[str]) -> TextTokenizer:
    """Make a word-level tokenizer. If no word has a capital letter, it converts texts to lower case."""
    inner = Tokenizer(models.WordLevel({word: row for row, word in enumerate(words)}, unk_token=UNKNOWN))
    if all(word == word.lower() for word in words):
        inner.normalizer = normalizers.Lowercase()
    inner.pre_tokenizer = KINDS["word"].split()
    inner.post_processor = processors.TemplateProcessing(
        single=f"$A {END}", pair=f"$A {END} $B {END}", special_tokens=[(END, words.index(END))]
    )
    return TextTokenizer(inner, {"unk_token": UNKNOWN, "eos_token": END})
