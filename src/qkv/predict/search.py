"""The lines of a file that are nearest to a question: their vectors are kept beside the file until it changes.

Search is exact: every line is compared, a block of lines at a time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qkv.checkpoints.folder import config_json
from qkv.common.errors import QkvError, UsageError
from qkv.data.files import check_rereadable, open_binary, read_lines, stored_file
from qkv.data.store import Store
from qkv.data.store_manifest import read_manifest
from qkv.data.store_writer import NoRows
from qkv.predict.model import Model

CHUNK = 4096  # lines that are read into vectors at a time
CELLS = 1 << 22  # cosines computed at once: 16 MB

Say = Callable[[str], None]


class Hit(NamedTuple):
    """A line that was found.

    Attributes:
        line: its number, from 1.
        text: what it says.
        cosine: how near it is.
    """

    line: int
    text: str
    cosine: float


class Index:
    """The vectors of a file's lines; empty lines have none.

    Args:
        model: gives the vectors, to lines and to questions.
        corpus: a file of lines; .gz, .zip and such too.
        folder: where the vectors are kept; beside the corpus where it is None.
        pooling: "mean" or "first"; the folder's own way where it is None.
        say: told when the index is built, and why.
        progress: told how many lines have been read.
    """

    def __init__(
        self,
        model: Model,
        corpus: str | Path,
        *,
        folder: str | Path | None = None,
        pooling: str | None = None,
        say: Say = lambda _: None,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self.model, self.corpus, self.pooling = model, str(corpus), pooling or model.pooling
        self.folder = Path(folder) if folder is not None else _beside(stored_file(corpus))
        check_rereadable(corpus)
        key = self._key()
        old = read_manifest(self.folder) if self.folder.is_dir() else None
        if old is None or old["key"] != key:
            why = "" if old is None else " again, as the file, the model or the pooling changed"
            say(f"reading {self.corpus} into {self.folder}{why}")
        with _writing(self.folder):
            self._store = self._built(key, progress)

    def __len__(self) -> int:
        return len(self._store)

    def search(self, questions: Sequence[str], *, top: int = 5) -> list[list[Hit]]:
        """Return the nearest lines of each question, the nearest first."""
        if top < 1:
            raise UsageError(f"top must be at least 1, got {top}")
        if not questions:
            return []
        asked_QD = self.model.embed(questions, pooling=self.pooling, normalize=True)
        best = np.empty((len(questions), 0), np.float32)
        rows = np.empty((len(questions), 0), np.int64)
        vectors_ND = self._store.values("vector").reshape(len(self), -1)
        step = max(CELLS // len(questions), 1)
        for start in range(0, len(self), step):
            near_QB = asked_QD @ vectors_ND[start : start + step].T
            place = np.broadcast_to(np.arange(start, start + near_QB.shape[1]), near_QB.shape)
            best, rows = _kept(np.hstack([best, near_QB]), np.hstack([rows, place]), top)
        lines = self._store.values("line")[rows]
        texts = self._texts(set(lines.ravel().tolist()))
        return [
            [Hit(int(line), texts[int(line)], float(cosine)) for line, cosine in zip(*found, strict=True)]
            for found in zip(lines, best, strict=True)
        ]

    def _built(self, key: str, progress: Callable[[int], None] | None) -> Store:
        try:
            return Store.cached(self.folder, key, lambda: self._rows(progress))
        except NoRows:
            raise UsageError(f"{self.corpus} holds no text: there is nothing to search in") from None

    def _rows(self, progress: Callable[[int], None] | None) -> Iterator[Mapping[str, Any]]:
        lines = ((number, text) for number, text in read_lines(self.corpus) if text.strip())
        while chunk := list(islice(lines, CHUNK)):
            numbers, texts = zip(*chunk, strict=True)
            vectors = self.model.embed(texts, pooling=self.pooling, normalize=True, progress=progress)
            for number, vector in zip(numbers, vectors, strict=True):
                yield {"line": number, "vector": vector}

    def _key(self) -> str:
        """Name what the vectors are made from: the file, every weight, the tokenizer, the pooling."""
        model = self.model
        weights = hashlib.sha256()
        for name, tensor in model.module.state_dict().items():
            weights.update(name.encode())
            weights.update(tensor.float().cpu().contiguous().numpy())
        tokens = model.tokenizer.fingerprint if model.tokenizer else ""
        facts = [config_json(model.config), tokens, self.pooling, _digest(self.corpus)]
        return hashlib.sha256(json.dumps([*facts, weights.hexdigest()], sort_keys=True).encode()).hexdigest()

    def _texts(self, wanted: set[int]) -> dict[int, str]:
        """Read the lines of these numbers."""
        last = max(wanted, default=0)
        lines = islice(read_lines(self.corpus), last)
        return {number: text for number, text in lines if number in wanted}


def _beside(corpus: Path) -> Path:
    return corpus.with_name(f".{corpus.name}.qkv-index")


def _digest(corpus: str) -> str:
    """Digest the whole file, so that nothing is missed."""
    with open_binary(corpus) as stream:
        digest = hashlib.sha256()
        while part := stream.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


def _kept(near_QB: NDArray[Any], rows_QB: NDArray[Any], top: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Keep the best of each question; of equal ones, the first."""
    order = np.argsort(-near_QB, axis=1, kind="stable")[:, :top]
    return np.take_along_axis(near_QB, order, 1), np.take_along_axis(rows_QB, order, 1)


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise QkvError(f"{folder} could not be written: {error.strerror or error}; choose another place") from None
