r"""Completion: fine-tune a language model on prompts and their answers; only the answers are learned.

prompt          separator  answer         end
What is big?    \\n         An elephant.   <|endoftext|>
no target       no target  target         target
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from qkv.common.batch import Following
from qkv.data.bad_rows import BadRows
from qkv.data.examples import Parallel
from qkv.data.parallel import parallel
from qkv.data.split import sentence_key
from qkv.data.store import Store
from qkv.evaluation.language import UNITS, Perplexity
from qkv.evaluation.score import Score
from qkv.objectives.language import NextToken
from qkv.objectives.parts import IGNORED
from qkv.tasks.base import Array, Collate, Context, Row, Task, has_decoder, has_head
from qkv.tasks.batches import CHUNK, column, limit_of, tokens_of
from qkv.tasks.causal import check_causal
from qkv.tasks.exam import Exam, chunks
from qkv.tasks.facts import Rule
from qkv.tasks.finetuning import rules


@dataclass(frozen=True, kw_only=True)
class CompleteSettings:
    """Settings of the prompts.

    Attributes:
        separator: the text between a prompt and its answer, unless the prompt ends with it. The model folder keeps it,
            so that `generate` writes it after a prompt too.
    """

    separator: str = "\n"


class CompleteTask(Task):
    """A prompt and its answer in each row of a table; the loss is that of the answer's tokens and the end token."""

    distilled_by: ClassVar[str] = "complete"
    Settings: ClassVar[type[Any]] = CompleteSettings
    specials: ClassVar[str] = "gpt"
    heads: ClassVar[tuple[str, ...]] = ("lm",)
    held_out_unit: ClassVar[str] = "prompts"
    rules: ClassVar[Mapping[str, Rule]] = rules(lr=1e-4)

    def examples(self, paths: Sequence[str], skipped: BadRows | None = None) -> Iterator[Parallel]:
        """Read prompts and answers from the columns of tables."""
        data = self.data
        columns = [data.text, data.second] if data.text and data.second else None
        return parallel(
            list(paths),
            columns=columns,
            format=data.format or None,
            encoding=data.encoding,
            bad=data.bad,
            skipped=skipped,
            sides=("prompt", "answer"),
        )

    def texts(self, example: Parallel) -> Iterable[str]:
        """Return the prompt and its answer as one text."""
        return (self._prompt(example) + example.target,)

    def key(self, example: Parallel) -> str:
        """Hold out by prompt, so that no validation prompt is learned with another answer."""
        return sentence_key(example.source)

    def folder_facts(self, context: Context) -> dict[str, Any]:
        """Generate by default as the model that this one starts from, with the separator after a prompt."""
        facts = {"generation": context.generation, "suffix": self.settings.separator}
        return super().folder_facts(context) | facts

    def check_model(self, model: nn.Module, context: Context) -> None:
        """Refuse a model that does not continue a text."""
        super().check_model(model, context)
        check_causal(model)

    def rows(self, examples: Iterable[Parallel], context: Context) -> Iterator[Row]:
        """Tokenise each prompt with its answer; pairs that are too long are skipped and counted."""
        limit, left_out = limit_of(context, self.data.max_length), 0
        end = context.text.specials.get("end")
        for chunk in chunks(examples, CHUNK):
            encoded = context.text.encode_spans([text for example in chunk for text in self.texts(example)])
            for example, (window,) in zip(chunk, encoded, strict=True):
                ids = window.ids if end is None or window.ids[-1:] == [end] else [*window.ids, end]
                begins = len(self._prompt(example))
                answer = next((row for row, (_, stop) in enumerate(window.spans) if stop > begins), len(ids))
                if len(ids) > limit:
                    left_out += 1
                else:
                    yield {"ids": ids, "answer": max(1, answer)}
        if left_out:
            context.say(f"{left_out} prompts with their answers are longer than {limit} tokens and were skipped")

    def collate(self, store: Store, context: Context) -> Collate:
        """The target of each token is the next token, from the last of the prompt on."""
        del context

        def make(rows: Array, rng: np.random.Generator) -> Following:
            del rng
            flat, lengths = store.gather("ids", rows)
            stops = np.cumsum(lengths)
            inside = np.arange(len(flat)) - np.repeat(stops - lengths, lengths)
            wanted = np.append(flat[1:], IGNORED).astype(np.int64)
            wanted[inside + 1 < np.repeat(column(store, "answer", rows).numpy(), lengths)] = IGNORED
            wanted[stops - 1] = IGNORED
            return Following(tokens_of(flat, lengths), torch.from_numpy(wanted))

        return make

    def objective(self) -> NextToken:
        """Return the loss of the next token."""
        return NextToken()

    @classmethod
    def can_score(cls, model: Any) -> bool:
        """Whether the model is a decoder that predicts the next token."""
        return has_head(model, "lm") and not has_decoder(model)

    def score(self, exam: Exam) -> list[Score]:
        """Return the perplexity of the answers per token, word and byte."""
        metric = Perplexity()
        for chunk in exam.chunks(exam.examples(self)):
            prompts, answers = [self._prompt(one) for one in chunk], [one.target for one in chunk]
            for text, found in zip(answers, exam.model.score(prompts, answers, prefix=""), strict=True):
                metric.add(-found.log_prob, len(found.tokens), len(text.split()), len(text.encode()))
        scores = [metric.result(unit=unit) for unit in UNITS]
        return [replace(score, signature=f"{score.signature}|text:answers") for score in scores]

    def _prompt(self, example: Parallel) -> str:
        separator = self.settings.separator
        return example.source if example.source.endswith(separator) else f"{example.source}{separator}"
