"""A text while it is generated: its tokens, what of it can be shown, and why it ends."""

from __future__ import annotations

from collections.abc import Sequence

from qkv.decoding.hypothesis import Hypothesis
from qkv.decoding.stop_strings import StopStrings
from qkv.predict.generated import Generated, Step
from qkv.tokenizers.stream import TextStream
from qkv.tokenizers.text import TextTokenizer


class Draft:
    """One text.

    Args:
        tokenizer: decodes the tokens.
        context: the tokens before the text.
        stops: the strings that end it.
        ends: the tokens that end it.

    Attributes:
        ids: its tokens.
        ended: why it ended; empty while it goes on.
        steps: each token with the most likely ones in its place, if somebody adds them.
    """

    def __init__(
        self, tokenizer: TextTokenizer, context: Sequence[int], stops: Sequence[str], ends: Sequence[int]
    ) -> None:
        self.ids: list[int] = []
        self.ended = ""
        self.steps: list[Step] = []
        self._tokenizer, self._ends = tokenizer, ends
        self._stream, self._text = TextStream(tokenizer, context), StopStrings(stops)
        self._starts: list[int] = []  # where the text of each token begins
        self._scores: list[float] = []
        self._end: int | None = None
        self._score: float | None = None  # of a beam

    def hear(self, token: int) -> str:
        """Take the next token, and return the text that can be shown now."""
        if self.ended:
            return ""
        if token in self._ends:
            self.ended, self._end = "end", token
            return ""
        self.ids.append(token)
        self._starts.append(len(self._text.text))
        shown = self._text.add(self._stream.add(token))
        if self._text.stopped:
            self.ended = "stop"
        return shown

    def take(self, found: Hypothesis, end_id: int, *, begun: int = 0, ranked: bool = False) -> None:
        """Take the result of a search.

        Args:
            found: its tokens and their scores; some of the tokens may have been heard.
            end_id: the end token that the search knows.
            begun: the number of tokens before it.
            ranked: whether its score is that of a beam.
        """
        rest = found.ids[len(self.ids) - begun :]
        if self._text.stops or self.ended or any(token in self._ends for token in rest):
            for token in rest:
                self.hear(token)
        else:
            self._starts += [len(self._text.text)] * len(rest)  # only a stop string asks where a token begins
            self.ids += rest
            self._text.add(self._stream.add_all(rest))
        if found.ended and not self.ended:
            self.ended, self._end = "end", end_id
        self._scores += found.scores[: len(self.ids) - begun + (self._end is not None)]
        self._score = found.score if ranked else None

    def close(self) -> str:
        """End the text at its length, unless it has ended, and return what of it was not shown."""
        shown = self._text.add(self._stream.close()) if self.ended != "stop" else ""
        if self._text.stopped:
            self.ended = "stop"
        self.ended = self.ended or "length"
        return shown + self._text.close()

    def answer(self, *, steps: bool) -> Generated:
        """Return the text; of tokens after a stop string nothing is left."""
        text = self._text.text
        kept = [start < len(text) or self.ended != "stop" for start in self._starts].count(True)
        ids = [*self.ids[:kept], *([] if self._end is None else [self._end])]
        scores = self._scores[: len(ids)]
        return Generated(
            text=text,
            ended=self.ended,
            score=sum(scores) if self._score is None else self._score,
            tokens=[self._tokenizer.token_of(token) or "" for token in ids],
            token_scores=scores,
            steps=self.steps[: len(ids)] if steps else None,
        )
