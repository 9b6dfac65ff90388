"""Encode and decode text with Hugging Face's `tokenizers`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

from tokenizers import Encoding, Tokenizer

from qkv.common.errors import UsageError
from qkv.tokenizers.dropout import Merges, check_dropout
from qkv.tokenizers.heads import head, is_enough
from qkv.tokenizers.loading import load, load_settings, reason
from qkv.tokenizers.spans import Places
from qkv.tokenizers.special import named, roles, sentinels, token_settings
from qkv.tokenizers.windows import Window, cut, sides_of, windows
from qkv.tokenizers.words import EncodedWords, Style, borders, style_of


@dataclass(frozen=True)
class Encoded:
    """The token ids of texts, with the segment of each token."""

    ids: list[list[int]]
    segments: list[list[int]]


class TextTokenizer:
    """A tokenizer that never pads, and truncates only on request."""

    def __init__(self, inner: Tokenizer, settings: dict[str, Any] | None = None) -> None:
        inner.no_padding()
        inner.no_truncation()
        if getattr(inner.model, "dropout", None):  # a file may set it, but it is only for training
            inner.model.dropout = None
        self._inner = inner
        self.settings = dict(settings or {})

    @staticmethod
    def find(folder: Path) -> TextTokenizer | None:
        """Load the tokenizer of a model folder: tokenizer.json, vocab.txt, or vocab.json with merges.txt."""
        settings = load_settings(folder)
        inner = load(folder, settings)
        return None if inner is None else TextTokenizer(inner, settings)

    @property
    def vocab_size(self) -> int:
        """The number of tokens, special tokens included."""
        return self._inner.get_vocab_size(with_added_tokens=True)

    @property
    def max_length(self) -> int | None:
        """The maximum number of tokens per text in the folder's settings, or None."""
        limit = self.settings.get("model_max_length")
        return int(limit) if isinstance(limit, int | float) and limit < 1e9 else None

    def limited(self, length: int) -> TextTokenizer:
        """Return the same tokenizer with another `max_length`."""
        return TextTokenizer(self._inner, self.settings | {"model_max_length": length})

    @property
    def kind(self) -> str:
        """The algorithm: WordPiece, BPE, Unigram or WordLevel."""
        return type(self._inner.model).__name__

    @cached_property
    def specials(self) -> dict[str, int]:
        """The ids of the existing special tokens by role: pad, unk, start, end, mask, cls, sep.

        A token can have several roles. If there is no start token (T5, Marian), `start` is `pad`.
        """
        return roles(self._inner, self.settings)

    @property
    def named(self) -> dict[str, int]:
        """The ids of the special tokens that are written to the settings, by role."""
        return named(self._inner, self.settings)

    @cached_property
    def sentinels(self) -> list[int]:
        """The ids of T5's sentinels, <extra_id_0> first; empty for other tokenizers."""
        return sentinels(self._inner)

    def encode(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        *,
        max_length: int | None = None,
        dropout: float = 0.0,
        seed: int | None = None,
    ) -> Encoded:
        """Encode texts, or pairs of texts, with their special tokens.

        Args:
            texts: the texts, or the first text of each pair.
            pairs: the second text of each pair.
            max_length: truncate to this many tokens, the longer text of a pair first.
            dropout: the share of merges to skip at random (BPE-dropout); for training with BPE tokenizers only.
            seed: makes dropout reproducible but slower. Without a seed, the library draws random numbers that cannot be
                seeded, and it is not safe to encode in several threads at once.
        """
        if dropout:
            check_dropout(self._inner, dropout)
        with _dropping(self._inner, dropout if seed is None else 0.0):
            found = self._heads(_inputs(texts, pairs), max_length)
        rows = [(e.ids, e.type_ids, [] if max_length is None or len(e) <= max_length else sides_of(e)) for e in found]
        if dropout and seed is not None:
            random = Random(seed)
            rows = [self.merges.drop(encoding, dropout, random) for encoding in found]
        rows = [cut(row, row[2], max_length) for row in rows]
        return Encoded([ids for ids, _, _ in rows], [segments for _, segments, _ in rows])

    def encode_words(self, words: Sequence[Sequence[str]], max_length: int | None = None) -> EncodedWords:
        """Encode texts given as lists of words, and return the word that each token belongs to."""
        if any(isinstance(text, str) for text in words):
            raise UsageError("each text must be a list of words, not one string")
        # Byte-level tokens include the space before a word, so add it.
        inputs = [[" " * (self._style.spaces and i > 0) + word for i, word in enumerate(text)] for text in words]
        found = self._encode(inputs, is_pretokenized=True)
        rows = [(e.ids, e.type_ids, [-1 if word is None else word for word in e.word_ids]) for e in found]
        rows = [cut(row, sides_of(e), max_length) for row, e in zip(rows, found, strict=True)]
        return EncodedWords(*([row[i] for row in rows] for i in range(3)))

    def encode_spans(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        *,
        max_length: int | None = None,
        stride: int = 0,
    ) -> list[list[Window]]:
        """Encode texts, or questions with their contexts, as windows with the character span of each token.

        Args:
            texts: the texts, or the first text of each pair.
            pairs: the second text of each pair. If given, only these are split into windows.
            max_length: the maximum number of tokens per window; None for one window per input.
            stride: the number of tokens that a window shares with the previous one.
        """
        found = self._encode(_inputs(texts, pairs))
        both = zip(texts, [""] * len(texts) if pairs is None else pairs, strict=True)
        return [
            windows(encoding, self._places.spans(encoding, sources), int(pairs is not None), max_length, stride)
            for encoding, sources in zip(found, both, strict=True)
        ]

    def word_starts(self, ids: Sequence[int]) -> list[bool]:
        """Return whether each token begins a word. Special tokens and the tokens after them do; unknown ones may not.

        Words are separated by spaces; for WordPiece, by its pre-tokenizer, which splits off punctuation too.
        """
        begins, closes = self._borders
        if ids and not 0 <= min(ids) <= max(ids) < len(begins):
            raise UsageError(f"ids must be from 0 to {len(begins) - 1}, got {min(ids)} to {max(ids)}")
        return [i == 0 or begins[token] or closes[ids[i - 1]] for i, token in enumerate(ids)]

    def decode(self, ids: Sequence[int]) -> str:
        """Decode ids to text, without special tokens."""
        return self._inner.decode(list(ids))

    def id_of(self, token: str) -> int | None:
        """Return the id of a token, or None."""
        return self._inner.token_to_id(token)

    def token_of(self, number: int) -> str | None:
        """Return the token of an id as written in the vocabulary, or None."""
        return self._inner.id_to_token(number)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return each token as people can read it: byte-level tokens decoded, all others as the vocabulary has them."""
        found = [self.token_of(number) or f"<{number}>" for number in ids]
        if not self._style.spaces:
            return found
        texts = [self.decode([number]) for number in ids]
        return [text if text and "\ufffd" not in text else piece for text, piece in zip(texts, found, strict=True)]

    @property
    def fingerprint(self) -> str:
        """A digest of everything that determines the ids."""
        return hashlib.sha256(json.dumps(json.loads(self._inner.to_str()), sort_keys=True).encode()).hexdigest()[:16]

    def files(self, *, segments: bool | None = None, left: bool | None = None) -> dict[str, bytes]:
        """Return tokenizer.json and tokenizer_config.json as bytes.

        Args:
            segments: whether the model takes segments; None keeps the setting.
            left: True pads on the left unless the settings name a side, False always pads on the right, None keeps the
                setting. Language models need padding on the left.
        """
        settings = {"tokenizer_class": "PreTrainedTokenizerFast"} | self.settings
        settings |= token_settings(self._inner, self.settings)
        if segments is not None:  # they are on by default, and models without segments embed them as tokens
            kinds = ["token_type_ids"] if segments else []
            settings["model_input_names"] = ["input_ids", *kinds, "attention_mask"]
        if left is not None:  # a model fine-tuned from a language model has inherited its padding side
            settings["padding_side"] = settings.get("padding_side", "left") if left else "right"
        text = json.dumps(settings, indent=2, ensure_ascii=False) + "\n"
        return {"tokenizer.json": self._inner.to_str(pretty=True).encode(), "tokenizer_config.json": text.encode()}

    def save(self, folder: Path) -> None:
        """Write the files to a folder."""
        for name, data in self.files().items():
            (folder / name).write_bytes(data)

    def _encode(self, inputs: Sequence[Any], **options: bool) -> list[Encoding]:
        try:
            return self._inner.encode_batch(inputs, **options)
        except BaseException as error:
            raise reason(error, "the tokenizer cannot encode the text") from None

    def _heads(self, inputs: Sequence[Any], max_length: int | None) -> list[Encoding]:
        """Encode only as much of each text as `max_length` tokens need. Saves memory: a token takes about 200 bytes."""
        if max_length is None:
            return self._encode(inputs)
        heads = [head(row, max_length) for row in inputs]
        found = self._encode(heads)
        for row, (whole, part, encoding) in enumerate(zip(inputs, heads, found, strict=True)):
            if part is not whole and not is_enough(whole, part, encoding, max_length):
                found[row] = self._encode([whole])[0]
        return found

    @cached_property
    def _style(self) -> Style:
        return style_of(self._inner)

    @cached_property
    def merges(self) -> Merges:
        """The merges of a BPE tokenizer, for splitting words again with BPE-dropout."""
        return Merges(self._inner)

    @cached_property
    def _places(self) -> Places:
        return Places(self._inner, self._style)

    @cached_property
    def _borders(self) -> tuple[list[bool], list[bool]]:
        others = {number for role, number in self.specials.items() if role != "unk"}
        special = {n for n, token in self._inner.get_added_tokens_decoder().items() if token.special}
        # An unknown character can be inside a word like any other.
        return borders(self._inner, self._style, (special - {self.specials.get("unk")}) | others)


def _inputs(texts: Sequence[str], pairs: Sequence[str] | None) -> list[str] | list[tuple[str, str]]:
    if isinstance(texts, str) or isinstance(pairs, str):
        raise UsageError("texts must be a list of strings, not one string")
    if pairs is None:
        return list(texts)
    if len(texts) != len(pairs):
        raise UsageError(f"pairs must have one second text for each first text, got {len(pairs)} for {len(texts)}")
    return list(zip(texts, pairs, strict=True))


@contextmanager
def _dropping(inner: Tokenizer, dropout: float) -> Iterator[None]:
    """Enable the library's dropout inside the block."""
    if not dropout:
        yield
        return
    inner.model.dropout = dropout
    try:
        yield
    finally:
        inner.model.dropout = None
