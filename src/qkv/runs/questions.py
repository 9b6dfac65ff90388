"""The examples of a run that learns a teacher's answers: those that the teacher answers, and the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, filterfalse
from typing import Any

from qkv.common.errors import UsageError
from qkv.common.progress import Bar
from qkv.data.bad_rows import BadRows
from qkv.recipes.schema import Recipe, Say
from qkv.tasks.base import Task
from qkv.tasks.split import splitter


@dataclass(frozen=True)
class Questions:
    """The examples of a run: those that the teacher answers, and the others.

    Attributes:
        task: reads the files.
        recipe: says which files, and which of them the teacher answers.
        held: whether a training example is held out for validation.
        seen: a hash of the key of each validation and test example: the teacher is not asked about these.
    """

    task: Task
    recipe: Recipe
    held: Callable[[Any], bool] | None
    seen: frozenset[int]

    @classmethod
    def of(cls, task: Task, recipe: Recipe) -> Questions:
        """Read the validation and test examples of a recipe."""
        data = task.data
        held = splitter(task) if data.train and not data.valid else None
        found = cls(task, recipe, held, frozenset())
        examples = chain(found.valid(), found.test())
        return replace(found, seen=frozenset(hash(task.key(example)) for example in examples))

    def train(self, skipped: BadRows | None = None) -> Iterator[Any]:
        """Read the training examples that are not held out."""
        paths = self.task.data.train
        found = self.task.examples(paths, skipped or BadRows()) if paths else iter(())
        return filterfalse(self.held, found) if self.held else found

    def valid(self) -> Iterator[Any]:
        """Read the validation examples."""
        data = self.task.data
        if self.held is not None:
            return filter(self.held, self.task.examples(data.train, BadRows()))
        return self.task.examples(data.valid, BadRows()) if data.valid else iter(())

    def test(self) -> Iterator[Any]:
        """Read the test examples."""
        paths = self.task.data.test
        return self.task.examples(paths, BadRows()) if paths else iter(())

    def asked(self, skipped: BadRows | None = None) -> Iterator[Any]:
        """Read what the teacher answers: texts and, if the recipe says so, the training examples."""
        distill = self.recipe.distill
        labelled = self.train(skipped) if distill.answers else iter(())
        texts = self.task.unanswered(distill.texts, skipped or BadRows()) if distill.texts else iter(())
        return chain(labelled, (one for one in texts if hash(self.task.key(one)) not in self.seen))

    def kept(self, skipped: BadRows | None = None) -> Iterator[Any]:
        """Read the training examples that keep their answers."""
        return iter(()) if self.recipe.distill.answers else self.train(skipped)

    def count(self, writer: Task, say: Say) -> int:
        """Read all examples once, so that a bad file is known before the teacher is asked; count what it is asked.

        Args:
            writer: the task that writes the examples; all rows must have the same columns.
            say: prints a line for the user.
        """
        columns: list[str] = []
        skipped, total = BadRows(), 0
        with Bar("reading texts") as bar:
            for asked, examples in ((False, self.kept(skipped)), (True, self.asked(skipped))):
                for example in bar.each(examples):
                    total += asked
                    found = list(writer.record(example))
                    if found != (columns := columns or found):
                        got = f"({', '.join(found)} after {', '.join(columns)})"
                        raise UsageError(f"{example.where}: single texts cannot be mixed with pairs of texts {got}")
        if skipped.count:
            say(str(skipped))
        if not total:
            raise UsageError("distill.texts: each of these texts is also a validation or test example: give others")
        return total
