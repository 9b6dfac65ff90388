"""Text-to-text: one task as text, or several on one model, told apart by their prefixes (T5, Raffel et al. 2020).

[data]               train = ["sst2.tsv", "a.en", "a.de"]
[data.mix]           sst2.files = "sst2.tsv"                         en-de.files = ["a.en", "a.de"]
[objective.mix]      sst2.kind = "classify"                          en-de.kind = "translate"
                     sst2.prefix = "sst2 sentence: "                 en-de.prefix = "translate English to German: "
                     sst2.weight = 0.5
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

from qkv.common.errors import UsageError
from qkv.data.config import DataConfig
from qkv.evaluation.prediction import Item, Prediction
from qkv.tasks.base import Say, Task, Trivial
from qkv.tasks.by_part import Average, OfPart
from qkv.tasks.exam import Exam, Metric
from qkv.tasks.facts import Rule
from qkv.tasks.mixed_tables import both_tables, own_data, weight_of
from qkv.tasks.mixture import MixtureTask, Weighted
from qkv.tasks.text_part import TextPart


class TextToTextTask(TextPart):
    """One task as text or, with tables in `objective.mix`, several."""

    distilled_by: ClassVar[str] = "text-to-text"

    @classmethod
    def read(cls, objective: Mapping[str, Any], data: DataConfig) -> Task:
        """Create one task, or a mixture of tasks."""
        return TextMixture.read(objective, data) if "mix" in objective or data.mix else super().read(objective, data)


class TextMixture(MixtureTask):
    """Tasks as text, each with a name, a prefix, files and a weight: its share of each step's tokens and of the loss.

    Keys of `[objective]` outside `mix` hold for every part. Scores are those of each part, and their average.
    """

    rules: ClassVar[Mapping[str, Rule]] = TextPart.rules
    specials: ClassVar[str] = TextPart.specials
    measured: ClassVar[bool] = True
    decodes: ClassVar[bool] = True
    keeps_length: ClassVar[bool] = True

    @classmethod
    def read(cls, objective: Mapping[str, Any], data: DataConfig) -> Self:
        """Create each part; prefixes must be there and differ."""
        shared = {key: value for key, value in objective.items() if key != "mix"}
        settings, tables = both_tables(objective, data, ())
        parts: dict[str, Weighted] = {}
        prefixes: dict[str, str] = {}
        for name, table in settings.items():
            weight = weight_of(name, table.pop("weight", 1.0))
            part = TextPart.read({**shared, **table, "name": name}, own_data(data, name, tables[name]))
            prefix = part.settings.prefix
            if not prefix.strip():
                raise UsageError(
                    f"objective.mix.{name}.prefix is missing: the tasks of one model are told apart by their prefixes"
                )
            if prefix in prefixes:
                raise UsageError(f"the parts {prefixes[prefix]} and {name} have the same prefix {prefix!r}")
            prefixes[prefix], parts[name] = name, Weighted(part, weight)
        if not any(part.weight for part in parts.values()):
            raise UsageError("all parts of objective.mix have the weight 0")
        if left := set(data.test) - {path for part in parts.values() for path in part.task.data.test}:
            raise UsageError(f"data.test: {min(left)} belongs to no part (data.mix.NAME.files)")
        return cls(parts, data)

    def survey(self, examples: Iterable[Any], say: Say) -> dict[str, Any]:
        """Survey each part."""
        del examples
        found = [task.survey(task.examples(task.data.train), say) for task in self.parts().values()]
        return {"text_tasks": {name: task for facts in found for name, task in facts["text_tasks"].items()}}

    def share(self, name: str, tokens: int) -> int:
        """Return how many of the tokens of a step a part gets, by its weight."""
        total = sum(part.weight for part in self.settings.values())
        return max(1, round(tokens * self.settings[name].weight / total))

    def has_classes(self) -> bool:
        """Whether the answers of a part are classes."""
        return any(task.has_classes() for task in self.parts().values())

    @classmethod
    def can_score(cls, model: Any) -> bool:
        """Whether the model has text-to-text tasks."""
        return TextPart.can_score(model)

    def tester(self, model: Any, data: DataConfig) -> Task:
        """Return the same tasks: each has test files of its own."""
        del data
        parts = {
            name: replace(part, task=part.task.tester(model, part.task.data)) for name, part in self.settings.items()
        }
        return replace(self, settings=parts)

    def metrics(self, exam: Exam) -> list[Metric]:
        """Return the average of the first metrics of all parts, then every metric of each part."""
        parts = {name: task for name, (task, _) in self._asked(exam).items()}
        first = [OfPart(name, task.metrics(exam)[0]) for name, task in parts.items()]
        return [Average(first), *(OfPart(name, one) for name, task in parts.items() for one in task.metrics(exam))]

    def predictions(self, exam: Exam) -> Iterator[Prediction]:
        """Yield the predictions of each part in turn, on its own test files if no examples are given."""
        for name, (task, own) in self._asked(exam).items():
            for found in task.predictions(own):
                yield _of_part(name, found)

    def trivial(self, exam: Exam, known: Iterable[tuple[str, Any]], *, trained: bool) -> dict[str, Trivial]:
        """Return one answer: the first that each part has, or no words."""
        mine: dict[str, list[Any]] = {name: [] for name in self.parts()}
        for name, example in known:
            mine[name].append(example)
        answers = {
            name: next(iter(task.trivial(exam, mine[name], trained=trained).values()), None)
            for name, task in self.parts().items()
        }

        def say(found: Prediction) -> Any:
            part, _ = found.gold
            answer = answers[part]
            return part, "" if answer is None else answer(replace(found, gold=found.gold[1], said=found.said[1]))

        return {"a trivial answer for each task": say}

    def build(self, config: Any) -> Any:
        """Build an encoder-decoder."""
        return next(iter(self.parts().values())).build(config)

    def _asked(self, exam: Exam) -> dict[str, tuple[Task, Exam]]:
        """Return the parts that an exam has examples of, each with an exam of its own."""
        found: dict[str, tuple[Task, Exam]] = {}
        for name, task in self.parts().items():
            given = None if exam.given is None else [example for part, example in exam.given if part == name]
            if given or (given is None and task.data.test):
                found[name] = task, replace(exam, given=given, paths=task.data.test)
        return found


def _of_part(name: str, found: Prediction) -> Prediction:
    """Return a prediction whose answers and classes say which part they belong to."""
    items = tuple(Item(*(None if label is None else f"{name}: {label}" for label in item)) for item in found.items)
    where = f"{name}, {found.where}" if found.where else name
    return replace(found, said=(name, found.said), gold=(name, found.gold), items=items, where=where)
