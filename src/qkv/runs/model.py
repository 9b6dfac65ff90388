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


class Model(predict.Model):
    """A model, its tokenizer and its labels: the verbs of its heads, and `evaluate`."""

    place: str | None = None
    """The folder that the model was loaded from, or None if it was built."""

    def evaluate(
        self, *files: str | PathLike[str], beam: int | None = None, stride: int | None = None, **changes: Any
    ) -> list[Score]:
        """Score the model on files: each metric with its 95 % confidence interval.

        Args:
            files: files with the correct answers: a table, or for a translator two aligned texts.
            beam: the beam size of a translator; 4 if None.
            stride: for language models, how far windows slide along each document; None for windows that do not
                overlap, as in validation.
            changes: how to read the files: keys of [data] in a recipe, for example `label="stars"`.
        """
        from qkv.common.config import override
        from qkv.exams.evaluate import evaluate, task_for
        from qkv.runs.trained_on import Reading, reading_for

        if not files:
            raise UsageError("evaluate needs a file with the correct answers")
        if wrong := [file for file in files if not isinstance(file, str | PathLike)]:
            raise UsageError(f"evaluate takes the names of files, got {show(wrong[0])}")
        if self.place is None:
            data = task_for(self).default_data(self)
            read = Reading(override(data, changes))
        else:
            read = reading_for(self, self.place, changes, lambda _: None, whole=stride is not None)
        return evaluate(
            self, [fspath(file) for file in files], read.data, beam=beam, stride=stride, ends=read.ends, task=read.task
        )


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
