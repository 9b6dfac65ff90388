"""Zero-shot and few-shot classification: the label that a language model finds most likely after a prompt.

    Great fun.   Sentiment: positive        an example, written with the same prompt, for few-shot
    {text}       Sentiment: {label}         log p of each label

A model prefers some labels whatever the text. Calibration divides the probability of each label by that after an empty
text (Zhao et al. 2021, "Calibrate before use").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from qkv.common.errors import UsageError
from qkv.predict.classify import Label
from qkv.predict.runner import Runner
from qkv.predict.score import Likelihood, score
from qkv.predict.texts import check_texts

TEXT, LABEL = "{text}", "{label}"
BETWEEN = "\n\n"  # between examples


@dataclass(frozen=True)
class Template:
    """A prompt with {text}, and with {label} or a label at its end.

    Attributes:
        prompt: the template.
        examples: texts with their labels, written before each text.
    """

    prompt: str
    examples: Sequence[tuple[str, str]] = ()

    def __post_init__(self) -> None:
        if TEXT not in self.prompt:
            raise UsageError(f"the prompt {self.prompt!r} has no place for the text: write {TEXT} in it")
        before = self.prompt.partition(LABEL)[0]
        if TEXT not in before:
            raise UsageError(f"the prompt {self.prompt!r} has {LABEL} before {TEXT}: the label is predicted, so last")

    def filled(self, text: str, label: str) -> tuple[str, str]:
        """Return what comes before the label, with the examples, and the label with what follows it."""
        before, after = self._parts(text, label)
        shots = "".join("".join(self._parts(*example)) + BETWEEN for example in self.examples)
        return shots + before, after

    def _parts(self, text: str, label: str) -> tuple[str, str]:
        before, there, after = self.prompt.partition(LABEL)
        before = before.replace(TEXT, text)
        if there:
            return before, label + after
        return before, label if not before or before[-1].isspace() else f" {label}"


def zero_shot(
    model: Runner,
    texts: Sequence[str],
    labels: Sequence[str],
    prompt: str,
    *,
    examples: Sequence[tuple[str, str]] = (),
    normalize: bool = False,
    calibrate: bool = False,
) -> list[list[Label]]:
    """Return all labels of each text, most likely first; see `Model.zero_shot`."""
    check_texts("classify", texts)
    names = _checked(labels)
    template = Template(prompt, examples)
    rows = [*texts, *([""] if calibrate else [])]
    pairs = [template.filled(text, name) for text in rows for name in names]
    found = score(model, [before for before, _ in pairs], [after for _, after in pairs], prefix="")
    scores = torch.tensor([_of(one, normalize) for one in found], dtype=torch.float64).view(len(rows), len(names))
    if calibrate:
        scores = scores[:-1].log_softmax(-1) - scores[-1:].log_softmax(-1)
    chances = scores.softmax(-1).tolist()
    return [sorted(map(Label, names, row), key=lambda label: -label.score) for row in chances]


def _checked(labels: Sequence[str]) -> list[str]:
    if isinstance(labels, str):
        raise UsageError("labels takes a list of labels")
    names = [label.strip() for label in labels]
    if len(names) < 2 or not all(names) or len(set(names)) < len(names):
        raise UsageError(f"give at least two labels, all different and none empty; got {', '.join(names) or 'none'}")
    return names


def _of(found: Likelihood, normalize: bool) -> float:
    return found.per_token if normalize else found.log_prob
