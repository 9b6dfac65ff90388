"""Run exported models with CTranslate2."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from qkv.checkpoints.weights import read_weights
from qkv.common.batch import Tokens
from qkv.common.errors import QkvError, UsageError
from qkv.compression.export.ctranslate2_files import HEADS, PLACE, searches
from qkv.compression.export.ctranslate2_search import Search
from qkv.compression.export.graphs import HEAD
from qkv.compression.export.modules import HeadGraph
from qkv.compression.export.tracing import INSTALL, first_line
from qkv.data.optional import need
from qkv.models.skeleton import EncoderDecoder, Headed


class CTranslate2Engine:
    """A folder of CTranslate2, and the heads of an encoder.

    Args:
        folder: holds the exported model.
        model: the model without weights; its heads get those of the folder.
    """

    name = "ctranslate2 float32"

    def __init__(self, folder: Path, model: Headed) -> None:
        runtime = need("ctranslate2", f"running {folder}", INSTALL)
        self._storage = runtime.StorageView.from_array
        self._place, self._model, self.searches_only = folder / PLACE, model, searches(model)
        kind = runtime.Encoder
        if self.searches_only:
            kind = runtime.Translator if isinstance(model, EncoderDecoder) else runtime.Generator
        try:
            threads = torch.get_num_threads()
            self._runs = kind(str(self._place), device="cpu", compute_type="float32", intra_threads=threads)
        except Exception as error:  # CTranslate2 has its own errors for each kind of damage
            raise QkvError(f"{self._place} cannot be loaded: {first_line(error)[:200]}") from None
        if (folder / HEADS).is_dir():
            model.load_state_dict(read_weights(folder / HEADS), strict=False, assign=True)
        self._words = _vocabulary(self._place) if self.searches_only else []
        self._numbers = {word: number for number, word in enumerate(self._words)}

    def run(self, graph: str, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Compute hidden states with CTranslate2, or the scores of a head with PyTorch."""
        if self.searches_only:
            raise UsageError("CTranslate2 gives no hidden states of a model that generates: use the original folder")
        if graph.startswith(HEAD):
            scored: dict[str, Tensor] = HeadGraph(self._model, graph.removeprefix(HEAD)).eval()(given)
            return scored
        ids, lengths = given["input_ids"], given["attention_mask"].sum(1)
        views = [self._storage(x.to(torch.int32).contiguous().numpy()) for x in (ids, lengths)]
        embeddings: Any = self._model.embeddings
        segments = embeddings.segment is not None and embeddings.segment.num_embeddings > 1
        found = self._runs.forward_batch(*views, token_type_ids=given["token_type_ids"].tolist() if segments else None)
        return {"last_hidden_state": torch.from_numpy(np.array(found.last_hidden_state))}

    def start(self, batch: Tokens) -> Search | None:
        """Return the search that continues a batch of sources or prompts."""
        return Search(self._runs, self._words, self._numbers, batch) if self.searches_only else None


def _vocabulary(place: Path) -> list[str]:
    """Return the tokens of a folder of CTranslate2."""
    names = ("shared_vocabulary.json", "source_vocabulary.json", "vocabulary.json")
    for file in (place / name for name in names):
        if file.is_file():
            found: list[str] = json.loads(file.read_text("utf-8"))
            return found
    raise QkvError(f"{place} has no vocabulary: one of {', '.join(names)}")
