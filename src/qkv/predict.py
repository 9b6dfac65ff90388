"""`qkv.load(folder)`: an object with the verbs its model supports.

Texts and ids are sorted by length and packed into batches of a token budget; answers come back in the order asked.
"""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
import torch
from torch import Tensor

from qkv.checkpoints.folder import Folder, config_json, read_folder, write_folder
from qkv.common.batch import Images, Pairs, Tokens, check
from qkv.common.errors import UsageError, unknown
from qkv.common.outputs import Hidden
from qkv.decoding.greedy import greedy
from qkv.models import catalogue
from qkv.models.seq2seq_rnn import RecurrentSeq2Seq
from qkv.models.skeleton import EncoderDecoder, Transformer
from qkv.models.word2vec import Word2Vec
from qkv.nn import kernels
from qkv.nn.kernels import Bias
from qkv.nn.precision import cpu_multiplies
from qkv.tokenizers.text import Encoded

Ids = Sequence[Sequence[int]]
TOKENS_PER_BATCH = {"cpu": 2048, "cuda": 32_768}


class Model:
    """A model, its tokenizer and its labels."""

    def __init__(self, folder: Folder, *, device: str | None = None, kernel: str = "auto") -> None:
        kernels.use(folder.model, kernel)
        self._folder = folder
        self.kernel = kernel
        self.device = _device(device)
        self.module = folder.model.to(self.device)
        self.config, self.tokenizer, self.labels = folder.config, folder.tokenizer, folder.labels

    @property
    def family(self) -> str:
        """The family's name in the catalogue."""
        return catalogue.family_of(self.config)

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

    def encode(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> Encoded:
        """Turn texts into ids, cut to what the model can read (said aloud)."""
        if self.tokenizer is None:
            raise UsageError(
                "this model has no tokenizer: give ids to hidden() or logits(), or load a folder that has one"
            )
        limits = [self.tokenizer.max_length, getattr(self.config, "max_length", None)]
        limit = min((n for n in limits if n), default=None)
        encoded = self.tokenizer.encode(texts, pairs)
        if limit is not None and (cut := sum(len(ids) > limit for ids in encoded.ids)):
            warnings.warn(f"{cut} of {len(encoded.ids)} texts were cut to {limit} tokens", stacklevel=3)
            encoded = self.tokenizer.encode(texts, pairs, max_length=limit)
        return encoded

    def hidden(self, ids: Ids | Tensor, target_ids: Ids | None = None, *, segments: Ids | None = None) -> list[Tensor]:
        """Return the last states of each sequence (of each target, with `target_ids`). Shape of each: [L, D]."""
        return self._run(ids, self._states, Hidden.split, target_ids=target_ids, segments=segments)

    def logits(
        self,
        ids: Ids | Tensor,
        target_ids: Ids | None = None,
        *,
        segments: Ids | None = None,
        head: str | None = None,
    ) -> list[Tensor]:
        """Return the scores of each sequence.

        Args:
            ids: lists of token ids; for a model of images, pixels as [B, C, height, width].
            target_ids: what the decoder reads, in an encoder-decoder.
            segments: BERT's sentence of each token.
            head: which head, where there are several.

        Returns:
            One tensor per sequence: [L, ...] from a head over tokens, [...] from a head over sequences.
        """
        self.module.head(head)  # an unknown head is an error before any work
        if target_ids is None and getattr(self.module, "decoder", None) is not None:
            raise UsageError("the scores of an encoder-decoder are its decoder's: give target_ids")

        def score(hidden: Hidden) -> list[Tensor]:
            scores = self.module.logits(hidden, head)
            return hidden.layout.split(scores) if self.module.head(head).over == "rows" else list(scores)

        return self._run(ids, self._states, score, target_ids=target_ids, segments=segments)

    @torch.inference_mode()
    def translate(self, texts: Sequence[str], *, progress: Callable[[int], None] | None = None) -> list[str]:
        """Translate each text, the most likely word at a time; an empty text stays empty.

        Args:
            texts: one string per sentence.
            progress: told how many texts each batch has finished.
        """
        module = self.module
        if (
            not isinstance(module, EncoderDecoder | RecurrentSeq2Seq)
            or "lm" not in module.heads
            or self.tokenizer is None
        ):
            raise UsageError(f"this {self.family} is not a translator: an encoder-decoder with a tokenizer is needed")
        asked = [number for number, text in enumerate(texts) if text.strip()]
        ids = self.encode([texts[number] for number in asked]).ids if asked else []
        found = [""] * len(texts)
        for rows in self._batches(ids, None):
            source = Tokens.of([ids[row] for row in rows], device=self.device)
            limits = [2 * len(ids[row]) + 20 for row in rows]
            ends = {"start_id": self.config.start_id, "end_id": self.config.end_id}
            said = greedy(module.start(source), max_lengths=limits, **ends)
            for row, target in zip(rows, said, strict=True):
                found[asked[row]] = self.tokenizer.decode(target)
            if progress is not None:
                progress(len(rows))
        return found

    def describe(self) -> dict[str, Any]:
        """Return what `qkv info` prints."""
        return describe(self.config, self._folder, self.device, self.kernel)

    def save(self, folder: str | Path) -> None:
        """Write the model folder."""
        write_folder(self._folder, folder)

    def _states(self, batch: Tokens | Images | Pairs) -> Hidden:
        if isinstance(self.module, Transformer | Word2Vec):
            if isinstance(batch, Pairs):
                raise UsageError(f"{self.family} has no decoder: it takes no target_ids")
            return self.module(batch)
        if isinstance(batch, Pairs):
            return self.module(batch)
        return self._encoder_states(batch)

    def _encoder_states(self, batch: Tokens | Images | Pairs) -> Hidden:
        if isinstance(self.module, EncoderDecoder) and isinstance(batch, Tokens):
            return self.module.encode(batch)
        if isinstance(self.module, RecurrentSeq2Seq) and isinstance(batch, Tokens):
            return self.module.encode(batch)[0]
        return self._states(batch)

    @torch.inference_mode()
    def _run(
        self,
        ids: Ids | Tensor,
        states: Callable[[Tokens | Images | Pairs], Hidden],
        finish: Callable[[Hidden], list[Tensor]],
        *,
        target_ids: Ids | None = None,
        segments: Ids | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> list[Tensor]:
        if isinstance(ids, Tensor) != (self.family == "vit"):
            raise UsageError(
                f"{self.family} takes {'pixels as one tensor' if self.family == 'vit' else 'lists of token ids'}"
            )
        if isinstance(ids, Tensor):
            return finish(states(Images(ids.to(self.device))))
        if target_ids is not None and len(target_ids) != len(ids):
            raise UsageError(f"{len(ids)} sources and {len(target_ids)} targets: there must be as many of each")
        if getattr(self.config, "num_segments", 0) == 0:
            segments = None  # a model without segments has nothing to tell apart
        if ids:
            self._check(ids, target_ids, segments)
        found: dict[int, Tensor] = {}
        for rows in self._batches(ids, target_ids):
            found |= zip(rows, finish(states(self._batch(rows, ids, target_ids, segments))), strict=True)
            if progress is not None:
                progress(len(rows))
        return [found[row] for row in range(len(ids))]

    def _check(self, ids: Ids, target_ids: Ids | None, segments: Ids | None) -> None:
        """Say what is wrong with which sequence, in the caller's own numbers, before any work is done."""
        limit = self.config.max_length if self._position == "learned" else None
        for sequences in (ids, target_ids):
            if sequences is None:
                continue
            check(sequences, "id", self.config.vocab_size)
            for number, sequence in enumerate(sequences):
                if limit is not None and len(sequence) > limit:
                    got = f"sequence {number} has {len(sequence)} tokens"
                    raise UsageError(f"{got}, and the model's max_length is {limit}")
        if segments is not None:
            if [len(s) for s in segments] != [len(s) for s in ids]:
                raise UsageError("segments must have the same lengths as the ids")
            check(segments, "segment", self.config.num_segments)

    @property
    def _position(self) -> str | None:
        position = getattr(self.config, "position", None)
        return None if position is None else position.name

    def _batch(self, rows: list[int], ids: Ids, target_ids: Ids | None, segments: Ids | None) -> Tokens | Pairs:
        part = None if segments is None else [segments[row] for row in rows]
        source = Tokens.of([ids[row] for row in rows], segments=part, device=self.device)
        if target_ids is None:
            return source
        return Pairs(source, Tokens.of([target_ids[row] for row in rows], device=self.device))

    def _batches(self, ids: Ids, target_ids: Ids | None) -> Iterator[list[int]]:
        """Cut the sequences into batches of a token budget, longest first, so that memory runs out early or never."""
        sizes = [len(sequence) for sequence in ids]
        if target_ids is not None:
            sizes = [size + len(target) for size, target in zip(sizes, target_ids, strict=True)]
        budget = TOKENS_PER_BATCH[self.device.type if self.device.type in TOKENS_PER_BATCH else "cpu"]
        rows: list[int] = []
        tokens = 0
        for row in sorted(range(len(ids)), key=lambda row: -sizes[row]):
            if rows and tokens + sizes[row] > budget:
                yield rows
                rows, tokens = [], 0
            rows.append(row)
            tokens += sizes[row]
        if rows:
            yield rows


def load(folder: str | Path, *, device: str | None = None, kernel: str = "auto", dtype: str = "float32") -> Model:
    """Load a model folder, written by qkv or by `transformers`.

    Args:
        folder: a path.
        device: "cpu", "cuda" or "cuda:1"; CUDA where there is one if None.
        kernel: the attention kernel: auto, eager, sdpa, varlen or flex.
        dtype: float32, bfloat16 or float16.
    """
    if dtype not in ("float32", "bfloat16", "float16"):
        raise unknown("dtype", dtype, ["float32", "bfloat16", "float16"])
    kind = getattr(torch, dtype)
    if _device(device).type == "cpu" and not cpu_multiplies(kind):
        raise UsageError(
            f"{dtype} products kill the process on this CPU: use float32, or set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16"
        )
    return Model(read_folder(folder, dtype=kind), device=device, kernel=kernel)


def build(preset: str, *, device: str | None = None, kernel: str = "auto", **changes: Any) -> Model:
    """Build a preset with first weights, for example `qkv.build("bert-base", position="rotary")`."""
    config = catalogue.preset(preset, **changes)
    return Model(Folder(config, catalogue.build(config).eval()), device=device, kernel=kernel)


def save(model: Model, folder: str | Path) -> None:
    """Write the model folder: Hugging Face's own format for every family it has."""
    model.save(folder)


def info(name: str) -> dict[str, Any]:
    """Describe a model folder or a preset; a preset is counted without being built in memory."""
    if os.path.isdir(name) or name not in catalogue.PRESETS:
        if not os.path.exists(name):
            raise unknown("model folder or preset", name, catalogue.PRESETS)
        return load(name).describe()
    config = catalogue.preset(name)
    with torch.device("meta"):
        model = catalogue.build(config)
    return describe(config, Folder(config, model), _device(None), "auto")


def describe(config: Any, folder: Folder, device: torch.device, kernel: str) -> dict[str, Any]:
    """Collect the facts of a model."""
    parameters = sum(parameter.numel() for parameter in folder.model.parameters())
    sizes = {f.name: getattr(config, f.name) for f in dataclasses.fields(config)}
    position = sizes.pop("position", None)
    tokenizer = folder.tokenizer
    return {
        "family": catalogue.family_of(config),
        "stored_as": config_json(config)["model_type"],
        "parameters": parameters,
        "memory_bytes": {"float32": 4 * parameters, "bfloat16": 2 * parameters},
        "position": None if position is None else position.name,
        "sizes": {key: list(value) if isinstance(value, tuple) else value for key, value in sizes.items()},
        "attention_kernel": _kernels(position.name if position else None, device, kernel),
        "tokenizer": None
        if tokenizer is None
        else {"kind": tokenizer.kind, "vocab_size": tokenizer.vocab_size, "fingerprint": tokenizer.fingerprint},
        "labels": list(folder.labels) if {"classify", "tag", "distilled"} & set(getattr(config, "heads", ())) else [],
    }


def _kernels(position: str | None, device: torch.device, kernel: str) -> dict[str, str]:
    """Say which kernel answers here, by precision."""
    if position is None:
        return {"none": "recurrent: attention over segments of the row, no kernel to choose"}
    if kernel != "auto":
        return {"any": kernel}
    table = torch.empty(1, 1)
    biases = {"relative": Bias(table, table), "bucketed": Bias(table), "alibi": Bias(table)}
    dtypes = {"float32": torch.float32, "bfloat16": torch.bfloat16}
    return {name: kernels.choice(device.type, dtype, biases.get(position)) for name, dtype in dtypes.items()}


def _device(name: str | None) -> torch.device:
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError, NotImplementedError):
        here = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
        raise UsageError(f"device {name!r} is not available here (allowed: {', '.join(here)})") from None
    return torch.device(name)
