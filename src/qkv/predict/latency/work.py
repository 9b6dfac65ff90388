"""The work that is timed: token ids or pixels in, the answers of the model's verb out.

Texts are sentences of the built-in phrasebook, cut and joined to the length that is measured; where the tokenizer does
not know their words, ids are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from qkv.common.batch import Tokens
from qkv.common.errors import UsageError
from qkv.common.outputs import Hidden
from qkv.data.phrasebook.named import named_pairs
from qkv.decoding.config import DecodingConfig
from qkv.decoding.generate import generate
from qkv.models.position import position_limit
from qkv.predict.batching import batches
from qkv.predict.embed import vectors
from qkv.predict.generate import MORE
from qkv.predict.runner import Runner
from qkv.predict.translate import BEAM
from qkv.predict.verbs import WRITERS

SENTENCES = 200  # of the phrasebook
KNOWN = 16  # different tokens that they must have
NEW_TOKENS, MOST_NEW = 32, 4096
READING = {"classify": "classify", "distilled": "classify", "tag": "tag", "span": "answer"}  # verbs by head
AGREEMENT = {
    "classify": "same labels",
    "tag": "same tags",
    "answer": "same ends of spans",
    "embed": "cosine",
    "translate": "same tokens",
    "generate": "same tokens",
}


@dataclass(frozen=True)
class Work:
    """What a model does in each call.

    Attributes:
        verb: translate or generate if the model does that, else classify, tag, answer or embed.
        head: the head that the verb reads; None for `embed`.
        new_tokens: tokens of each answer that is generated, end tokens or not; None if none are.
        beam: beam of the search; None if there is none.
        end_id: the token that ends an answer when answers are compared, or None.
    """

    verb: str
    head: str | None = None
    new_tokens: int | None = None
    beam: int | None = None
    end_id: int | None = None

    @property
    def agreement(self) -> str:
        """How answers are compared with those in float32."""
        return AGREEMENT[self.verb]

    @torch.inference_mode()
    def __call__(self, model: Runner, given: Sequence[Sequence[int]] | Tensor) -> list[Tensor]:
        """Return the answer to each input: logits, a vector, or the tokens that were generated."""
        if self.new_tokens is not None:
            assert not isinstance(given, Tensor)
            return self._written(model, given)
        if self.head is not None:
            return model.logits(given, head=self.head)

        def pool(hidden: Hidden) -> list[Tensor]:
            return list(vectors(hidden, model.sentence, 0))

        return model.run(given, model.module.encoder_states, pool)

    def same(self, mine: Sequence[Tensor], other: Sequence[Tensor]) -> list[float]:
        """Compare answers with those in float32, which come first, one by one; 1 is the same."""
        pairs = [(a.float().cpu(), b.float().cpu()) for a, b in zip(mine, other, strict=True)]
        if self.verb == "embed":
            return [float(F.cosine_similarity(a, b, dim=0)) for a, b in pairs]
        if self.head is not None:  # of the tokens in a span's scores, else of the labels
            over = 0 if self.verb == "answer" else -1
            pairs = [(a.argmax(over), b.argmax(over)) for a, b in pairs]
        elif self.end_id is not None:  # tokens after the end do not count
            pairs = [(a[:n], b[:n]) for a, b in pairs for n in [_until(a, self.end_id)]]
        return [float((a == b).float().mean()) for a, b in pairs]

    def _written(self, model: Runner, given: Sequence[Sequence[int]]) -> list[Tensor]:
        """Search as the verb does, in batches of the same size, but never stop early."""
        assert self.new_tokens is not None
        assert self.beam is not None
        module: Any = model.module
        causal = getattr(module, "decoder", None) is None
        found: dict[int, Tensor] = {}
        for rows in batches([self._cost(len(ids)) for ids in given], model.device):
            start = torch.full((len(rows),), getattr(model.config, "start_id", 0), device=model.device)
            stepper = module.start(Tokens.of([given[row] for row in rows], device=model.device))
            several = generate(
                stepper,
                stepper.first if causal else start,
                end_id=-1,
                max_lengths=[self.new_tokens] * len(rows),
                config=DecodingConfig(beam=self.beam),
            )
            found |= {row: torch.tensor(best.ids) for row, (best, *_) in zip(rows, several, strict=True)}
        return [found[row] for row in range(len(given))]

    def _cost(self, length: int) -> int:
        """Return the tokens that count for a batch, as `translate` and `generate` count them."""
        assert self.new_tokens is not None
        assert self.beam is not None
        return length * self.beam if self.verb == "translate" else -(-(length + self.new_tokens) * self.beam // MORE)


def work_for(model: Runner, new_tokens: int | None, beam: int | None) -> Work:
    """Choose what to ask of a model."""
    heads = list(getattr(model.config, "heads", ()))
    pairs = getattr(model.module, "decoder", None) is not None
    if "lm" not in heads:
        head = None if pairs else next((name for name in READING if name in heads), None)
        if new_tokens is not None or beam is not None:
            raise UsageError("this model generates no text: leave out the number of new tokens and the beam")
        return Work("embed" if head is None else READING[head], head)
    verb = "translate" if pairs and model.family not in WRITERS else "generate"
    most = (position_limit(model.config) if pairs else model.max_length and model.max_length - 1) or MOST_NEW
    wanted = min(NEW_TOKENS, max(1, most // 2)) if new_tokens is None else new_tokens
    width = (BEAM if verb == "translate" else 1) if beam is None else beam
    for what, given, allowed in (("number of new tokens", wanted, most), ("beam", width, model.config.vocab_size)):
        if not 1 <= given <= allowed:
            raise UsageError(f"the {what} must be from 1 to {allowed:,}, got {given:,}")
    return Work(verb, None, wanted, width, getattr(model.config, "end_id", None))


def longest(model: Runner, work: Work) -> int | None:
    """Return the most tokens that a model reads in one text, so that there is room for its answer."""
    causal = work.new_tokens is not None and getattr(model.module, "decoder", None) is None
    return model.max_length - (work.new_tokens or 0) if model.max_length and causal else model.max_length


def _until(ids: Tensor, end_id: int) -> int:
    """Return the number of tokens before the first end token; without a known end, not every engine gives that one."""
    ends = (ids == end_id).nonzero()
    return max(1, int(ends[0])) if len(ends) else len(ids)


class Inputs:
    """Makes the inputs of a model, the same ones each time."""

    def __init__(self, model: Runner) -> None:
        self._config, self._images = model.config, model.reads_images
        self._before: list[int] = []
        self._after: list[int] = []
        if not self._images:
            self._texts = self._sentences(model)

    def __call__(self, batch: int, length: int | None) -> list[list[int]] | Tensor:
        """Return token ids of one length or, for a model of images, pixels."""
        if self._images or length is None:
            size = self._config.image_size
            draw = torch.Generator().manual_seed(batch)
            return torch.randn(batch, self._config.channels, size, size, generator=draw)
        return [self._text(number, length) for number in range(batch)]

    def _text(self, number: int, length: int) -> list[int]:
        """Return the tokens from some sentence on, between those that the tokenizer puts around a text."""
        around = [*self._before, *self._after]
        before, after = (self._before, self._after) if length > len(around) else ([], [])
        ids: list[int] = []
        while len(ids) < length:
            ids += self._texts[number % len(self._texts)]
            number += 1
        return [*before, *ids[: length - len(before) - len(after)], *after]

    def _sentences(self, model: Runner) -> list[list[int]]:
        """Return the tokens of sentences."""
        draw = torch.Generator().manual_seed(0)
        drawn = torch.randint(0, model.config.vocab_size, (SENTENCES, KNOWN), generator=draw).tolist()
        if model.tokenizer is None:
            return drawn
        special = set(model.tokenizer.specials.values())
        around, *encoded = model.tokenizer.encode(
            ["", *(pair.source for pair in islice(named_pairs("phrasebook:test"), SENTENCES))]
        ).ids
        around = [number for number in around if number in special]
        self._before, self._after = around[:-1], around[-1:]
        known = [[number for number in ids if number not in special] for ids in encoded]
        return [ids for ids in known if ids] if len({i for ids in known for i in ids}) >= KNOWN else drawn
