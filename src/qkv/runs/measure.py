"""Score the weights of a run on validation examples, with the metrics of `qkv evaluate`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from itertools import islice

from qkv.checkpoints.folder import Folder
from qkv.evaluation.prediction import Prediction
from qkv.evaluation.score import Score
from qkv.exams.report.naming import is_lower_better
from qkv.predict import Model
from qkv.runs.prepare import Prepared
from qkv.tasks.exam import Exam
from qkv.tasks.split import training_examples, validation_examples

MOST = 2000  # examples
MOST_DECODED = 300  # decoding is slow


class Measure:
    """Scores the weights that are in the model of a run."""

    def __init__(self, prepared: Prepared) -> None:
        self.prepared = prepared
        most = (MOST_DECODED if prepared.task.decodes else MOST) * len(prepared.task.parts())
        self.examples = list(islice(validation_examples(prepared.task), most))
        self.exam: Exam | None = None  # of the last call,
        self.predictions: list[Prediction] = []  # with its predictions

    def __call__(self) -> dict[str, float]:
        """Return the value of each metric."""
        task, context, model = self.prepared.task, self.prepared.context, self.prepared.model
        config, module = task.saved(model, context.config, context)[""]
        folder = Folder(config, module, context.tokenizer, **task.folder_facts(context))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # texts that are too long are reported once, when they are tokenised
            loaded = Model(folder, device=str(next(model.parameters()).device))
            self.exam = Exam(loaded, beam=1, given=self.examples, watch=self.predictions.append)
            self.predictions.clear()
            scores = task.score(self.exam)
        return {score.name: score.value for score in scores}

    def advice(self, scores: Mapping[str, float]) -> str:
        """Say what to try if an answer that needs no model scores as well as the final weights, otherwise ""."""
        task = self.prepared.task
        if self.exam is None:  # the run was done before it was resumed
            return ""
        for answer, trivial in task.trivial(self.exam, training_examples(task), trained=True).items():
            metrics = task.metrics(self.exam)
            for found in self.predictions:
                for metric in metrics:
                    metric.add(trivial(found), found.gold)
            results = [metric.result() for metric in metrics] if self.predictions else []
            # a constant has no correlation, so numbers are compared by their error
            score = next((one for one in results if not math.isnan(one.value)), None)
            if score is not None and not _better(scores[score.name], score):
                return (
                    f"the model has learned nothing useful: on the validation set its {score.name} is "
                    f"{scores[score.name]:.4f}, and {answer!r} has {score.value:.4f}; check the labels, give more "
                    "examples, train longer (train.epochs) or try --search"
                )
        return ""


def _better(mine: float, trivial: Score) -> bool:
    return mine < 0.99 * trivial.value if is_lower_better(trivial.name) else mine > trivial.value
