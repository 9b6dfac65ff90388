"""Train a tokenizer on texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tokenizers import AddedToken, Tokenizer, models, normalizers, processors

from qkv.common.errors import UsageError, unknown
from qkv.common.unicode import is_well_formed
from qkv.tokenizers.kinds import KINDS, Budget
from qkv.tokenizers.special import FAMILIES, Family, named
from qkv.tokenizers.text import TextTokenizer

FORMS: dict[str, list[Any]] = {"nfc": [normalizers.NFC()], "nfkc": [normalizers.NFKC()], "none": []}
_WORDS = ("wordpiece", "word")  # kinds that throw white space away
_SPACED = ("bpe", "unigram", "byte-bpe")  # kinds whose words hold the space before them


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig:
    """What to train.

    Attributes:
        kind: bpe, byte-bpe, wordpiece, unigram, char or word (`kinds.py`).
        vocab_size: how many tokens at most, special ones included. Few texts may give fewer.
        lowercase: read everything as lower case.
        normalize: the form of Unicode that texts are brought to: nfc, nfkc or none. What comes back from ids is text in
            this form, so choose none to get bytes back as they were.
        min_frequency: how often a merge, a word or a character must be seen; unigram does not ask.
        specials: the family of models it is for: translate, bert, gpt or t5 (`special.py`).
    """

    kind: str = "bpe"
    vocab_size: int = 8000
    lowercase: bool = False
    normalize: str = "nfkc"
    min_frequency: int = 2
    specials: str = "translate"


def train_tokenizer(texts: Iterable[str], config: TokenizerConfig) -> TextTokenizer:
    """Train a tokenizer; the same texts give the same one in every run, whatever the number of threads.

    bpe, unigram and char give back any text whose characters they have seen, byte-bpe any text at all, in the config's
    normal form. For bpe and unigram one space at the very beginning is lost: it is the mark of the first word.
    """
    family = _checked(config)
    kind = KINDS[config.kind]
    inner = Tokenizer(models.WordLevel())  # replaced by what is learnt
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
    return TextTokenizer(inner, named(inner, family))


def _checked(config: TokenizerConfig) -> Family:
    tables: dict[str, Mapping[str, object]] = {"kind": KINDS, "normalize": FORMS, "specials": FAMILIES}
    for key, table in tables.items():
        if getattr(config, key) not in table:
            raise unknown(f"{key} of a tokenizer", getattr(config, key), table)
    if config.min_frequency < 1:
        raise UsageError(f"min_frequency is {config.min_frequency}; it must be 1 or more")
    return FAMILIES[config.specials]


def _texts(texts: Iterable[str]) -> Iterator[str]:
    """Pass texts on; stop at what is no text, and at the end if there was none."""
    if isinstance(texts, str):
        raise UsageError("texts must be many strings, not one")
    empty = True
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise UsageError(f"text {number} is of type {type(text).__name__}; texts must be strings")
        if not is_well_formed(text):
            raise UsageError(f"text {number} contains a lone surrogate, which is not a character")
        empty = empty and not text.strip()
        yield text
    if empty:
        raise UsageError("there are no texts to train a tokenizer on, or all are empty")


def _normalizer(config: TokenizerConfig) -> normalizers.Normalizer:
    parts = list(FORMS[config.normalize])
    if parts and config.kind in _WORDS:  # one control character would make a whole word unknown
        parts += [normalizers.BertNormalizer(handle_chinese_chars=False, strip_accents=False, lowercase=False)]
    return normalizers.Sequence(parts + [normalizers.Lowercase()] * config.lowercase)


def _specials(config: TokenizerConfig, family: Family) -> list[AddedToken]:
    # Bytes are never unknown.
    more = [] if family.unk in family.tokens or config.kind == "byte-bpe" else [family.unk]
    return [_special(token, config) for token in [*family.tokens, *more]]


def _special(token: str, config: TokenizerConfig) -> AddedToken:
    # A mask or a sentinel stands for a word with its space, so the space before it in a text is part of it.
    strip = config.kind in _SPACED and (token == "[MASK]" or token.startswith("<extra_id"))
    return AddedToken(token, lstrip=strip, normalized=False, special=True)


def _finish(inner: Tokenizer, config: TokenizerConfig, family: Family, specials: list[AddedToken]) -> None:
    """Add the special tokens and the template."""
    inner.add_special_tokens(specials)
    # T5's order: the last id is <extra_id_0>.
    inner.add_special_tokens([_special(f"<extra_id_{i}>", config) for i in reversed(range(family.sentinels))])
    if family.single is not None:
        used = [(token, inner.token_to_id(token)) for token in family.tokens if token in family.single]
        inner.post_processor = processors.TemplateProcessing(
            single=family.single, pair=family.pair, special_tokens=used
        )
