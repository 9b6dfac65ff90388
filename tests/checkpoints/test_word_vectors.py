"""Files of word vectors: bytes as the formats are documented, there and back, and what is damaged."""

from __future__ import annotations

import gzip
import struct
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import qkv
from qkv.checkpoints.word_vectors import read_vectors, write_vectors
from qkv.common.errors import QkvError, UsageError

WORDS = ["the", "café", "東京"]
TABLE = np.array([[0.5, -1.25], [3.0, 0.1], [-0.0, 1e-9]], dtype=np.float32)
# As the authors' tools write them: word2vec's text ends each line with a space.
TEXT = "3 2\nthe 0.5 -1.25 \ncafé 3.0 0.1 \n東京 -0.0 1e-09 \n".encode()
GLOVE = "the 0.5 -1.25\ncafé 3.0 0.1\n東京 -0.0 1e-09\n".encode()
BINARY = b"3 2\n" + b"".join(
    word.encode() + b" " + struct.pack("<2f", *row) + b"\n" for word, row in zip(WORDS, TABLE.tolist(), strict=True)
)
SAMPLES = {
    "v.txt": TEXT,
    "v.vec": TEXT,
    "glove.txt": GLOVE,
    "v.bin": BINARY,
    "no-feed.bin": BINARY.replace(b"\n", b"").replace(b"3 2", b"3 2\n", 1),
    "v.txt.gz": gzip.compress(TEXT, mtime=0),
    "v.bin.gz": gzip.compress(BINARY, mtime=0),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_the_usual_files_are_read(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(SAMPLES[name])
    words, table = read_vectors(tmp_path / name)
    assert words == WORDS
    np.testing.assert_array_equal(table, TABLE)


@pytest.mark.parametrize(
    ("name", "header", "wanted"),
    [("v.txt", True, TEXT.replace(b" \n", b"\n")), ("v.txt", False, GLOVE), ("v.bin", True, BINARY)],
)
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_the_bytes_written_are_the_formats(name: str, header: bool, wanted: bytes, ending: str, tmp_path: Path) -> None:
    file = tmp_path / f"{name}{ending}"
    write_vectors(file, WORDS, TABLE, header=header)
    data = file.read_bytes()
    assert (gzip.decompress(data) if ending else data) == wanted
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


LETTERS = st.characters(exclude_categories=["Z", "C"])
WORD = st.text(LETTERS, min_size=1, max_size=6).filter(lambda word: len(word.split()) == 1)
ROW = st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=3, max_size=3)


@given(
    rows=st.dictionaries(WORD, ROW, min_size=1, max_size=5),
    ending=st.sampled_from([".txt", ".bin", ".txt.gz"]),
    header=st.booleans(),
)
def test_any_words_and_numbers_come_back(
    rows: dict[str, list[float]], ending: str, header: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("vectors") / f"v{ending}"
    table = np.array(list(rows.values()), dtype=np.float32)
    write_vectors(file, list(rows), table, header=header or ending == ".bin")
    words, found = read_vectors(file)
    assert words == list(rows)
    np.testing.assert_array_equal(found, table)


def test_words_with_spaces_are_read_as_glove_has_them_and_left_out_when_written(tmp_path: Path) -> None:
    (tmp_path / "g.txt").write_text("at 1 2\n. . . 3 4\n")
    words, table = read_vectors(tmp_path / "g.txt")
    assert words == ["at", ". . ."]
    with pytest.warns(UserWarning, match="white space: 1"):
        write_vectors(tmp_path / "w.txt", words, table)
    assert (tmp_path / "w.txt").read_text() == "1 2\nat 1.0 2.0\n"


def test_the_first_of_a_word_that_stands_twice_is_taken(tmp_path: Path) -> None:
    (tmp_path / "g.txt").write_text("a 1\nb 2\na 3\n")
    with pytest.warns(UserWarning, match="repeated words: 1"):
        words, table = read_vectors(tmp_path / "g.txt")
    assert (words, table.tolist()) == (["a", "b"], [[1.0], [2.0]])


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("v.txt", b"", "v.txt:1|contains no word vectors"),
        ("v.txt", b"just words here\n", r"v.txt:1 is not a word followed by 2 numbers"),
        ("v.txt", b"2 2\na 1 2\nb 1\n", r"v.txt:3 is not a word followed by 2 numbers: 'b 1'"),
        ("v.txt", b"3 2\na 1 2\nb 1 2\n", "declares 3 words but contains 2"),
        ("v.txt", b"a 1 nan\n", "the vector of 'a' contains a number that is not finite"),
        ("v.bin", BINARY[:-6], "truncated: word 3 of 3"),
        ("v.bin", b"no header", "does not begin with the word count"),
        ("v.bin", b"1 1\n\xff\xfe " + struct.pack("<f", 1.0), "word 1 is not UTF-8"),
        ("v.txt.gz", gzip.compress(TEXT, mtime=0)[:-12], "truncated"),
    ],
)
def test_what_is_damaged_is_a_sentence(name: str, data: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(QkvError, match=said):
        read_vectors(tmp_path / name)


def test_nothing_half_written(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("kept")
    with pytest.raises(AttributeError):
        write_vectors(tmp_path / "v.txt", ["a", None], TABLE[:2])  # type: ignore[list-item]
    assert (tmp_path / "v.txt").read_text() == "kept"
    assert len(list(tmp_path.iterdir())) == 1
    with pytest.raises(UsageError, match="existing folder"):
        write_vectors(tmp_path / "nowhere" / "v.txt", WORDS, TABLE)
    with pytest.raises(UsageError, match="always has the header"):
        write_vectors(tmp_path / "v.bin", WORDS, TABLE, header=False)


def test_a_file_is_a_model(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_bytes(TEXT)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = qkv.load(tmp_path / "v.txt", device="cpu")
    with pytest.warns(UserWarning, match="unknown to this model, such as never seen"):
        found = model.embed(["The", "café the", "never seen", ""])
    unit = found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-9)
    both = TABLE[0] + TABLE[1]
    np.testing.assert_allclose(unit[0], TABLE[0] / np.linalg.norm(TABLE[0]), atol=1e-6)
    np.testing.assert_allclose(unit[1], both / np.linalg.norm(both), atol=1e-6)
    assert not found[2:].any()
    model.save(tmp_path / "folder")
    np.testing.assert_array_equal(qkv.load(tmp_path / "folder", device="cpu").embed(["café"]), model.embed(["café"]))
