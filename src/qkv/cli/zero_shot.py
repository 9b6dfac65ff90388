"""`qkv classify` with a language model: the label that is most likely after a prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from qkv.common.errors import UsageError
from qkv.data.labelled import classified
from qkv.predict import Model


@dataclass(frozen=True)
class ByLikelihood:
    """What was asked for; nothing if `labels` is None.

    Attributes:
        labels: the labels, separated by commas.
        prompt: the template, with {text}.
        examples: a table of texts with their labels.
        normalize: compare the mean log-probability of a label's tokens.
        calibrate: compare with the labels of an empty text.
    """

    labels: str | None
    prompt: str | None
    examples: str | None
    normalize: bool
    calibrate: bool

    def asker(self, model: Model, *, every: bool) -> Callable[[Sequence[str]], list[Any]] | None:
        """Return what classifies some texts, or None if the model's own head does."""
        names = [] if self.labels is None else [name.strip() for name in self.labels.split(",")]
        if self.labels is None:
            self._check_unused(model)
            return None
        if self.prompt is None:
            raise UsageError("--labels needs a prompt: --prompt '{text} Sentiment:'")
        template, shots = self.prompt.replace("\\n", "\n"), self._shots(names)

        def ask(texts: Sequence[str]) -> list[Any]:
            found = model.zero_shot(
                texts, names, template, examples=shots, normalize=self.normalize, calibrate=self.calibrate
            )
            return found if every else [labels[0] for labels in found]

        return ask

    def _check_unused(self, model: Model) -> None:
        asked = {
            "--prompt": self.prompt is not None,
            "--examples": self.examples is not None,
            "--normalize": self.normalize,
            "--calibrate": self.calibrate,
        }
        if given := [name for name, there in asked.items() if there]:
            raise UsageError(f"{given[0]} needs --labels: the labels to choose from, separated by commas")
        if "classify" not in model.verbs and "score" in model.verbs:
            raise UsageError(
                f"this {model.family} has no head for classes: give --labels and --prompt to choose the likeliest label"
            )

    def _shots(self, names: Sequence[str]) -> list[tuple[str, str]]:
        if self.examples is None:
            return []
        found = [(row.text, row.labels[0]) for row in classified(self.examples, text=None, label=None)]
        for _, label in found:
            if label not in names:
                raise UsageError(f"{self.examples}: the label {label!r} is not one of --labels ({', '.join(names)})")
        return found
