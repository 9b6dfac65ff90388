"""Semantic search: find the lines of a file that are nearest to a query. Their vectors are kept beside the file.

The search is exact: the query is compared with every line, one block of lines at a time.
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
from qkv.data.files import check_rereadable, digest_of, open_binary, read_lines, stored_file
from qkv.data.store import Store
from qkv.data.store_manifest import read_manifest
from qkv.data.store_writer import NoRows
from qkv.predict.model import Model
from qkv.predict.texts import chunked

CHUNK = 4096  # lines that are read into vectors at a time
CELLS = 1 << 22  # cosines computed at once: 16 MB

Say = Callable[[str], None]


class Hit(NamedTuple):
    """A line that was found.

    Attributes:
        line: its number, from 1.
        text: the line.
        cosine: its similarity to the query.
    """

    line: int
    text: str
    cosine: float

    def to_dict(self) -> dict[str, Any]:
        """Return the hit for JSON."""
        return self._asdict()


class Index:
    """The vectors of a file's lines; empty lines have none.

    Args:
        model: embeds the lines and the queries.
        corpus: a file of lines, which may be compressed.
        folder: where to keep the vectors; None means beside the corpus.
        pooling: how states become one vector; None means the folder's own way.
        say: called when the index is built, with the reason.
        progress: called with the number of lines that are done.
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
        self._seen, self._content = digest_of(self.corpus), _digest(self.corpus)
        key = self._key()
        old = read_manifest(self.folder) if self.folder.is_dir() else None
        if old is None or old["key"] != key:
            why = "" if old is None else " again: the file, the model, its maximum length or the pooling changed"
            say(f"reading {self.corpus} into {self.folder}{why}")
        with _writing(self.folder):
            self._store = self._built(key, progress)
        self._check_corpus()

    def __len__(self) -> int:
        return len(self._store)

    def search(self, questions: Sequence[str], *, top: int = 5) -> list[list[Hit]]:
        """Return the nearest lines for each query, nearest first."""
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
        self._check_corpus()  # after reading, so that a change in between is noticed too
        return [
            [Hit(int(line), texts[int(line)], float(cosine)) for line, cosine in zip(*found, strict=True)]
            for found in zip(lines, best, strict=True)
        ]

    def _built(self, key: str, progress: Callable[[int], None] | None) -> Store:
        try:
            return Store.cached(self.folder, key, lambda: self._rows(progress))
        except NoRows:
            raise UsageError(f"{self.corpus} holds no text: there is nothing to search") from None

    def _rows(self, progress: Callable[[int], None] | None) -> Iterator[Mapping[str, Any]]:
        lines = ((number, text) for number, text in read_lines(self.corpus) if text.strip())
        for chunk in chunked(lines, CHUNK):
            numbers, texts = zip(*chunk, strict=True)
            vectors = self.model.embed(texts, pooling=self.pooling, normalize=True, progress=progress)
            for number, vector in zip(numbers, vectors, strict=True):
                yield {"line": number, "vector": vector}

    def _key(self) -> str:
        """Return a digest of the file, every weight, the tokenizer, the maximum length and the pooling."""
        model = self.model
        weights = hashlib.sha256()
        for name, tensor in model.module.state_dict().items():
            weights.update(name.encode())
            weights.update(tensor.float().cpu().contiguous().numpy())
        tokens = model.tokenizer.fingerprint if model.tokenizer else ""
        sentence = model.sentence.fingerprint
        facts = [config_json(model.config), tokens, model.max_length, self.pooling, sentence, self._content]
        return hashlib.sha256(json.dumps([*facts, weights.hexdigest()], sort_keys=True).encode()).hexdigest()

    def _check_corpus(self) -> None:
        """Raise an error if the file has other lines than those of the index; a new time alone is no change."""
        seen = digest_of(self.corpus)
        if seen == self._seen:
            return
        if _digest(self.corpus) != self._content:
            raise QkvError(f"{self.corpus} changed after it was read into the index: make the index again")
        self._seen = seen

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
        raise QkvError(f"{folder} could not be written: {error.strerror or error}; choose another folder") from None
