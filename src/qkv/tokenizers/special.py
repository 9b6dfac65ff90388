"""Special tokens: which token has which role, and which ones each model family needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tokenizers import Tokenizer

# Role: its key in Hugging Face's settings, and the spellings to look for, in order of preference.
ROLES: dict[str, tuple[str, tuple[str, ...]]] = {
    "pad": ("pad_token", ("<pad>", "[PAD]", "<|pad|>")),
    "unk": ("unk_token", ("<unk>", "[UNK]")),
    "start": ("bos_token", ("<s>", "[CLS]", "<bos>", "[BOS]", "<|startoftext|>", "<|endoftext|>")),
    "end": ("eos_token", ("</s>", "[SEP]", "<eos>", "[EOS]", "<|endoftext|>")),
    "mask": ("mask_token", ("<mask>", "[MASK]")),
    "cls": ("cls_token", ("[CLS]", "<cls>", "<s>")),
    "sep": ("sep_token", ("[SEP]", "<sep>", "</s>")),
}


@dataclass(frozen=True, kw_only=True)
class Family:
    """The special tokens of a family of models.

    Attributes:
        tokens: the first tokens of the vocabulary, in this order.
        unk: the token for unknown characters.
        single: the template for one text, or None to add nothing.
        pair: the template for two texts.
        sentinels: the number of T5 sentinels at the end of the vocabulary.
    """

    tokens: tuple[str, ...]
    unk: str = "<unk>"
    single: str | None = None
    pair: str | None = None
    sentinels: int = 0


# The decoders of translation models and T5 start with <pad>, so they need no start token (Raffel et al. 2020).
_TRANSLATE = Family(tokens=("<pad>", "</s>", "<unk>"), single="$A </s>", pair="$A </s> $B </s>")

FAMILIES: dict[str, Family] = {
    "translate": _TRANSLATE,
    "bert": Family(
        tokens=("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
        unk="[UNK]",
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
    ),
    "gpt": Family(tokens=("<|endoftext|>",)),
    "t5": replace(_TRANSLATE, sentinels=100),
}


def roles(inner: Tokenizer, settings: Mapping[str, Any]) -> dict[str, int]:
    """Return the token id of each role that has one. Tokens in the settings take precedence over known spellings."""
    found: dict[str, int] = {}
    for role, (key, spellings) in ROLES.items():
        named = settings.get(key)
        named = named.get("content") if isinstance(named, Mapping) else named
        ids = [inner.token_to_id(token) for token in (named, *spellings) if isinstance(token, str)]
        if (first := next((i for i in ids if i is not None), None)) is not None:
            found[role] = first
    if "start" not in found and found.keys() >= {"pad", "end"}:  # T5 and Marian
        found["start"] = found["pad"]
    return found


def named(inner: Tokenizer, settings: Mapping[str, Any]) -> dict[str, int]:
    """Return the roles to write to Hugging Face's settings, with their token ids.

    BERT's [CLS] and [SEP] are not start and end tokens, and T5's </s> is not a separator. If there is no padding token,
    the end token is used for padding; attention never sees it.
    """
    found = roles(inner, settings)
    given = {role for role, (key, _) in ROLES.items() if settings.get(key) is not None}

    def meant(role: str) -> bool:
        if role in given:
            return True
        if role in ("start", "end"):
            return inner.id_to_token(found[role]) not in ("[CLS]", "[SEP]") and found[role] != found.get("pad")
        return role not in ("cls", "sep") or {"cls", "sep"} <= found.keys()

    kept = {role: number for role, number in found.items() if meant(role)}
    return ({"pad": kept["end"]} if "end" in kept else {}) | kept


def token_settings(inner: Tokenizer, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the special token settings to add for Hugging Face. Existing settings are left unchanged."""
    tokens = {ROLES[role][0]: inner.id_to_token(number) for role, number in named(inner, settings).items()}
    return {key: token for key, token in tokens.items() if settings.get(key) is None}


def sentinels(inner: Tokenizer) -> list[int]:
    """Return the ids of <extra_id_0>, <extra_id_1> and so on, which T5 puts in place of removed spans."""
    ids: list[int] = []
    while (number := inner.token_to_id(f"<extra_id_{len(ids)}>")) is not None:
        ids.append(number)
    return ids
