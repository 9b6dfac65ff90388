"""Small files that unpack to gigabytes are refused in a sentence, and only regular files are read from folders."""

import bz2
import gzip
import io
import json
import lzma
import os
import struct
import threading
import tracemalloc
import zipfile
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from PIL import Image

from qkv.checkpoints.word_vectors import read_vectors
from qkv.common.errors import QkvError, UsageError
from qkv.data import json_text, limits, parquet, parquet_pages, pixel_arrays
from qkv.data.bad_rows import BadRows
from qkv.data.documents import documents
from qkv.data.files import expand, read_lines, read_text
from qkv.data.images import images
from qkv.data.labelled import classified
from qkv.data.questions import questions
from qkv.data.tagged import tagged
from qkv.evaluation.word_files import holds_analogies
from qkv.predict.search import Index
from tests.data.messages import message

MIB = 1 << 20


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def vectors(path):
    yield from read_vectors(path)


def zipped(data):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.txt", data)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("a.txt", bytes),
        ("a.txt.gz", gzip.compress),
        ("a.txt.bz2", bz2.compress),
        ("a.txt.xz", lzma.compress),
        ("a.txt.zst", zstandard.compress),
        ("a.zip", zipped),
    ],
)
def test_a_line_has_a_limit_in_every_compression(folder, name, pack):
    (folder / name).write_bytes(pack(b"one\n" + b"x" * MIB + b"\n"))
    assert len(list(read_lines(name, MIB + 1))) == 2
    assert message(read_lines(name, MIB)) == f"{name}:2: the line is larger than 1 MiB, the limit for one line"


def test_a_line_that_never_ends_is_not_read_to_its_end(folder):
    stream = zstandard.ZstdCompressor().compressobj()
    with (folder / "a.txt.zst").open("wb") as file:
        for _ in range(1024):
            file.write(stream.compress(bytes(MIB)))
        file.write(stream.flush())
    assert (folder / "a.txt.zst").stat().st_size < 100_000  # of 1 GiB
    tracemalloc.start()
    assert message(documents("a.txt.zst")).startswith("a.txt.zst:1: the line is larger than 128 MiB")
    assert tracemalloc.get_traced_memory()[1] < 400 * MIB
    tracemalloc.stop()


def test_a_chunk_of_zstd_unpacks_to_little_at_a_time(folder):
    (folder / "a.txt.zst").write_bytes(zstandard.compress(b"\n" * (64 * MIB)))
    tracemalloc.start()
    assert sum(1 for _ in zip(read_lines("a.txt.zst"), range(10), strict=False)) == 10
    assert tracemalloc.get_traced_memory()[1] < 40 * MIB
    tracemalloc.stop()


def test_a_file_that_is_read_whole_has_a_limit(folder, monkeypatch):
    monkeypatch.setattr("qkv.data.files.WHOLE", 10)
    (folder / "a.txt").write_text("one\ntwo\nthree\n")
    assert message(documents("a.txt", unit="file")) == "a.txt: the file is larger than 10 bytes, the limit for one file"
    with pytest.raises(QkvError, match=r"a\.txt: the file is larger"):
        read_text("a.txt")


def test_rows_of_tables_have_a_limit(folder, monkeypatch):
    monkeypatch.setattr("qkv.data.table_readers.ROW", 100)
    for name, row in (
        ("a.tsv", "text\tlabel\n"),
        ("a.csv", "text,label\n"),
        ("a.jsonl", '{"text": "a", "label": 1}\n'),
    ):
        (folder / name).write_text(row * 2 + "x" * 101)
        assert message(classified(name)) == f"{name}:3: the line is larger than 100 bytes, the limit for one line"


def test_json_has_a_limit_of_objects(folder, monkeypatch):
    monkeypatch.setattr(json_text, "CONTAINERS", 50)
    rows = [{"text": "a", "label": "b"}, {"text": "c", "label": [[]] * 50}]
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    reason = "not JSON that can be read: it contains more than 50 objects and arrays"
    assert message(classified("a.jsonl")) == f"a.jsonl:2: {reason}"
    skipped = BadRows()
    assert len(list(classified("a.jsonl", bad="skip", skipped=skipped))) == skipped.count == 1
    (folder / "a.json").write_text(json.dumps({"data": [[]] * 50}))
    assert message(questions("a.json")) == f"a.json:1: {reason}"


def test_a_dictionary_of_parquet_is_not_repeated_in_memory(folder):
    text = "x" * (4 * MIB)
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 256, pa.int32()), pa.array([text]))
    # Without Arrow's own schema, the column is one of strings.
    pq.write_table(
        pa.table({"text": column, "label": ["a"] * 256}), "a.parquet", compression="zstd", store_schema=False
    )
    assert pq.read_schema("a.parquet").field("text").type == pa.string()
    assert (folder / "a.parquet").stat().st_size < 3000  # of 1 GiB
    before = pa.total_allocated_bytes()
    most = 0
    for example in classified("a.parquet"):
        assert len(example.text) == 4 * MIB
        most = max(most, pa.total_allocated_bytes() - before)
    assert most < 100 * MIB


def test_a_row_of_parquet_has_a_limit(monkeypatch):
    monkeypatch.setattr(parquet, "ROW", 1000)
    lists = pa.array([["x" * 400] * 2, ["x" * 400] * 3, None, []])
    pq.write_table(pa.table({"text": ["a", "b", "c", "d" * 900], "label": [1, 2, 3, 4], "more": lists}), "a.parquet")
    assert message(classified("a.parquet")) == "a.parquet:2: the row is larger than 1000 bytes, the limit for one row"
    skipped = BadRows()
    assert [len(row.text) for row in classified("a.parquet", bad="skip", skipped=skipped)] == [1, 1, 900]
    assert skipped.count == 1


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_a_page_of_parquet_has_a_limit(folder, monkeypatch, version):
    monkeypatch.setattr(parquet_pages, "PAGE", MIB)
    table = pa.table({"text": ["x" * (2 * MIB)], "label": ["a"]})
    pq.write_table(table, "a.parquet", compression="zstd", use_dictionary=False, data_page_version=version)
    assert (folder / "a.parquet").stat().st_size < 10_000
    said = message(classified("a.parquet"))
    assert said.startswith("a.parquet: column 'text': a page of ")
    assert said.endswith("the limit is 1,048,576 bytes")


def test_a_run_of_values_of_parquet_has_a_limit(folder):
    values = pa.array(np.zeros(20_000_000, np.int8))
    lists = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    pq.write_table(pa.table({"text": ["a"], "label": ["a"], "more": lists}), "a.parquet")
    assert (folder / "a.parquet").stat().st_size < 10_000
    assert "unpack to 20,000,000 values; the limit is 16,777,216" in message(classified("a.parquet"))


def test_ordinary_parquet_files_pass_all_limits(monkeypatch):
    """Every page is found: pages of a file add up to all its values, whatever is in them."""
    random = np.random.default_rng(0)
    rows = [
        {"text": " ".join(map(str, random.integers(0, 9, 50))), "label": int(i % 3), "more": {"a": [1.5] * (i % 4)}}
        for i in range(3000)
    ]
    for options in ({}, {"data_page_version": "2.0"}, {"compression": "none"}, {"use_dictionary": False}):
        pq.write_table(pa.Table.from_pylist(rows), "a.parquet", row_group_size=700, data_page_size=1000, **options)
        assert [row.text for row in classified("a.parquet")] == [row["text"] for row in rows]
    monkeypatch.setattr(parquet_pages, "PAGE", 100)
    monkeypatch.setattr(parquet_pages, "RATIO", 0)
    assert "unpacks to" in message(classified("a.parquet"))


def test_labels_and_images_of_npz_have_limits(folder, monkeypatch):
    np.savez_compressed("a.npz", images=np.zeros((2, 4, 4), np.uint8), labels=np.zeros(2, np.int64))
    np.savez_compressed("b.npz", images=np.zeros((1, 100, 100), np.uint8), labels=np.zeros(1, np.int64))
    assert len(list(images("a.npz"))) == 2
    monkeypatch.setattr(pixel_arrays, "PIXELS", 1000)
    assert (
        message(images("b.npz")) == "b.npz: an image of 100 x 100 has more than 1,000 pixels, the limit for one image"
    )
    monkeypatch.setattr(pixel_arrays, "LABELS", 10)
    said = "a.npz: the set of labels is larger than 10 bytes, the limit for one set of labels"
    assert message(images("a.npz")) == said


def test_an_npz_header_allocates_nothing(folder):
    """Of the 4.5 GB that the header promises, none are allocated."""
    np.savez("a.npz", images=np.zeros((1, 4, 4), np.uint8), labels=np.zeros(1))
    header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (4500000000,), }"
    array = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
    with zipfile.ZipFile("b.npz", "w") as archive:
        archive.writestr("labels.npy", array)
        archive.writestr("images.npy", array)
    assert message(images("b.npz")).startswith("b.npz: the set of labels is larger than 256 MiB")


def test_an_idx_header_allocates_nothing(folder):
    (folder / "l").write_bytes(struct.pack(">HBBI", 0, 8, 1, 4_000_000_000))
    (folder / "i").write_bytes(struct.pack(">HBB3I", 0, 8, 3, 1, 60_000, 60_000))
    assert message(images(["i", "l"])).startswith("l: the set of labels is larger than 256 MiB")
    (folder / "l").write_bytes(struct.pack(">HBBIB", 0, 8, 1, 1, 0))
    assert message(images(["i", "l"])).startswith("i: an image of 60000 x 60000 has more than 67,108,864 pixels")


def test_only_png_and_jpeg_are_opened(folder):
    """Pillow goes by content: a file with another ending than its format would reach any of its decoders."""
    (folder / "a").mkdir()
    Image.new("L", (4, 4)).save("a/1.png", "PNG")
    Image.new("L", (4, 4)).save("a/2.png", "JPEG")
    Image.new("L", (4, 4)).save("a/3.png", "GIF")
    (folder / "a" / "4.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n")
    skipped = BadRows()
    assert len(list(images(".", bad="skip", skipped=skipped))) == 2
    assert skipped.count == 2
    assert all("cannot identify image file" in reason for reason in skipped.reasons)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [(9000, 9000), (10_000, 10_000), (14_000, 14_000)])
def test_an_image_has_a_limit_of_pixels(folder, size):
    """Below Pillow's warning, between its warning and its error, and above."""
    (folder / "a").mkdir()
    Image.new("1", size).save("a/1.png", "PNG")
    reason = "the image has more than 67,108,864 pixels, the limit for one image"
    assert message(images(".")).endswith(f"a/1.png: {reason}")


def test_word_vectors_have_limits(folder):
    (folder / "a.bin").write_bytes(b"1 1\n" + b"x" * 70_000 + b" \0\0\0\0")
    assert "word 1: the word is larger than 65536 bytes" in message(vectors("a.bin"))
    for name in ("b.bin", "b.txt"):
        (folder / name).write_bytes(b"1 99999999999999\nx 1")
        assert message(vectors(name)) == f"{name} has vectors of size 99,999,999,999,999; the maximum is 1,048,576"
    (folder / "c.txt").write_bytes(b"x" + b" 1" * 2_200_000)
    assert message(vectors("c.txt")).startswith("c.txt:1: the line is larger than 4 MiB")


def test_a_pipe_among_images_is_left_out(folder):
    (folder / "a").mkdir()
    Image.new("L", (4, 4)).save("a/1.png")
    os.mkfifo("a/0.png")
    os.symlink("1.png", "a/2.png")
    assert [image.where.rpartition("/")[2] for image in images(".")] == ["1.png", "2.png"]


def test_a_pipe_is_no_match_of_a_pattern(folder):
    os.mkfifo("a.txt")
    (folder / "b.txt").write_text("b\n")
    assert expand("*.txt") == ["b.txt"]


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("a.tsv", classified),
        ("a.parquet", classified),
        ("a.zip", documents),
        ("a.npz", images),
        ("a.conll", tagged),
    ],
)
def test_a_pipe_that_cannot_be_read_as_a_stream_is_refused(name, read):
    os.mkfifo(name)
    with pytest.raises(UsageError, match="is not a regular file"):
        list(read(name))


def test_a_folder_is_not_mistaken_for_a_pipe(folder):
    (folder / "a.tsv").mkdir()
    with pytest.raises(UsageError, match=r"a\.tsv is a folder, not a file"):
        list(classified("a.tsv"))


def test_word_tests_and_searches_refuse_a_pipe():
    os.mkfifo("a.txt")
    with pytest.raises(UsageError, match="is not a regular file"):
        holds_analogies("a.txt")
    with pytest.raises(UsageError, match="is not a regular file"):
        Index(SimpleNamespace(pooling="mean"), "a.txt")


def test_a_pipe_of_plain_text_is_read_as_a_stream(folder):
    os.mkfifo("a.txt")
    writer = threading.Thread(target=lambda: (folder / "a.txt").write_text("one\ntwo\n"))
    writer.start()
    assert [row.text for row in documents("a.txt")] == ["one", "two"]
    writer.join()


def test_the_limits_leave_room_for_real_data():
    assert limits.LINE > 100_000_000  # text8
    assert limits.WHOLE > 5 * 42_000_000  # SQuAD 2.0
