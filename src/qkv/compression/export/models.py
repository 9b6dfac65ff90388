"""Models whose work other engines do: the same classes and the same calls, without weights of their own.

A model is built from its config as usual, on the meta device, so that everything else finds the sizes, the heads and
the kind of model that it expects. Only what computes is replaced.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor

from qkv.common.batch import Images, Pairs, Tokens
from qkv.common.errors import UsageError
from qkv.common.outputs import Hidden
from qkv.common.protocols import PromptStepper, Stepper
from qkv.common.ragged import Ragged
from qkv.compression.export.feeds import Engine, empty_past, memory_of, rectangle
from qkv.compression.export.graphs import DECODER, ENCODER, HEAD, LARGE, MODEL, STATES
from qkv.compression.export.steppers import ExportedPrompts, ExportedSources
from qkv.models.skeleton import EncoderDecoder, Headed, Transformer


class Exported(Headed):
    """Base of models that run from graphs."""

    engine: Engine

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        """Stay as it is: there are no weights to move."""
        del fn, recurse
        return self

    def logits(self, hidden: Hidden, name: str | None = None) -> Tensor:
        """Compute the scores of a head."""
        name = name or next(iter(self.heads), None)
        head, states, layout = self.head(name), hidden.states, hidden.layout
        if head.over == "leading":
            states = torch.stack([states[layout.first], states[layout.first + 1]], 1)
        elif head.over == "sequences":
            assert self.pooler is not None
            states = states[layout.first if self.pooler.row == "first" else layout.last]
        return self.engine.run(f"{HEAD}{name}", {"states": states})["logits"]


class ExportedText(Exported, Transformer):
    """An encoder or a language model over text."""

    def __init__(self, model: Transformer, engine: Engine) -> None:
        parts: Any = model.heads
        Transformer.__init__(
            self, embeddings=model.embeddings, stack=model.stack, heads=dict(parts.items()), pooler=model.pooler
        )
        self.engine = engine

    def forward(self, batch: Tokens | Images, cache: Any = None) -> Hidden:
        """Compute the hidden states of every token."""
        if not isinstance(batch, Tokens) or cache is not None:
            raise UsageError("an exported model of text reads whole texts as token ids")
        given = rectangle(batch)
        graph = STATES if LARGE & set(self.heads) else MODEL
        return Hidden(_rows(self.engine.run(graph, given)["last_hidden_state"], given), batch.layout)

    def states_for(self, batch: Tokens | Images, name: str | None = None) -> Hidden:
        """Compute the hidden states that a head reads."""
        del name
        return self(batch)

    def states_at(self, batch: Tokens | Images, rows: Tensor) -> Tensor:
        """Compute the hidden states of some rows. Shape: [M] -> [M, D]."""
        found: Tensor = self(batch).states[rows]
        return found

    def start(self, prompts: Tokens) -> PromptStepper:
        """Read the prompts except their last tokens."""
        self.head("lm")
        return self.engine.start(prompts) or ExportedPrompts(self.engine, self.stack, prompts)


class ExportedImages(Exported):
    """A model of images."""

    def __init__(self, model: Headed, engine: Engine) -> None:
        super().__init__()
        self.model, self.engine = model, engine
        parts: Any = model.heads
        self._own_heads(dict(parts.items()), model.pooler)

    def forward(self, batch: Images) -> Hidden:
        """Compute the hidden states of every patch, or of every image in a convolutional network."""
        found = self.engine.run(MODEL, {"pixel_values": batch.pixels.float()})["last_hidden_state"]
        return Hidden(found.flatten(0, 1), Ragged.of([found.shape[1]] * found.shape[0]))


class ExportedPairs(Exported, EncoderDecoder):
    """An encoder and a decoder."""

    def __init__(self, model: EncoderDecoder, engine: Engine) -> None:
        parts: Any = model.heads
        EncoderDecoder.__init__(
            self,
            embeddings=model.embeddings,
            encoder=model.encoder,
            decoder=model.decoder,
            heads=dict(parts.items()),
            pooler=model.pooler,
        )
        self.engine = engine

    def encode(self, source: Tokens) -> Hidden:
        """Compute the encoder states."""
        given = rectangle(source)
        return Hidden(_rows(self.engine.run(ENCODER, given)["last_hidden_state"], given), source.layout)

    def forward(self, batch: Pairs) -> Hidden:
        """Compute the hidden states of every target token."""
        source, target = rectangle(batch.source), rectangle(batch.target)
        given = memory_of(self.engine.run(ENCODER, source), source) | empty_past(self.decoder, len(target["input_ids"]))
        given["input_ids"] = target["input_ids"].unsqueeze(1)
        found = self.engine.run(DECODER, given)["last_hidden_state"].squeeze(1)
        return Hidden(_rows(found, target), batch.target.layout)

    def start(self, source: Tokens) -> Stepper:
        """Read the sources and return a stepper."""
        self.head("lm")
        return self.engine.start(source) or ExportedSources(self.engine, self.decoder, source)


def exported(model: Headed, engine: Engine) -> Exported:
    """Return the model with its work done by an engine."""
    if isinstance(model, EncoderDecoder):
        found: Exported = ExportedPairs(model, engine)
    elif isinstance(model, Transformer) and hasattr(model.embeddings, "token"):
        found = ExportedText(model, engine)
    else:
        found = ExportedImages(model, engine)
    return found.eval()


def _rows(x: Tensor, given: Mapping[str, Tensor]) -> Tensor:
    return x[given["attention_mask"].bool()]
