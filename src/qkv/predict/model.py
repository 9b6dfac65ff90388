"""What people ask of a model: its verbs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, overload

import numpy as np
import torch
from torch import Tensor

from qkv.common.errors import UsageError, unknown
from qkv.common.outputs import Hidden
from qkv.predict.runner import Runner
from qkv.predict.translate import stream, translate


class Model(Runner):
    """A model, its tokenizer and its labels."""

    @property
    def several(self) -> bool:
        """Whether a text may have any number of the labels, not just one."""
        return self._folder.several

    @overload
    def embed(
        self,
        texts: Sequence[str],
        *,
        pooling: str | None = ...,
        normalize: bool = ...,
        output: Literal["numpy"] = ...,
        progress: Callable[[int], None] | None = ...,
    ) -> np.ndarray[Any, Any]: ...
    @overload
    def embed(
        self,
        texts: Sequence[str],
        *,
        pooling: str | None = ...,
        normalize: bool = ...,
        output: Literal["torch"],
        progress: Callable[[int], None] | None = ...,
    ) -> Tensor: ...
    def embed(
        self,
        texts: Sequence[str],
        *,
        pooling: str | None = None,
        normalize: bool = False,
        output: str = "numpy",
        progress: Callable[[int], None] | None = None,
    ) -> np.ndarray[Any, Any] | Tensor:
        """Turn each text into one vector.

        Args:
            texts: one string or many.
            pooling: "mean" of all states or "first"; the folder's own way where it is None.
            normalize: scale each vector to length 1.
            output: "numpy" or "torch".
            progress: told how many texts each batch has finished.

        Returns:
            Shape: [texts, D], float32.
        """
        if isinstance(texts, str):
            raise UsageError("embed takes a list of texts; put a single one in a list")
        pooling = pooling or self._folder.pooling
        if pooling not in ("mean", "first"):
            raise unknown("pooling", pooling, ["mean", "first"])
        if output not in ("numpy", "torch"):
            raise unknown("output", output, ["numpy", "torch"])
        encoded = self.encode(texts)

        def pool(hidden: Hidden) -> list[Tensor]:
            x = hidden.layout.mean(hidden.states) if pooling == "mean" else hidden.states[hidden.layout.first]
            return list(x.float())

        vectors = self._run(encoded.ids, self._encoder_states, pool, segments=encoded.segments, progress=progress)
        found = torch.stack(vectors) if vectors else torch.empty(0, self.config.dim)
        if normalize:
            found = torch.nn.functional.normalize(found, dim=-1)
        return found.cpu().numpy() if output == "numpy" else found

    def similar(self, a: str, b: str) -> float:
        """Return the cosine of two texts' vectors."""
        x, y = self.embed([a, b], normalize=True, output="torch")
        return float(x @ y)

    @overload
    def translate(
        self,
        texts: Sequence[str],
        *,
        nbest: Literal[1] = ...,
        scores: Literal[False] = ...,
        alignments: Literal[False] = ...,
        progress: Callable[[int], None] | None = ...,
        **options: Any,
    ) -> list[str]: ...
    @overload
    def translate(
        self,
        texts: Sequence[str],
        *,
        nbest: int = ...,
        scores: bool = ...,
        alignments: bool = ...,
        progress: Callable[[int], None] | None = ...,
        **options: Any,
    ) -> list[Any]: ...
    def translate(
        self,
        texts: Sequence[str],
        *,
        nbest: int = 1,
        scores: bool = False,
        alignments: bool = False,
        progress: Callable[[int], None] | None = None,
        **options: Any,
    ) -> list[Any]:
        """Translate each text; white space around it stays, and a long one is translated sentence by sentence.

        Args:
            texts: any texts, empty ones too.
            nbest: translations of each text; those after the best are its `others`.
            scores: return `Translation` objects, with scores and tokens.
            alignments: return `Translation` objects that tell which words belong together.
            progress: told how many texts each batch has finished.
            options: beam (4 if not given), length_penalty, prefix (one text, or one for each), forbidden (words that
                must not be said) and the other numbers of `DecodingConfig`.

        Returns:
            A string for each text; a `Translation` for each where nbest, scores or alignments are asked for.
        """
        found = translate(self, texts, nbest=nbest, alignments=alignments, progress=progress, **options)
        return found if nbest != 1 or scores or alignments else [translation.text for translation in found]

    def translate_stream(self, texts: Iterable[str], *, chunk: int = 512, **options: Any) -> Iterator[Any]:
        """Translate texts as they come and give them back in order; no more than `chunk` of them are held at a time."""
        return stream(self.translate, texts, chunk, options)
