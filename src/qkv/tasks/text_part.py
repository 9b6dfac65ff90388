"""One task as text: the answer of every kind of task is a sequence of words (Raffel et al. 2020)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from torch import nn

from qkv.checkpoints.text_tasks import KINDS, TRANSLATE, TextTask, chosen_task
from qkv.common.batch import Translated
from qkv.common.errors import UsageError, show, unknown
from qkv.data.bad_rows import BadRows, sift
from qkv.data.config import DataConfig
from qkv.data.store import Store
from qkv.evaluation.prediction import Prediction
from qkv.objectives.translate import Translate
from qkv.tasks.base import Array, Collate, Context, Row, Say, Task, Trivial, has_decoder, has_head
from qkv.tasks.batches import CHUNK, limit_of
from qkv.tasks.exam import Exam, Metric, Signed, chunks
from qkv.tasks.facts import Rule
from qkv.tasks.spans import TargetLoss, encoder_decoder
from qkv.tasks.text_kinds import TEXT_KINDS, TextKind
from qkv.tasks.text_rules import RULES
from qkv.tasks.translate import translated


@dataclass(frozen=True, kw_only=True)
class TextSettings(TargetLoss):
    """Settings of one task as text.

    Attributes:
        kind: translate, classify, regress or answer. The files are those of the task with that name.
        name: the name of the task in the model folder. If empty, the kind; in a mixture, the name of the part.
        prefix: what stands before each text, for example "translate English to German: " or "sst2 sentence: ".
        between: what stands between the two texts of a pair, or a question and its context. If empty, " sentence2: "
            or " context: ".
        labels: for classify, answers that stand for labels of the files, for example { 0 = "bad", 1 = "good" }.
        step: for regress, numbers are rounded to multiples of this.
    """

    kind: str = TRANSLATE
    name: str = ""
    prefix: str = ""
    between: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    step: float = 0.2

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise unknown("objective.kind", self.kind, KINDS)
        if self.step <= 0:
            raise UsageError(f"objective.step must be above 0, got {self.step:g}")
        for label, answer in self.labels.items():
            if not isinstance(answer, str) or not answer.strip():
                raise UsageError(f"objective.labels.{label} must be a text, got {show(answer, 60)}")
        object.__setattr__(self, "labels", {label: " ".join(said.split()) for label, said in self.labels.items()})


class TextPart(Task):
    """Reads files as the task of its kind does, and writes texts and answers into one source and one target."""

    rules: ClassVar[Mapping[str, Rule]] = RULES
    Settings: ClassVar[type[Any]] = TextSettings
    specials: ClassVar[str] = "t5"
    heads: ClassVar[tuple[str, ...]] = ("lm",)
    measured: ClassVar[bool] = True
    decodes: ClassVar[bool] = True
    keeps_length: ClassVar[bool] = True

    def has_classes(self) -> bool:
        """Whether the answers are classes."""
        return bool(self.settings.kind == "classify")

    @property
    def kind(self) -> TextKind:
        """What is particular to this kind of task."""
        return TEXT_KINDS[self.settings.kind]

    @property
    def name(self) -> str:
        """The name of the task in the model folder."""
        return self.settings.name or self.settings.kind

    @cached_property
    def reader(self) -> Task:
        """The task that reads the files."""
        return self.kind.reader(self.kind.reader.Settings(), self.data)

    @cached_property
    def written(self) -> TextTask:
        """How the task is written, without what only the training examples tell."""
        settings = self.settings
        between, step = settings.between or self.kind.between, settings.step if settings.kind == "regress" else 0.0
        return TextTask(kind=settings.kind, prefix=settings.prefix, between=between, step=step, labels=settings.labels)

    # From files to examples

    def resolved(self, say: Say) -> Self:
        """Find the columns."""
        data = self.reader.resolved(say).data
        if data.separator:
            raise UsageError("a text-to-text classifier gives one label: leave out data.separator, and lists of labels")
        return replace(self, data=data)

    def examples(self, paths: Sequence[str], skipped: BadRows | None = None) -> Iterator[Any]:
        """Read files as the task of this kind does."""
        return self.reader.examples(paths, skipped)

    def texts(self, example: Any) -> Iterable[str]:
        """Return what the model reads and says."""
        return self.source(example), self.kind.answer(example, self.written)

    def source(self, example: Any) -> str:
        """Return what the model reads."""
        return self.written.source(self.kind.texts(example))

    def key(self, example: Any) -> str:
        """Hold out as the task of this kind does."""
        return self.reader.key(example)

    def stratum(self, example: Any) -> str | None:
        """Stratify as the task of this kind does."""
        return self.reader.stratum(example)

    def survey(self, examples: Iterable[Any], say: Say) -> dict[str, Any]:
        """Collect the labels, or the range of the numbers."""
        found = replace(self.written, **self.kind.survey(self.reader, examples, self.settings.labels, say))
        return {"text_tasks": {self.name: asdict(found)}}

    # The model

    def build(self, config: Any) -> nn.Module:
        """Build an encoder-decoder."""
        return super().build(encoder_decoder(config))

    def folder_facts(self, context: Context) -> dict[str, Any]:
        """Return the tasks of the model, with their prefixes."""
        return {"text_tasks": {name: TextTask(**task) for name, task in context.facts["text_tasks"].items()}}

    # From examples to batches

    def rows(self, examples: Iterable[Any], context: Context) -> Iterator[Row]:
        """Tokenise sources and answers; what is too long is cut or left out, and counted."""
        limit = limit_of(context, self.data.max_length)
        cut = long = 0
        for chunk in chunks(examples, CHUNK):
            pairs = [tuple(self.texts(example)) for example in chunk]
            sources, targets = (context.text.encode([pair[side] for pair in pairs]).ids for side in (0, 1))
            shorter = context.text.encode([pair[0] for pair in pairs], max_length=limit).ids
            for whole, source, target, (_, answer) in zip(sources, shorter, targets, pairs, strict=True):
                fits = len(whole) <= limit or self.kind.cuts
                if len(target) > limit and not self.kind.searches:
                    got = f"the answer {show(answer, 60)} has {len(target)} tokens"
                    raise UsageError(f"{got}, more than the limit of {limit}: raise data.max_length")
                cut += len(whole) > limit and fits
                if fits and len(target) <= limit:
                    yield {"source": source, "target": target}
                else:
                    long += 1
        for count, what in ((cut, "texts are longer than {} tokens and were cut"), (long, LONG)):
            if count:
                context.say(f"{self.name}: {count:,} {what.format(limit)}")

    def lengths(self, store: Store) -> Array:
        """Return the tokens of source and target."""
        return store.lengths("source") + store.lengths("target")

    def collate(self, store: Store, context: Context) -> Collate:
        """Gather both sides; the decoder reads its target shifted by one token."""

        def make(rows: Array, rng: np.random.Generator) -> Translated:
            del rng
            return translated(store.gather("source", rows), store.gather("target", rows), context.config.start_id)

        return make

    def objective(self) -> Translate:
        """Return cross-entropy over the answer."""
        return Translate(smoothing=self.settings.smoothing, r_drop=self.settings.r_drop)

    # Scoring

    @classmethod
    def can_score(cls, model: Any) -> bool:
        """Whether the model is an encoder-decoder whose folder names tasks that can be scored."""
        return has_decoder(model) and has_head(model, "lm") and any(one.kind for one in model.text_tasks.values())

    @classmethod
    def for_model(cls, model: Any, data: DataConfig | None = None, name: str | None = None) -> Task:
        """Return the named task of the model, or its only one."""
        return cls(cls.Settings(**cls.taught_settings(model, name)), data or cls.default_data(model))

    @classmethod
    def taught_settings(cls, model: Any, name: str | None = None) -> dict[str, Any]:
        """Return how the named task of a model, or its only one, is written."""
        name = chosen_task(model.text_tasks, name)
        task: TextTask = model.text_tasks[name]
        if not task.kind:
            raise UsageError(
                f"the task {name} of this model has no kind that can be scored (allowed: {', '.join(KINDS)})"
            )
        how: dict[str, Any] = {"kind": task.kind, "name": name, "prefix": task.prefix, "between": task.between}
        return how | {"labels": dict(task.labels)} | ({"step": task.step} if task.step else {})

    def tester(self, model: Any, data: DataConfig) -> Task:
        """Return the same task of the trained model."""
        return self.for_model(model, data, self.name)

    def metrics(self, exam: Exam) -> list[Metric]:
        """Return the metrics of the task of this kind; the signature says how the answer was searched for."""
        asked = f"answer:text|beam:{self._beam(exam)}"
        return [Signed(metric, asked) for metric in self.kind.metrics(exam.model.text_tasks[self.name])]

    def predictions(self, exam: Exam) -> Iterator[Prediction]:
        """Decode the answer to each example as text."""
        task: TextTask = exam.model.text_tasks[self.name]
        for chunk in exam.chunks(self._checked(exam.examples(self), task, exam.skipped)):
            sources = [self.source(example) for example in chunk]
            answers = exam.model.translate(sources, beam=self._beam(exam), source_prefix="", split=False)
            for said, example in zip(answers, chunk, strict=True):
                found = self.kind.prediction(said.strip(), example, task)
                yield Prediction(texts=tuple(self.kind.texts(example)), where=example.where, **found)

    def trivial(self, exam: Exam, known: Iterable[Any], *, trained: bool) -> dict[str, Trivial]:
        """Return the answers that need no model."""
        del trained
        task: TextTask = exam.model.text_tasks[self.name]
        return self.kind.trivial(self._checked(known, task, BadRows()), task)

    def _beam(self, exam: Exam) -> int:
        return exam.beam if self.kind.searches else 1

    def _checked(self, examples: Iterable[Any], task: TextTask, skipped: BadRows) -> Iterator[Any]:
        """Yield the examples that the model can be scored on."""

        def check(_: str, example: Any) -> Any:
            self.kind.check(example, task)
            return example

        return sift(((example.where, example) for example in examples), check, self.data.bad, skipped)


LONG = "examples are longer than {} tokens, in the text or in the answer, and were left out"
