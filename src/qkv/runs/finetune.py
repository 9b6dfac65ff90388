"""`qkv.finetune(folder, train="reviews.csv")`: fine-tune a model folder on a table."""

from __future__ import annotations

import tempfile
from os import fspath
from pathlib import Path
from typing import Any

from qkv.checkpoints.folder import Folder, read_folder
from qkv.common.config import override
from qkv.common.errors import QkvError, UsageError
from qkv.common.terminal import to_standard_error
from qkv.data.config import DataConfig
from qkv.data.files import PathName
from qkv.data.hub import is_hub
from qkv.evaluation.report import table
from qkv.evaluation.score import Score
from qkv.exams.evaluate import evaluate, task_for
from qkv.predict import find
from qkv.recipes.recognise import recipe_of
from qkv.recipes.schema import Say, change, read_recipe
from qkv.runs.given import Files, as_files
from qkv.runs.model import Model
from qkv.runs.prepare import reading
from qkv.runs.run import run_recipe, score_test, scorer
from qkv.runs.search import search


class FineTuned(Model):
    """A fine-tuned model: the methods of its task, and `evaluate`.

    Attributes:
        data: how the training files were read, so that other files are read in the same way.
        task: the task that scores the model.
    """

    def __init__(self, folder: Folder, data: DataConfig, task: str, *, device: str | None = None) -> None:
        super().__init__(folder, device=device)
        self.data, self.task = data, scorer(self, task)

    def evaluate(self, *files: PathName | Any, task: str | None = None, **changes: Any) -> list[Score]:
        """Score the model on files or rows: each metric with its 95 % confidence interval.

        Args:
            files: files with the correct answers; or rows, as `finetune` takes them.
            task: of a model with several text-to-text tasks, the one that the files are for.
            changes: keys of [data] that differ from training, for example `label="stars"`.
        """
        if not files:
            raise UsageError("evaluate needs a file with the correct answers")
        read = override(self.data, {key.removeprefix("data."): value for key, value in changes.items()}, where="data.")
        given = {f"data {number}" if len(files) > 1 else "data": file for number, file in enumerate(files, 1)}
        with tempfile.TemporaryDirectory(prefix="qkv-") as place, as_files(given, Path(place)) as found:
            tester = (self.task or task_for(self)).for_model(self, read, task)
            return evaluate(self, [path for paths in found.values() for path in paths], task=tester, ends=True)


def finetune(
    folder: PathName | None = None,
    *,
    train: Files,
    task: str | None = None,
    valid: Files | None = None,
    test: Files | None = None,
    epochs: float | None = None,
    out: PathName | None = None,
    device: str | None = None,
    search_rate: bool = False,
    resume: bool = False,
    say: Say | None = None,
    **changes: Any,
) -> FineTuned:
    """Fine-tune the built-in encoder, or a model folder written by qkv or by `transformers`.

    Args:
        folder: the model to start from: a path, the name of a built-in model or "hf:OWNER/NAME[@REVISION]". If None,
            the built-in encoder.
        train: training files, whose columns are detected; or rows: a list of dicts or of tuples (text, label), a dict
            of columns, a pandas data frame, or a data set of `datasets`.
        task: the name of a recipe: classify, pairs, regress, tag, answer, sentence-embeddings, text-to-text, and for a
            GPT tune-gpt or complete. If None, it is recognised from the files.
        valid: validation files or rows. If None, some training examples are held out.
        test: files or rows to score at the end.
        epochs: passes over the data. If None, the recipe decides.
        out: the run's folder. If None, nothing is kept on disk; save the model with its `save` method.
        device: "cpu", "cuda" or "cuda:1". If None, CUDA if it is available.
        search_rate: try three learning rates and keep the best.
        resume: continue a stopped run in `out`.
        say: called with each line of progress; standard error if None.
        changes: recipe keys to change, for example `**{"optim.lr": 1e-4}`.
    """
    tell = say or to_standard_error
    parts = {"train": train, "valid": valid, "test": test}
    with tempfile.TemporaryDirectory(prefix="qkv-") as place:
        run = Path(out) if out else Path(place) / "run"
        with as_files(parts, run) as files:
            given: dict[str, Any] = {"out": str(run)} | {f"data.{name}": paths for name, paths in files.items()}
            if folder is not None:  # for a model on the Hub, the run chooses the commit
                given["model.init"] = fspath(folder) if is_hub(folder) else str(find(fspath(folder)))
            if epochs is not None:
                given["train.epochs"] = epochs
            asked = recipe_of(given["data.train"], changes, say=tell) if task is None else read_recipe(task)
            recipe = change(asked, {**given, **changes})
            start = search if search_rate else run_recipe
            outcome = start(
                recipe, resume=resume, device=device, say=tell, report=bool(out)
            )  # none for a temporary one
            if not outcome.finished:
                more = "; continue with resume=True" if out else ""
                raise QkvError(f"stopped by {outcome.reason} after {outcome.step} steps{more}")
            model = FineTuned(read_folder(recipe.out), reading(recipe), recipe.task, device=device)
            if recipe.data.test:
                tell(table(score_test(recipe, device=device)))
    return model
