"""What `generate` returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from qkv.predict.fill import Choice


@dataclass(frozen=True)
class Step:
    """A token that was generated, and the most likely tokens in its place, before any setting of the search."""

    token: str
    choices: list[Choice]

    def to_dict(self) -> dict[str, Any]:
        """Return the step for JSON."""
        return {"token": self.token, "choices": [choice.to_dict() for choice in self.choices]}


@dataclass(frozen=True)
class Generated:
    """A generated text.

    Attributes:
        text: what follows the prompt; for a T5, its answer.
        ended: why it ends: "end" (the model's end token), "stop" (a stop string) or "length".
        score: the sum of the log-probabilities of its tokens; in a beam, divided by a power of the length.
        tokens: its tokens, and the end token if it ended with one.
        token_scores: the log-probability of each token.
        steps: each token with the most likely ones in its place, if you asked for them.
        others: the other samples or, with a beam, the next best texts.
    """

    text: str
    ended: str
    score: float = 0.0
    tokens: list[str] = field(default_factory=list)
    token_scores: list[float] = field(default_factory=list)
    steps: list[Step] | None = None
    others: list[Generated] = field(default_factory=list)

    def to_dict(self, *, tokens: bool = False) -> dict[str, Any]:
        """Return the text for JSON, with its tokens if you want them, and with the other texts if there are any."""
        shown: dict[str, Any] = {"generated": self.text, "ended": self.ended, "score": self.score}
        if tokens:
            shown |= {"tokens": self.tokens, "token_scores": self.token_scores}
        if self.steps is not None:
            shown["steps"] = [step.to_dict() for step in self.steps]
        return shown | ({"others": [one.to_dict(tokens=tokens) for one in self.others]} if self.others else {})
