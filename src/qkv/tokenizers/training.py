"""Train a tokenizer on texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tokenizers import AddedToken, Tokenizer, models, normalizers, processors

from qkv.common.errors import UsageError, unknown
from qkv.common.unicode import is_well_formed
from qkv.tokenizers.kinds import KINDS, Budget
from qkv.tokenizers.special import FAMILIES, Family
from qkv.tokenizers.text import TextTokenizer

FORMS: dict[str, list[Any]] = {"nfc": [normalizers.NFC()], "nfkc": [normalizers.NFKC()], "none": []}
_WORDS = ("wordpiece", "word")  # kinds that discard white space
_SPACED = ("bpe", "unigram", "byte-bpe")  # kinds whose words include the space before them


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig:
    """Settings for training a tokenizer.

    Attributes:
        kind: bpe, byte-bpe, wordpiece, unigram, char, word or whitespace (`kinds.py`).
        vocab_size: the maximum number of tokens, special tokens included. Small corpora may give fewer.
        lowercase: convert all text to lower case.
        normalize: the Unicode normalisation form: nfc, nfkc or none. Decoding returns normalised text, so use none if
            you need the original bytes back.
        min_frequency: the minimum count of a merge, a word or a character. unigram ignores it.
        specials: the model family whose special tokens to use: translate, bert, gpt or t5 (`special.py`).
    """

    kind: str = "bpe"
    vocab_size: int = 8000
    lowercase: bool = False
    normalize: str = "nfkc"
    min_frequency: int = 2
    specials: str = "translate"


def train_tokenizer(texts: Iterable[str], config: TokenizerConfig) -> TextTokenizer:
    """Train a tokenizer. The result depends only on the texts and the config, not on the number of threads.

    Decoding returns the normalised text exactly: for bpe, unigram and char if all characters occurred in training, for
    byte-bpe always. bpe and unigram drop one space at the very beginning, because it marks the first word.
    """
    family = _checked(config)
    kind = KINDS[config.kind]
    inner = Tokenizer(models.WordLevel())  # replaced by the trained model
    inner.normalizer = _normalizer(config)
    inner.pre_tokenizer, inner.decoder = kind.split(), kind.join()
    budget = Budget(
        specials=_specials(config, family),
        unk=family.unk,
        vocab_size=config.vocab_size,
        reserved=family.sentinels,
        min_frequency=config.min_frequency,
    )
    budget.check(len(budget.specials) + 1)
    kind.learn(inner, _texts(texts), budget)
    budget.check(inner.get_vocab_size())
    _finish(inner, config, family, budget.specials)
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    segments = {"model_input_names": inputs} if family.pair and ":1" in family.pair else {}
    return TextTokenizer(inner, {"clean_up_tokenization_spaces": False} | segments)


def _checked(config: TokenizerConfig) -> Family:
    tables: dict[str, Mapping[str, object]] = {"kind": KINDS, "normalize": FORMS, "specials": FAMILIES}
    for key, table in tables.items():
        if getattr(config, key) not in table:
            raise unknown(f"{key} of a tokenizer", getattr(config, key), table)
    if config.min_frequency < 1:
        raise UsageError(f"min_frequency is {config.min_frequency}; it must be 1 or more")
    return FAMILIES[config.specials]


def _texts(texts: Iterable[str]) -> Iterator[str]:
    """Yield the texts and check them: each must be a string, and at least one must not be empty."""
    if isinstance(texts, str):
        raise UsageError("texts must be a list of strings, not one string")
    empty = True
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise UsageError(f"text {number} is of type {type(text).__name__}; texts must be strings")
        if not is_well_formed(text):
            raise UsageError(f"text {number} contains a lone surrogate, which is not a character")
        empty = empty and not text.strip()
        yield text
    if empty:
        raise UsageError("there are no texts to train a tokenizer on, or all of them are empty")


def _normalizer(config: TokenizerConfig) -> normalizers.Normalizer:
    parts = list(FORMS[config.normalize])
    if parts and config.kind in _WORDS:  # one control character would make a whole word unknown
        parts += [normalizers.BertNormalizer(handle_chinese_chars=False, strip_accents=False, lowercase=False)]
    return normalizers.Sequence(parts + [normalizers.Lowercase()] * config.lowercase)


def _specials(config: TokenizerConfig, family: Family) -> list[AddedToken]:
    # Byte-level tokenizers have no unknown tokens.
    more = [] if family.unk in family.tokens or config.kind == "byte-bpe" else [family.unk]
    return [_special(token, config) for token in [*family.tokens, *more]]


def _special(token: str, config: TokenizerConfig) -> AddedToken:
    # A mask or a sentinel replaces a word and the space before it, so it strips that space.
    strip = config.kind in _SPACED and (token == "[MASK]" or token.startswith("<extra_id"))
    return AddedToken(token, lstrip=strip, normalized=False, special=True)


def _finish(inner: Tokenizer, config: TokenizerConfig, family: Family, specials: list[AddedToken]) -> None:
    """Add the special tokens and the post-processing template."""
    inner.add_special_tokens(specials)
    # T5's order: the last id is <extra_id_0>.
    inner.add_special_tokens([_special(f"<extra_id_{i}>", config) for i in reversed(range(family.sentinels))])
    if family.single is not None:
        used = [(token, inner.token_to_id(token)) for token in family.tokens if token in family.single]
        inner.post_processor = processors.TemplateProcessing(
            single=family.single, pair=family.pair, special_tokens=used
        )
