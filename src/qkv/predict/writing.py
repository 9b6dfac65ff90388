"""Write texts in batches, round by round.

A round fills the context. With a window, the next round begins with the last half of it, so that a text can be longer
than what the model reads at a time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from qkv.common.batch import Tokens
from qkv.decoding.config import DecodingConfig
from qkv.decoding.generate import generate
from qkv.decoding.hypothesis import Hypothesis
from qkv.decoding.single import OnTokens
from qkv.models.skeleton import Transformer
from qkv.predict.draft import Draft
from qkv.predict.fill import Choice
from qkv.predict.finite import finite
from qkv.predict.generated import Step
from qkv.predict.likelihood import likeliest
from qkv.predict.runner import Runner
from qkv.tokenizers.text import TextTokenizer

SAMPLE_BITS, ROUND_BITS, PROMPT_BITS = 64, 128, 192  # where the seed of a search has them: neighbours are far apart


@dataclass(eq=False)
class Job:
    """One sample of one prompt.

    Attributes:
        prompt: the number of the prompt.
        draw: the number of the sample.
        ids: the tokens of the prompt.
        most: the most tokens to generate.
        drafts: its text; several in a beam.
        read: what the model reads in this round.
        limit: the most tokens of this round.
    """

    prompt: int
    draw: int
    ids: list[int]
    most: int
    drafts: list[Draft] = field(default_factory=list)
    read: list[int] = field(default_factory=list)
    limit: int = 0

    @property
    def text(self) -> Draft:
        """Its only text, or the best of a beam."""
        return self.drafts[0]

    @property
    def left(self) -> int:
        """The tokens to come; none if the text has ended."""
        return 0 if self.text.ended else self.most - len(self.text.ids)

    def seed(self, seed: int, number: int) -> int:
        """Return the seed of a round: prompts have different random numbers, and the same one always has its own."""
        prompt = int.from_bytes(hashlib.blake2b(repr(self.ids).encode(), digest_size=8).digest(), "big")
        return seed + (self.draw << SAMPLE_BITS) + (number << ROUND_BITS) + (prompt << PROMPT_BITS)

    def begin(self, context: int | None) -> None:
        """Begin a round with everything so far, or with its end if there is no room for another token."""
        self.read, self.limit = [*self.ids, *self.text.ids], self.left
        if context is not None:
            if len(self.read) >= context:
                self.read = self.read[-max(1, context // 2) :]
            self.limit = min(self.limit, max(1, context - len(self.read)))


@dataclass(frozen=True)
class Writer:
    """Writes the texts of some jobs together.

    Attributes:
        model: a causal model or an encoder-decoder.
        tokenizer: of the model.
        config: the settings of the search.
        stops: strings that end a text.
        ends: the tokens that end a text; the search knows the first of them.
        top: how many of the most likely tokens to note for each token.
        on_text: called with the text of the only job as it comes.
    """

    model: Runner
    tokenizer: TextTokenizer
    config: DecodingConfig
    stops: Sequence[str] = ()
    ends: tuple[int, ...] = ()
    top: int = 0
    on_text: Callable[[str], None] | None = None

    @torch.inference_mode()
    def write(self, jobs: Sequence[Job]) -> None:
        """Write the text of each job."""
        for job in jobs:
            job.drafts = [self.draft(job)]
        number = 0
        while going := [job for job in jobs if job.left > 0]:
            for job in going:
                job.begin(self.model.max_length if self.causal else None)
            begun = [len(job.text.ids) for job in going]
            for job, several, at in zip(going, self._search(going, number), begun, strict=True):
                self.take(job, several, at)
            number += 1
        for job in jobs:
            rest = [draft.close() for draft in job.drafts]
            if self.on_text is not None:
                self.on_text(rest[0])

    @property
    def causal(self) -> bool:
        """Whether the model continues a text, and has no encoder."""
        return isinstance(self.model.module, Transformer)

    @property
    def end_id(self) -> int:
        """The end token that the search knows, -1 for none."""
        return self.ends[0] if self.ends else -1

    def draft(self, job: Job) -> Draft:
        """Return an empty text for a job."""
        return Draft(self.tokenizer, job.ids if self.causal else [], self.stops, self.ends)

    def _search(self, jobs: Sequence[Job], number: int) -> list[list[Hypothesis]]:
        """Search once; the steps that a causal model has cached are only those of this round."""
        module: Any = self.model.module
        stepper = module.start(Tokens.of([job.read for job in jobs], device=self.model.device))
        start = torch.full((len(jobs),), getattr(self.model.config, "start_id", 0), device=self.model.device)
        found = generate(
            stepper,
            stepper.first if self.causal else start,
            end_id=self.end_id,
            max_lengths=[job.limit for job in jobs],
            config=self.config,
            prompts=[[*job.ids, *job.text.ids] if self.causal else start[:1].tolist() for job in jobs],
            seeds=[job.seed(self.config.seed, number) for job in jobs],
            on_tokens=self._listener(jobs),
        )
        finite([hypothesis.score for several in found for hypothesis in several])
        return found

    def _listener(self, jobs: Sequence[Job]) -> OnTokens | None:
        """Return what hears each token, if a text may end with more than one end token, or somebody waits for it."""
        if self.config.beam > 1 or (self.on_text is None and not self.stops and len(self.ends) < 2):
            return None

        def hear(pairs: list[tuple[int, int]]) -> list[int]:
            for number, token in pairs:
                shown = jobs[number].text.hear(token)
                if shown and self.on_text is not None:
                    self.on_text(shown)
            return [number for number, _ in pairs if jobs[number].text.ended]

        return hear

    def take(self, job: Job, found: Sequence[Hypothesis], begun: int) -> None:
        """Add what a search found to the text of a job; a beam gives several texts."""
        ranked = self.config.beam > 1
        if ranked:
            job.drafts = [self.draft(job) for _ in found]
        for draft, hypothesis in zip(job.drafts, found, strict=True):
            draft.take(hypothesis, self.end_id, begun=begun, ranked=ranked)
            if not hypothesis.ids and not draft.ended:
                draft.ended = "length"  # no token is allowed any more
            if self.top:
                draft.steps += self._steps(job.read, hypothesis)

    def _steps(self, read: list[int], found: Hypothesis) -> list[Step]:
        """Return each token of a search with the most likely tokens in its place."""
        said = [*found.ids, *([self.end_id] if found.ended else [])]
        if self.causal:
            (best,) = likeliest(self.model, [[*read, *said]], top=self.top)
            best = best[len(read) - 1 :]
        else:
            (best,) = likeliest(self.model, [read], [[self.model.config.start_id, *said]], top=self.top)
        rows = ([Choice(self._name(int(token)), chance) for token, chance in row] for row in best.tolist())
        return [Step(self._name(token), choices) for token, choices in zip(said, rows, strict=True)]

    def _name(self, token: int) -> str:
        """Return a token as text; a special token, or one that is half a character, as the vocabulary spells it."""
        text = self.tokenizer.decode([token])
        return text if text and "\ufffd" not in text else self.tokenizer.token_of(token) or ""
