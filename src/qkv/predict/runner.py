"""A model with its tokenizer: ids in, states and scores out.

Sequences are sorted by length and packed into batches with a token budget; results come back in the input order.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from qkv.checkpoints.folder import Folder, write_folder
from qkv.checkpoints.sentence import SentenceModel
from qkv.checkpoints.text_tasks import TextTask
from qkv.common.batch import Images, Pairs, Tokens
from qkv.common.errors import Shortened, UnknownText, UsageError, system_errors
from qkv.common.outputs import Hidden
from qkv.common.pixels import ImageProcessor
from qkv.common.unicode import well_formed
from qkv.compression.engine import engine_of
from qkv.compression.export.models import Exported
from qkv.models import catalogue
from qkv.nn import kernels
from qkv.predict.batching import Ids, batches, check_ids, pack
from qkv.predict.device import find_device
from qkv.predict.facts import describe
from qkv.predict.texts import check_texts
from qkv.tokenizers.coverage import coverage
from qkv.tokenizers.text import Encoded

T = TypeVar("T")


class Runner:
    """A model, its tokenizer and its labels."""

    def __init__(self, folder: Folder, *, device: str | None = None, kernel: str = "auto") -> None:
        kernels.use(folder.model, kernel)
        self._folder = folder
        self.kernel = kernel
        self.device = find_device(device)
        self.module = folder.model.to(self.device)
        self.config, self.tokenizer, self.labels = folder.config, folder.tokenizer, folder.labels
        self._warned = False  # about texts that the tokenizer does not know

    @property
    def contents(self) -> Folder:
        """What a model folder holds: config, weights, tokenizer, labels and settings."""
        return self._folder

    @property
    def engine(self) -> str:
        """What computes the layers of the encoder: "torch", or the CPU engine and its precision."""
        return engine_of(self.module)

    @property
    def exported(self) -> str:
        """The format that the model was exported to; empty if it was not."""
        return self._folder.exported

    @property
    def searches_only(self) -> bool:
        """Whether an engine runs whole searches, and gives neither hidden states nor single steps."""
        return isinstance(self.module, Exported) and self.module.engine.searches_only

    def check_layers(self, what: str) -> None:
        """Raise an error if the model is an export: another engine computes its layers, and shows nothing of them."""
        if self.exported:
            raise UsageError(f"{what} cannot work on an export, which does not show its layers")

    @property
    def family(self) -> str:
        """The family's name in the catalogue."""
        return catalogue.family_of(self.config)

    @property
    def reads_images(self) -> bool:
        """Whether the model takes images, not texts."""
        return catalogue.reads_images(self.config)

    @property
    def processor(self) -> ImageProcessor | None:
        """How images become numbers; None if the folder does not say, and 0 … 255 becomes -1 … 1."""
        return self._folder.processor

    @property
    def multi_label(self) -> bool:
        """Whether a text may have any number of the labels, not just one."""
        return self._folder.multi_label

    @property
    def pooling(self) -> str:
        """How the states of a text become one vector: "mean", "first" and so on; "first+max" joins two."""
        return "+".join(self._folder.sentence.pooling)

    @property
    def sentence(self) -> SentenceModel:
        """How a text becomes one vector, with what its folder does after pooling, and its prompts."""
        return self._folder.sentence

    @property
    def threshold(self) -> float:
        """For models that give any number of labels, the lowest probability of a label that is returned."""
        return self._folder.threshold

    @property
    def no_answer(self) -> bool | None:
        """Whether a question may have no answer; None if the folder does not say."""
        return self._folder.no_answer

    @property
    def no_answer_threshold(self) -> float:
        """How far "no answer" must score above the best span."""
        return self._folder.no_answer_threshold

    @property
    def text_tasks(self) -> Mapping[str, TextTask]:
        """The text-to-text tasks that the model was trained for, by name, with their prefixes."""
        return self._folder.text_tasks

    @property
    def max_length(self) -> int | None:
        """The most tokens that model and tokenizer take, or None."""
        limits = [self.tokenizer and self.tokenizer.max_length, getattr(self.config, "max_length", None)]
        return min((limit for limit in limits if limit), default=None)

    def encode(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> Encoded:
        """Turn texts into ids, cut to what the model can read, with a warning."""
        if self.tokenizer is None:
            raise UsageError(
                "this model has no tokenizer: give ids to hidden() or logits(), or load a folder that has one"
            )
        limit = self.max_length
        texts, pairs = _well_formed(texts), None if pairs is None else _well_formed(pairs)
        # One token more than fits tells a text that is too long, and not all of it is encoded.
        encoded = self.tokenizer.encode(texts, pairs, max_length=None if limit is None else limit + 1)
        if limit is not None and (cut := sum(len(ids) > limit for ids in encoded.ids)):
            warnings.warn(Shortened(cut, len(encoded.ids), f"texts were cut to {limit} tokens"), stacklevel=3)
            encoded = self.tokenizer.encode(texts, pairs, max_length=limit)
        unknown = self.tokenizer.specials.get("unk")
        if any(unknown in ids for ids in encoded.ids):
            self.warn_unknown([*texts, *(pairs or ())])
        return encoded

    def warn_unknown(self, texts: Sequence[str]) -> None:
        """Warn, once for a model, if its tokenizer does not know many characters of some texts."""
        if self._warned or self.tokenizer is None:
            return
        found = coverage(self.tokenizer, _well_formed(texts))
        if said := found.unknown_to("this model"):
            self._warned = True
            warnings.warn(UnknownText(f"{said}: use a model that was trained on such texts"), stacklevel=4)

    def hidden(self, ids: Ids | Tensor, target_ids: Ids | None = None, *, segments: Ids | None = None) -> list[Tensor]:
        """Return the last states of each sequence (of each target, with `target_ids`). Shape of each: [L, D]."""
        return self.run(ids, self._states, Hidden.split, target_ids=target_ids, segments=segments)

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

        def read(batch: Tokens | Images | Pairs) -> Hidden:
            return self._states(batch) if isinstance(batch, Pairs) else self.module.states_for(batch, head)

        return self.run(ids, read, score, target_ids=target_ids, segments=segments)

    def describe(self) -> dict[str, Any]:
        """Return what `qkv info` prints."""
        return describe(self.config, self._folder, self.device, self.kernel)

    @system_errors()
    def save(self, folder: str | Path, *, dtype: str = "float32") -> None:
        """Write the model into a folder: a new one, or that of another model or of a run.

        In a folder that exists, only files of a model are replaced or removed (config.json, the weights, the tokenizer,
        sentence-transformers' modules). Checkpoints, best/, recipe.toml, data and your own files stay as they are. If
        the process is killed, `qkv.load` finds the old model or the new one, never a mix.

        Args:
            folder: where. A folder that holds other things and neither a model nor a run is refused.
            dtype: float32, or float16 and bfloat16, which take half the space.
        """
        write_folder(self._folder, folder, mode="update", dtype=dtype)

    def _states(self, batch: Tokens | Images | Pairs) -> Hidden:
        if not isinstance(batch, Pairs):
            return self.module.encoder_states(batch)
        if getattr(self.module, "decoder", None) is None:
            raise UsageError(f"{self.family} has no decoder: it takes no target_ids")
        return self.module(batch)

    @torch.inference_mode()
    def run(
        self,
        ids: Ids | Tensor,
        states: Callable[[Tokens | Images | Pairs], Hidden],
        finish: Callable[[Hidden], list[T]],
        *,
        target_ids: Ids | None = None,
        segments: Ids | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> list[T]:
        """Run batches, and return what `finish` makes of the states of each sequence, in the order of the sequences."""
        if isinstance(ids, Tensor) != self.reads_images:
            raise UsageError(
                f"{self.family} takes {'pixels as one tensor' if self.reads_images else 'lists of token ids'}"
            )
        if isinstance(ids, Tensor):
            return finish(states(Images(ids.to(self.device))))
        if target_ids is not None and len(target_ids) != len(ids):
            raise UsageError(f"{len(ids)} sources and {len(target_ids)} targets: the numbers must be equal")
        if getattr(self.config, "num_segments", 0) < 2:
            segments = None  # as in training: one kind has nothing to tell apart
        if ids:
            check_ids(self.config, ids, target_ids, segments)
        found: dict[int, T] = {}
        sizes = [len(sequence) for sequence in ids]
        if target_ids is not None:
            sizes = [size + len(target) for size, target in zip(sizes, target_ids, strict=True)]
        for rows in batches(sizes, self.device):
            batch = pack(rows, ids, target_ids, segments, self.device)
            found |= zip(rows, finish(states(batch)), strict=True)
            if progress is not None:
                progress(len(rows))
        return [found[row] for row in range(len(ids))]


def _well_formed(texts: Sequence[str]) -> list[str]:
    return [well_formed(text) for text in check_texts("the model", texts)]
