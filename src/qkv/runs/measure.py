"""Score the weights of a run on validation examples, with the metrics of `qkv evaluate`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import islice

from qkv.checkpoints.folder import Folder
from qkv.predict import Model
from qkv.runs.prepare import Prepared
from qkv.tasks.exam import Exam
from qkv.tasks.split import validation_examples

MOST = 2000  # examples
MOST_DECODED = 300  # decoding is slow


def measurer(prepared: Prepared) -> Callable[[], dict[str, float]]:
    """Return a function that scores the weights that are in the model at the time of the call."""
    task, context = prepared.task, prepared.context
    examples = list(islice(validation_examples(task), MOST_DECODED if task.decodes else MOST))
    device = str(next(prepared.model.parameters()).device)

    def measure() -> dict[str, float]:
        config, module = task.saved(prepared.model, context.config, context)[""]
        folder = Folder(config, module, context.tokenizer, **task.folder_facts(context))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # texts that are too long are reported once, when they are tokenised
            scores = task.score(Exam(Model(folder, device=device), beam=1, examples=examples))
        return {score.name: score.value for score in scores}

    return measure
