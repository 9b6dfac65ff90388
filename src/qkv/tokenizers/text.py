"""Text to ids and back, over Hugging Face's `tokenizers`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from qkv.common.errors import QkvError


@dataclass(frozen=True)
class Encoded:
    """Texts as ids, with the segment each token belongs to."""

    ids: list[list[int]]
    segments: list[list[int]]


class TextTokenizer:
    """A tokenizer that never pads and cuts only where it is asked to."""

    def __init__(self, inner: Tokenizer, settings: dict[str, Any] | None = None) -> None:
        inner.no_padding()
        inner.no_truncation()
        self._inner = inner
        self.settings = dict(settings or {})

    @staticmethod
    def find(folder: Path) -> TextTokenizer | None:
        """Load the tokenizer of a model folder: tokenizer.json, vocab.txt, or vocab.json with merges.txt."""
        settings = _settings(folder)
        try:
            if (folder / "tokenizer.json").is_file():
                return TextTokenizer(Tokenizer.from_file(str(folder / "tokenizer.json")), settings)
            if (folder / "vocab.txt").is_file():
                return TextTokenizer(_wordpiece(folder / "vocab.txt", settings), settings)
            if (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
                return TextTokenizer(_bytes(folder), settings)
        except QkvError:
            raise
        except Exception as error:  # the library raises plain Exception
            raise QkvError(f"the tokenizer of {folder} is damaged: {error}") from None
        return None

    @property
    def vocab_size(self) -> int:
        """Number of tokens, special ones included."""
        return self._inner.get_vocab_size(with_added_tokens=True)

    @property
    def max_length(self) -> int | None:
        """How many tokens the folder's settings allow a text to have."""
        limit = self.settings.get("model_max_length")
        return int(limit) if isinstance(limit, int | float) and limit < 1e9 else None

    @property
    def kind(self) -> str:
        """The algorithm: WordPiece, BPE, Unigram or WordLevel."""
        return type(self._inner.model).__name__

    def encode(
        self, texts: Sequence[str], pairs: Sequence[str] | None = None, *, max_length: int | None = None
    ) -> Encoded:
        """Encode texts, or pairs of texts, with their special tokens; `max_length` cuts the longer side first."""
        inputs = list(texts) if pairs is None else list(zip(texts, pairs, strict=True))
        if max_length is None:
            found = self._inner.encode_batch(inputs)
        else:
            self._inner.enable_truncation(max_length)
            try:
                found = self._inner.encode_batch(inputs)
            finally:
                self._inner.no_truncation()
        return Encoded([encoding.ids for encoding in found], [encoding.type_ids for encoding in found])

    def decode(self, ids: Sequence[int]) -> str:
        """Turn ids into text, without special tokens."""
        return self._inner.decode(list(ids))

    def id_of(self, token: str) -> int | None:
        """Return a token's id."""
        return self._inner.token_to_id(token)

    @property
    def fingerprint(self) -> str:
        """A digest of everything that decides the ids."""
        return hashlib.sha256(json.dumps(json.loads(self._inner.to_str()), sort_keys=True).encode()).hexdigest()[:16]

    def save(self, folder: Path) -> None:
        """Write tokenizer.json, and the settings beside it."""
        (folder / "tokenizer.json").write_text(self._inner.to_str(pretty=True), "utf-8")
        settings = {"tokenizer_class": "PreTrainedTokenizerFast"} | self.settings
        (folder / "tokenizer_config.json").write_text(
            json.dumps(settings, indent=2, ensure_ascii=False) + "\n", "utf-8"
        )


def _settings(folder: Path) -> dict[str, Any]:
    """Read tokenizer_config.json; sentence-transformers' own length limit goes first."""
    settings: dict[str, Any] = {}
    for name, key in (("tokenizer_config.json", None), ("sentence_bert_config.json", "max_seq_length")):
        if not (folder / name).is_file():
            continue
        try:
            raw = json.loads((folder / name).read_text("utf-8"))
            settings |= raw if key is None else {"model_max_length": raw[key]} if raw.get(key) else {}
        except (ValueError, TypeError, AttributeError) as error:
            raise QkvError(f"{folder / name} is damaged: {error}") from None
    return settings


def _wordpiece(vocab: Path, settings: dict[str, Any]) -> Tokenizer:
    """BERT's tokenizer from its list of word pieces."""
    with vocab.open(encoding="utf-8") as lines:  # a line ends at a newline alone: pieces may hold other breaks
        pieces = {line.rstrip("\n"): i for i, line in enumerate(lines)}
    for needed in ("[CLS]", "[SEP]", "[UNK]"):
        if needed not in pieces:
            raise QkvError(f"{vocab} is not BERT's vocabulary: it lacks {needed}")
    inner = Tokenizer(models.WordPiece(pieces, unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer(
        lowercase=settings.get("do_lower_case", True),
        strip_accents=settings.get("strip_accents"),
        handle_chinese_chars=settings.get("tokenize_chinese_chars", True),
    )
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.decoder = decoders.WordPiece()
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", pieces["[CLS]"]), ("[SEP]", pieces["[SEP]"])],
    )
    inner.add_special_tokens([t for t in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]") if t in pieces])
    return inner


def _bytes(folder: Path) -> Tokenizer:
    """GPT-2's and RoBERTa's byte-level BPE from vocabulary and merges."""
    inner = Tokenizer(models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    start, end = inner.token_to_id("<s>"), inner.token_to_id("</s>")
    if start is not None and end is not None:
        inner.post_processor = processors.RobertaProcessing(("</s>", end), ("<s>", start), add_prefix_space=False)
    specials = ("<s>", "</s>", "<pad>", "<unk>", "<mask>", "<|endoftext|>")
    inner.add_special_tokens([token for token in specials if inner.token_to_id(token) is not None])
    return inner
