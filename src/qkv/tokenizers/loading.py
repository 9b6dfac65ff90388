"""Load a tokenizer from the files of a model folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from qkv.common import disk
from qkv.common.errors import QkvError

LIMITS = "sentence_bert_config.json"  # tokenizer settings of sentence-transformers


def load(folder: Path, settings: dict[str, Any]) -> Tokenizer | None:
    """Load the first that exists: tokenizer.json, vocab.txt, or vocab.json with merges.txt."""
    try:
        inner = _load(folder, settings)
    except BaseException as error:
        raise reason(error, f"the tokenizer of {folder} is damaged") from None
    if inner is not None and _read(folder / LIMITS).get("do_lower_case"):
        rest = [] if inner.normalizer is None else [inner.normalizer]
        inner.normalizer = normalizers.Sequence([normalizers.Lowercase(), *rest])
    return inner


def reason(error: BaseException, what: str) -> BaseException:
    """Turn an error of the library into ours. It raises plain Exception, or PanicException, which is not one."""
    if isinstance(error, QkvError) or not (isinstance(error, Exception) or type(error).__name__ == "PanicException"):
        return error
    return QkvError(f"{what}: {error}")


def load_settings(folder: Path) -> dict[str, Any]:
    """Read tokenizer_config.json. The length limit of sentence-transformers takes precedence."""
    limit = _read(folder / LIMITS).get("max_seq_length")
    return _read(folder / "tokenizer_config.json") | ({"model_max_length": limit} if limit else {})


def _read(file: Path) -> dict[str, Any]:
    return disk.read_object(file) if file.is_file() else {}


def _load(folder: Path, settings: dict[str, Any]) -> Tokenizer | None:
    if (folder / "tokenizer.json").is_file():
        return Tokenizer.from_file(str(folder / "tokenizer.json"))
    if (folder / "vocab.txt").is_file():
        return _wordpiece(folder / "vocab.txt", settings)
    if (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        return _bytes(folder)
    return None


def _wordpiece(vocab: Path, settings: dict[str, Any]) -> Tokenizer:
    """Build BERT's tokenizer from its vocab.txt."""
    with vocab.open(encoding="utf-8") as lines:  # only a newline ends a line: pieces may contain other line breaks
        pieces = {line.rstrip("\n"): i for i, line in enumerate(lines)}
    for needed in ("[CLS]", "[SEP]", "[UNK]"):
        if needed not in pieces:
            raise QkvError(f"{vocab} is not a BERT vocabulary: it does not contain {needed}")
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
    """Build the byte-level BPE of GPT-2 and RoBERTa from vocab.json and merges.txt."""
    inner = Tokenizer(models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    start, end = inner.token_to_id("<s>"), inner.token_to_id("</s>")
    if start is not None and end is not None:
        inner.post_processor = processors.RobertaProcessing(("</s>", end), ("<s>", start), add_prefix_space=False)
    specials = ("<s>", "</s>", "<pad>", "<unk>", "<mask>", "<|endoftext|>")
    inner.add_special_tokens([token for token in specials if inner.token_to_id(token) is not None])
    return inner
