"""`qkv.load` and `qkv.build` for Python: a model with its verbs, and `evaluate`.

Scoring is a layer above the verbs, so `qkv.predict` does not have it; the command line calls it by itself.
"""

from __future__ import annotations

from functools import wraps
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qkv import predict
from qkv.common.errors import UsageError, show

if TYPE_CHECKING:
    from qkv.evaluation.score import Score
    from qkv.exams.importance import HeadImportance
    from qkv.runs.trained_on import Reading
    from qkv.tasks.base import Task


class Model(predict.Model):
    """A model, its tokenizer and its labels: the verbs of its heads, and `evaluate`."""

    place: str | None = None
    """The folder that the model was loaded from, or None if it was built."""

    def evaluate(
        self,
        *files: str | PathLike[str],
        beam: int | None = None,
        task: str | None = None,
        stride: int | None = None,
        **changes: Any,
    ) -> list[Score]:
        """Score the model on files: each metric with its 95 % confidence interval.

        Args:
            files: files with the correct answers: a table, or for a translator two aligned texts.
            beam: the beam size of a translator; 4 if None.
            task: of a model with several text-to-text tasks, the one that the files are for.
            stride: for language models, how far windows slide along each document; None for windows that do not
                overlap, as in validation.
            changes: how to read the files: keys of [data] in a recipe, for example `label="stars"`.
        """
        from qkv.exams.evaluate import evaluate, task_for

        read = self._reading("evaluate", files, changes, part=task, whole=stride is not None)
        tester = (read.task or task_for(self)).for_model(self, read.data, task)
        names = [fspath(file) for file in files]
        return evaluate(self, names, beam=beam, stride=stride, task=tester, ends=read.ends)

    def head_importance(
        self, *files: str | PathLike[str], ablation: bool = True, examples: int = 256, **changes: Any
    ) -> HeadImportance:
        """Measure how much each attention head matters to the loss on files (Michel et al. 2019).

        Args:
            files: files with the correct answers, as for `evaluate`.
            ablation: also remove one head after the other, which takes a pass over the examples for each.
            examples: how many examples to read from the start of the files.
            changes: how to read the files: keys of [data] in a recipe.

        Returns:
            HeadImportance: `gradient` and `ablation`, each with a tensor [layers, heads] by kind of attention: "self",
            or "encoder", "decoder" and "cross".
        """
        from qkv.exams.importance import head_importance, loss_task

        read = self._reading("head_importance", files, changes, task=loss_task(self))
        return head_importance(self, [fspath(file) for file in files], read.data, ablation=ablation, examples=examples)

    def _reading(
        self,
        who: str,
        files: tuple[str | PathLike[str], ...],
        changes: dict[str, Any],
        *,
        task: type[Task] | None = None,
        part: str | None = None,
        whole: bool = False,
    ) -> Reading:
        """Return how files with correct answers are read: as in training, with changes."""
        from qkv.common.config import override
        from qkv.exams.evaluate import task_for
        from qkv.runs.trained_on import Reading, reading_for

        if not files:
            raise UsageError(f"{who} needs a file with the correct answers")
        if wrong := [file for file in files if not isinstance(file, str | PathLike)]:
            raise UsageError(f"{who} takes the names of files, got {show(wrong[0])}")
        if self.place is None:
            return Reading(override((task or task_for(self)).default_data(self), changes))
        return reading_for(self, self.place, changes, lambda _: None, task=task, part=part, whole=whole)


@wraps(predict.load)
def load(folder: str | Path, **options: Any) -> Model:
    """Load a model; see `qkv.predict.load`."""
    model = _as_model(predict.load(folder, **options))
    model.place = fspath(folder)
    return model


@wraps(predict.build)
def build(preset: str, **options: Any) -> Model:
    """Build a model; see `qkv.predict.build`."""
    return _as_model(predict.build(preset, **options))


def _as_model(found: predict.Model) -> Model:
    return Model(found.contents, device=str(found.device), kernel=found.kernel)
