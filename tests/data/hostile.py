"""Damaged inputs: one small good file for each reader, and seeded ways to break it."""

import bz2
import gzip
import io
import json
import lzma
import re
import struct
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard
from PIL import Image
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from qkv.checkpoints.word_vectors import read_vector_file
from qkv.data.documents import documents
from qkv.data.images import images
from qkv.data.labelled import classified, find_columns, rated
from qkv.data.parallel import parallel
from qkv.data.questions import questions
from qkv.data.tagged import tagged
from qkv.tokenizers.text import TextTokenizer

LINES = "".join(f"label{i % 2}\tThe café number {i} is {'good' if i % 2 else 'bad'}.\t{i / 4}\n" for i in range(8))
TABLE = "label\ttext\tscore\n" + LINES
CSV = 'label,text,score\n0,"The café, ""old"".",1.5\n1,"two\nlines",2\n0,plain,3e0\n1,plain too,-4\n'
ROWS = [
    {"text": f"The café {i}.", "label": i % 2, "score": i / 4, "more": [f"t{i}", "u"], "other": [{"a": [i]}]}
    for i in range(6)
]
JSONL = "".join(json.dumps(row) + "\n" for row in ROWS)
PAIRS = "".join(json.dumps({"translation": {"en": f"One {i}.", "de": f"Eins {i}."}}) + "\n" for i in range(4))
CONLL = "-DOCSTART- -X- O O\n\nAda NNP B-NP B-PER\nlives VBZ B-VP O\n\nin IN B-PP O\nLondon NNP B-NP I-LOC\n"
CONLLU = "1\tAda\tAda\tPROPN_\n2-3\tisn't\t_\t__\n4\tin\tin\tADP_\n\n".replace("_\n", "\t_" * 6 + "\n") * 3
WORDS = "".join(json.dumps({"tokens": ["Ada", "lives"], "ner_tags": ["B-PER", "O"], "id": i}) + "\n" for i in range(3))
CONTEXT = "Ada lived in London."
SQUAD = {
    "version": "2.0",
    "data": [
        {
            "title": "Ada",
            "paragraphs": [
                {
                    "context": CONTEXT,
                    "qas": [
                        {"id": "1", "question": "Who?", "answers": [{"text": "Ada", "answer_start": 0}]},
                        {"id": "2", "question": "Why?", "answers": [], "is_impossible": True},
                    ],
                }
            ],
        }
    ],
}
ASKED = "".join(
    json.dumps({"id": i, "question": "Who?", "context": CONTEXT, "answers": {"text": ["Ada"], "answer_start": [0]}})
    + "\n"
    for i in range(3)
)
VECTORS = "3 4\nthe 0.1 0.2 -0.3 4\ncafé 1e-3 2 3 4\ncat 0 0 0 1\n"


@dataclass(frozen=True)
class Case:
    """A reader and the good files it reads; the first of them is broken."""

    files: dict[str, bytes]
    read: Callable[[Path], Iterable[Any]]


def damaged(data: bytes, random: Random) -> bytes:
    """Break some bytes in one to three of the ways below."""
    for _ in range(random.choice([1, 1, 2, 3])):
        data = random.choice(WAYS)(data, random)
    return data


def _flip(data: bytes, random: Random) -> bytes:
    broken = bytearray(data)
    for _ in range(min(len(broken), random.choice([1, 1, 2, 8, 40]))):
        broken[random.randrange(len(broken))] = random.randrange(256)
    return bytes(broken)


def _truncate(data: bytes, random: Random) -> bytes:
    return data[: random.randrange(len(data) + 1)]


def _insert(data: bytes, random: Random) -> bytes:
    place = random.randrange(len(data) + 1)
    return data[:place] + random.choice(PIECES) + data[place:]


def _replace(data: bytes, random: Random) -> bytes:
    """Put a piece in the place of a word or a number."""
    place = random.randrange(len(data) + 1)
    return data[:place] + random.choice(PIECES) + data[place + random.randrange(12) :]


def _retype(data: bytes, random: Random) -> bytes:
    """Put a piece in the place of a whole number, word or quoted text."""
    found = list(_TOKEN.finditer(data))
    if not found:
        return data
    token = random.choice(found)
    return data[: token.start()] + random.choice(PIECES) + data[token.end() :]


def _repeat(data: bytes, random: Random) -> bytes:
    first, last = sorted(random.randrange(len(data) + 1) for _ in range(2))
    return data[:last] + data[first:last] * random.choice([1, 3, 50]) + data[last:]


def _drop(data: bytes, random: Random) -> bytes:
    first, last = sorted(random.randrange(len(data) + 1) for _ in range(2))
    return data[:first] + data[last:]


def _recode(data: bytes, random: Random) -> bytes:
    return data.decode("latin-1").encode(random.choice(["utf-16", "utf-32", "utf-8-sig"]))


_TOKEN = re.compile(rb'"[^"]*"|[-+.\w]+')
WAYS = (_flip, _flip, _retype, _retype, _truncate, _insert, _insert, _replace, _replace, _repeat, _drop, _recode)
PIECES = [
    b"[" * 5000, b"[" * 990 + b"]" * 990, b'{"a":' * 900 + b"1" + b"}" * 900, b'{"a":' * 100_000, b"(" * 3000,
    b"9" * 5000, b"9" * 400, b"1e400", b"-1", b"NaN", b"Infinity", b"-9223372036854775809", b"99999999999", b"0",
    b"\x00", b"\x00" * 64, b"\xff" * 8, b"\xed\xa0\x80", b'"\\ud800"', b"\\udfff", b"\xe9", b"\xef\xbb\xbf",
    b'"', b"\n", b"\r", b"\r\n\r\n", b"\t", b"\t" * 200, b",", b" ", b"\xe2\x80\xa8", b"\xc2\xa0", b"null", b"true",
    b"{}", b"[]", b'""', b"{", b"}", b"]", b"#", b"!", b"B-", b"1_0", b"\xd9\xa3", b"x" * 70_000,
]  # fmt: skip


def _parquet(**options: Any) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(ROWS), buffer, **options)
    return buffer.getvalue()


def _zipped(data: bytes, name: str, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr(name, data)
        archive.writestr("_about.txt", "about")
    return buffer.getvalue()


def _idx(array: Any) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def _npz(save: Callable[..., None]) -> bytes:
    buffer = io.BytesIO()
    save(buffer, images=np.arange(2 * 4 * 4, dtype=np.uint8).reshape(2, 4, 4), labels=np.array([1, 0]))
    return buffer.getvalue()


def _picture(format: str) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.arange(300, dtype=np.uint8).reshape(10, 10, 3)).save(buffer, format)
    return buffer.getvalue()


def _binary_vectors() -> bytes:
    return b"2 3\n" + b"".join(word + struct.pack("<3f", 1, 2, 3) + b"\n" for word in (b"the ", b"cat "))


def _wordpiece() -> bytes:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "##s"]
    inner = Tokenizer(models.WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer()
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return inner.to_str().encode()


def _bpe() -> bytes:
    inner = Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2, "<s>": 3, "</s>": 4}, [("a", "b")]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel()
    inner.post_processor = processors.RobertaProcessing(("</s>", 4), ("<s>", 3))
    return inner.to_str().encode()


def _unigram() -> bytes:
    inner = Tokenizer(models.Unigram([("<unk>", 0.0), ("▁a", -1.0), ("b", -2.0)], 0, False))
    inner.pre_tokenizer = pre_tokenizers.Metaspace()
    return inner.to_str().encode()


def _tokenize(folder: Path) -> Iterable[Any]:
    tokenizer = TextTokenizer.find(folder)
    if tokenizer is not None:
        yield tokenizer.encode(["The cats, ab."], ["b"], max_length=8), tokenizer.specials


def _sides(folder: Path) -> Iterable[Any]:
    return parallel([str(folder / "a.en"), str(folder / "a.de")])


def _one(read: Callable[..., Iterable[Any]], name: str, data: bytes | str, **options: Any) -> Case:
    content = data.encode() if isinstance(data, str) else data
    return Case({name.partition("!")[0]: content}, lambda folder: read(str(folder / name), **options))


def _columns(path: str) -> Iterable[Any]:
    yield find_columns(path)
    yield from classified(path, text=None, label=None, bad="skip")


def _vectors(path: str) -> Iterable[Any]:
    yield read_vector_file(path)


CASES = {
    "tsv": _one(classified, "a.tsv", TABLE),
    "tsv numbers": _one(rated, "a.tsv", TABLE, label="score", bad="skip"),
    "csv": _one(classified, "a.csv", CSV),
    "csv guessed": _one(_columns, "a.csv", CSV),
    "csv numbers": _one(rated, "a.csv", CSV, label="score"),
    "jsonl": _one(classified, "a.jsonl", JSONL, bad="skip"),
    "jsonl guessed": _one(_columns, "a.jsonl", JSONL.replace("label", "kind").replace("text", "body")),
    "jsonl numbers": _one(rated, "a.jsonl", JSONL, label="score", bad="skip"),
    "jsonl labels": _one(classified, "a.jsonl", JSONL, label="more", labels_separator=",", bad="skip"),
    "parquet": _one(classified, "a.parquet", _parquet(), bad="skip"),
    "parquet plain": _one(documents, "a.parquet", _parquet(compression="none", use_dictionary=False), bad="skip"),
    "label-first": _one(classified, "a.txt", LINES.replace("\t", " "), text=1, label=0, format="label-first"),
    "lines": _one(documents, "a.txt", LINES, bad="skip"),
    "blocks": _one(documents, "a.txt", LINES.replace("\n", "\n\n"), unit="blank"),
    "file": _one(documents, "a.txt", LINES, unit="file"),
    "parallel files": Case({"a.en": b"one\ntwo\nthree\n", "a.de": b"eins\nzwei\ndrei\n"}, _sides),
    "parallel tsv": _one(parallel, "a.tsv", "en\tde\nOne.\tEins.\nTwo.\tZwei.\n", bad="skip"),
    "parallel jsonl": _one(parallel, "a.jsonl", PAIRS, bad="skip"),
    "parallel part": _one(parallel, "a.tsv#train", "en\tde\nOne.\tEins.\nTwo.\tZwei.\n", bad="skip"),
    "squad": _one(questions, "a.json", json.dumps(SQUAD)),
    "questions": _one(questions, "a.jsonl", ASKED, bad="skip"),
    "conll": _one(tagged, "a.conll", CONLL),
    "conllu": _one(tagged, "a.conllu", CONLLU, bad="skip"),
    "csv semicolons": _one(_columns, "a.csv", CSV.replace(",", ";")),
    "csv utf-16": _one(classified, "a.csv", CSV.encode("utf-16-le"), bad="skip"),
    "csv cp1252": _one(classified, "a.csv", CSV.encode("cp1252"), bad="skip"),
    "json list": _one(classified, "a.json", json.dumps(ROWS, indent=1), bad="skip"),
    "fasttext": _one(classified, "a.txt", "".join(f"__label__{i % 2} a text {i}\n" for i in range(6)), bad="skip"),
    "class folder": Case({"a/0.txt": b"good caf\xe9", "b/1.txt": b"bad"}, lambda folder: classified(str(folder))),
    "tagged jsonl": _one(tagged, "a.jsonl", WORDS, bad="skip"),
    "png": Case({"a/0.png": _picture("PNG"), "b/1.png": _picture("PNG")}, lambda folder: images(str(folder))),
    "jpeg": Case({"a/0.jpg": _picture("JPEG"), "b/1.jpg": _picture("JPEG")}, lambda folder: images(str(folder))),
    "idx": Case(
        {"i": _idx(np.zeros((2, 3, 4), np.uint8)), "l": _idx(np.zeros(2, np.uint8))},
        lambda folder: images([str(folder / "i"), str(folder / "l")]),
    ),
    "idx labels": Case(
        {"l": _idx(np.zeros(2, np.uint8)), "i": _idx(np.zeros((2, 3, 4), np.uint8))},
        lambda folder: images([str(folder / "i"), str(folder / "l")]),
    ),
    "npz": _one(images, "a.npz", _npz(np.savez)),
    "npz packed": _one(images, "a.npz", _npz(np.savez_compressed)),
    "gz": _one(documents, "a.txt.gz", gzip.compress(LINES.encode(), mtime=0)),
    "bz2": _one(documents, "a.txt.bz2", bz2.compress(LINES.encode())),
    "xz": _one(documents, "a.txt.xz", lzma.compress(LINES.encode())),
    "zst": _one(documents, "a.txt.zst", zstandard.compress(LINES.encode())),
    "zip": _one(documents, "a.zip", _zipped(LINES.encode(), "a.txt")),
    "zip lzma": _one(classified, "a.zip", _zipped(TABLE.encode(), "a.tsv", zipfile.ZIP_LZMA)),
    "zip member": _one(documents, "a.zip!a.txt.gz", _zipped(gzip.compress(LINES.encode(), mtime=0), "a.txt.gz")),
    "zip pattern": _one(documents, "a.zip!*.txt", _zipped(LINES.encode(), "a.txt", zipfile.ZIP_BZIP2)),
    "vectors": _one(_vectors, "v.txt", VECTORS),
    "vectors glove": _one(_vectors, "v.txt", VECTORS[4:]),
    "vectors binary": _one(_vectors, "v.bin", _binary_vectors()),
    "wordpiece": Case({"tokenizer.json": _wordpiece()}, _tokenize),
    "bpe": Case({"tokenizer.json": _bpe()}, _tokenize),
    "unigram": Case({"tokenizer.json": _unigram()}, _tokenize),
    "vocab": Case({"vocab.txt": b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\ncat\n##s\n"}, _tokenize),
    "merges": Case({"merges.txt": b"#version: 0.2\na b\n", "vocab.json": b'{"a":0,"b":1,"ab":2}'}, _tokenize),
    "byte vocab": Case({"vocab.json": b'{"a":0,"b":1,"ab":2}', "merges.txt": b"#version: 0.2\na b\n"}, _tokenize),
    "settings": Case(
        {
            "tokenizer_config.json": b'{"model_max_length": 512, "pad_token": "[PAD]", "cls_token": {"content": "a"}}',
            "tokenizer.json": _wordpiece(),
        },
        _tokenize,
    ),
}  # fmt: skip
