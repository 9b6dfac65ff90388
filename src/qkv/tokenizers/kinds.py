"""The kinds of tokenizer that you can train: how each splits text, learns its vocabulary and decodes.

bpe        merges of frequent pairs of characters (Sennrich et al. 2016); a mark replaces the space before a word
byte-bpe   the same on bytes, so that no text is unknown (Radford et al. 2019)
wordpiece  merges within words; ## marks a continuation (Schuster and Nakajima 2012; Devlin et al. 2019)
unigram    the pieces that maximise the likelihood of the texts (Kudo 2018); uses the same mark as bpe
char       characters
word       words and punctuation
whitespace what stands between spaces, and line ends: for text that is already split into words, such as Penn Treebank
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from qkv.common.errors import UsageError
from qkv.tokenizers.words import SPACE

Texts = Iterable[str]


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The limits of a vocabulary.

    Attributes:
        specials: the special tokens at its beginning.
        unk: the special token for unknown text.
        vocab_size: the maximum number of tokens, special and reserved ones included.
        reserved: the number of ids to leave free at the end.
        min_frequency: the minimum count of a piece.
    """

    specials: list[AddedToken]
    unk: str
    vocab_size: int
    reserved: int
    min_frequency: int

    def options(self) -> dict[str, Any]:
        """Return the arguments that most trainers of the library accept."""
        return {
            "special_tokens": self.specials,
            "vocab_size": self.vocab_size - self.reserved,
            "min_frequency": self.min_frequency,
            "show_progress": False,
        }

    def check(self, size: int) -> None:
        """Raise an error if a vocabulary of `size` tokens exceeds the limit or contains only special tokens."""
        if size + self.reserved > self.vocab_size:
            least = size + self.reserved
            raise UsageError(
                f"vocab_size {self.vocab_size} is too small: the special tokens and the alphabet need at least {least}"
            )
        if size <= len(self.specials):
            raise UsageError(f"nothing to learn: no piece occurs {self.min_frequency} times in the texts")


@dataclass(frozen=True)
class Kind:
    """How a kind splits text, decodes tokens and learns its vocabulary."""

    split: Callable[[], Any]
    join: Callable[[], Any]
    learn: Callable[[Tokenizer, Texts, Budget], None]


def _marked() -> Any:
    # Split punctuation from words, or "mat." and "mat," would become separate pieces. A space belongs to what follows
    # it; other white space is a piece of its own.
    pieces = Regex(rf"{SPACE}?\p{{P}}+|{SPACE}?[^{SPACE}\p{{P}}\s]+|{SPACE}|\s")
    # "first": add the mark at the beginning of a text, but not again after a special token inside it.
    metaspace = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="first", split=False)
    return pre_tokenizers.Sequence([metaspace, pre_tokenizers.Split(pieces, "isolated")])


def _words() -> Any:
    # As in BERT, every Chinese character is a word.
    han = pre_tokenizers.Split(Regex(r"\p{Han}"), "isolated")
    return pre_tokenizers.Sequence([han, pre_tokenizers.BertPreTokenizer()])


def _bpe(inner: Tokenizer, texts: Texts, budget: Budget) -> None:
    inner.model = models.BPE(unk_token=budget.unk)
    inner.train_from_iterator(texts, trainers.BpeTrainer(**budget.options()))


def _byte_bpe(inner: Tokenizer, texts: Texts, budget: Budget) -> None:
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    inner.model = models.BPE()
    inner.train_from_iterator(texts, trainers.BpeTrainer(initial_alphabet=alphabet, **budget.options()))


def _level(inner: Tokenizer, texts: Texts, budget: Budget) -> None:
    """Train without the hole that the library leaves where the texts contain a special token: it numbers it twice."""
    learner = Tokenizer(models.WordLevel(unk_token=budget.unk))
    learner.normalizer, learner.pre_tokenizer = inner.normalizer, inner.pre_tokenizer
    learner.train_from_iterator(texts, trainers.WordLevelTrainer(**budget.options()))
    known = learner.get_vocab()
    special = [token.content for token in budget.specials]
    words = special + sorted(known.keys() - set(special), key=known.__getitem__)
    inner.model = models.WordLevel({word: number for number, word in enumerate(words)}, budget.unk)


def _wordpiece(inner: Tokenizer, texts: Texts, budget: Budget) -> None:
    """Train with a fixed alphabet: the library numbers the ##x tokens in an order that differs from run to run."""
    split, normalize = inner.pre_tokenizer.pre_tokenize_str, inner.normalizer.normalize_str
    counts = Counter(word for text in texts for word, _ in split(normalize(text)))
    alphabet = sorted({letter for word in counts for letter in word})
    alphabet += sorted({f"##{letter}" for word in counts for letter in word[1:]})
    learner = Tokenizer(models.WordPiece(unk_token=budget.unk))
    learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    options = budget.options() | {"special_tokens": [*budget.specials, *alphabet]}
    learner.train_from_iterator(_repeated(counts), trainers.WordPieceTrainer(**options))
    inner.model = models.WordPiece(learner.get_vocab(), unk_token=budget.unk)


def _repeated(counts: Counter[str]) -> Iterator[str]:
    """Yield each word as often as it was counted, up to a thousand per line."""
    for word, left in counts.items():
        for done in range(0, left, 1000):
            yield " ".join([word] * min(left - done, 1000))


def _unigram(inner: Tokenizer, texts: Texts, budget: Budget) -> None:
    inner.model = models.Unigram()
    options = {key: value for key, value in budget.options().items() if key != "min_frequency"}
    letters = {SPACE, " "}
    try:
        trainer = trainers.UnigramTrainer(unk_token=budget.unk, **options)
        inner.train_from_iterator(_noted(texts, inner.normalizer.normalize_str, letters), trainer)
    except Exception as error:  # the library raises plain Exception
        if "not large enough" in str(error):
            budget.check(len(budget.specials) + len(letters - {" "}))
        raise
    state = json.loads(inner.model.__getstate__())
    special, pieces = state["vocab"][: len(budget.specials)], state["vocab"][len(budget.specials) :]
    room = options["vocab_size"] - len(special)
    inner.model = models.Unigram([*map(tuple, special), *_settled(dict(pieces), room)], state["unk_id"], False)


def _noted(texts: Texts, normalize: Callable[[str], str], letters: set[str]) -> Iterator[str]:
    """Yield the texts and collect their characters in `letters`."""
    for text in texts:
        letters.update(normalize(text))
        yield text


def _settled(scores: dict[str, float], room: int) -> list[tuple[str, float]]:
    """Make the scores reproducible, sort the pieces by score, and enforce the vocabulary size.

    The library sums over words in an order that differs from run to run, which changes the last digits. Characters
    that no piece needs get the lowest score plus 0, 0.0001, 0.0002 and so on, also in a varying order. If the
    characters alone fill the vocabulary, the library exceeds the size.
    """
    longer = sorted((piece for piece in scores if len(piece) > 1), key=lambda piece: (scores[piece], piece))
    over = set(longer[: max(len(scores) - room, 0)])
    scores = {piece: score for piece, score in scores.items() if piece not in over}
    lowest = min(scores.values())
    steps = {piece: (score - lowest) / 1e-4 for piece, score in scores.items() if len(piece) == 1}
    spare = sorted(piece for piece, step in steps.items() if abs(step - round(step)) < 1e-4 and step < len(steps))
    scores |= {piece: lowest + 1e-4 * i for i, piece in enumerate(spare)}
    total = math.log(math.fsum(math.exp(score) for score in scores.values()))
    return sorted(((piece, round(score - total, 4)) for piece, score in scores.items()), key=lambda row: (-row[1], row))


KINDS: dict[str, Kind] = {
    "bpe": Kind(_marked, lambda: decoders.Metaspace(replacement=SPACE, prepend_scheme="first"), _bpe),
    "byte-bpe": Kind(lambda: pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel, _byte_bpe),
    "wordpiece": Kind(_words, decoders.WordPiece, _wordpiece),
    "unigram": Kind(_marked, lambda: decoders.Metaspace(replacement=SPACE, prepend_scheme="first"), _unigram),
    "char": Kind(lambda: pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated"), decoders.Fuse, _level),
    "word": Kind(_words, lambda: None, _level),
    "whitespace": Kind(lambda: pre_tokenizers.Split(Regex(r"\n|\S+"), "removed", invert=True), lambda: None, _level),
}
