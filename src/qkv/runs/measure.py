"""Score the weights of a run on validation examples, with the metrics of `qkv evaluate`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from itertools import islice

from qkv.checkpoints.folder import Folder
from qkv.predict import Model
from qkv.runs.prepare import Prepared
from qkv.tasks.exam import Exam
from qkv.tasks.split import validation_examples

MOST = 2000  # examples
MOST_DECODED = 300  # decoding is slow


class Measure:
    """Scores the weights that are in the model of a run."""

    def __init__(self, prepared: Prepared) -> None:
        self.prepared = prepared
        most = MOST_DECODED if prepared.task.decodes else MOST
        self.examples = list(islice(validation_examples(prepared.task), most))

    def __call__(self) -> dict[str, float]:
        """Return the value of each metric."""
        task, context, model = self.prepared.task, self.prepared.context, self.prepared.model
        config, module = task.saved(model, context.config, context)[""]
        folder = Folder(config, module, context.tokenizer, **task.folder_facts(context))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # texts that are too long are reported once, when they are tokenised
            loaded = Model(folder, device=str(next(model.parameters()).device))
            scores = task.score(Exam(loaded, beam=1, examples=self.examples))
        return {score.name: score.value for score in scores}

    def advice(self, scores: Mapping[str, float]) -> str:
        """Say what to try if the final weights are useless, otherwise ""."""
        metrics = {name: value for name, value in scores.items() if name != "loss"}
        if not (lesson := self.prepared.task.lesson(metrics, self.examples)):
            return ""
        return (
            f"on the validation set {lesson}, so the model has learned nothing useful: check the labels, give more "
            "examples, train longer (train.epochs) or try --search"
        )
