"""Tokens to text as they come: a character is shown when it is complete, and never in halves."""

from __future__ import annotations

from collections.abc import Sequence

from qkv.tokenizers.text import TextTokenizer

CONTEXT = 16  # tokens before the first that may decide how it is written, such as with or without a space
HALF = "\ufffd"  # how the library decodes bytes that are not a character, or not yet


class TextStream:
    """Decodes one token after the other.

    A token is decoded together with the one before it, because its text depends on it: a space is left out at the
    beginning of a text only, and the bytes of a character can be spread over several tokens.

    Args:
        tokenizer: decodes.
        context: tokens before the first; their text is not returned.
    """

    def __init__(self, tokenizer: TextTokenizer, context: Sequence[int] = ()) -> None:
        self._tokenizer = tokenizer
        self._ids = list(context[-CONTEXT:])
        self._start, self._done = 0, len(self._ids)

    def add(self, token: int) -> str:
        """Return the characters that this token completes."""
        self._ids.append(token)
        found = self._rest()
        if found.endswith(HALF):
            return ""
        return self._taken(found)

    def add_all(self, tokens: Sequence[int]) -> str:
        """Return the characters that these tokens complete: as adding one after the other, but decoded together."""
        self._ids.extend(tokens)
        found = self._rest()
        if HALF not in found:
            return self._taken(found)
        del self._ids[len(self._ids) - len(tokens) :]
        return "".join(map(self.add, tokens))

    def close(self) -> str:
        """Return what is left at the end, without a character of which the last bytes are missing."""
        return self._taken(self._rest()).rstrip(HALF)

    def _rest(self) -> str:
        before = self._tokenizer.decode(self._ids[self._start : self._done])
        return self._tokenizer.decode(self._ids[self._start :])[len(before) :]

    def _taken(self, found: str) -> str:
        if found:  # tokens without text of their own do not begin a text either
            self._start, self._done = self._done, len(self._ids)
        return found
