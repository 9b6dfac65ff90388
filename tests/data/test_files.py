"""Files: every compression, every way to fail, lines and their offsets."""

import bz2
import gzip
import io
import lzma
import os
import sys
import tempfile
import types
import zipfile
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.common.errors import QkvError, UsageError
from qkv.data.files import content_name, digest_of, expand, open_binary, read_lines, read_text

TEXT = "one\ntwo \u2028 zwei\r\n\nüber\n".encode()
LINES = [(1, "one"), (2, "two \u2028 zwei"), (3, ""), (4, "über")]


def zipped(data: bytes, name: str = "a.txt", method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr(name, data)
    return buffer.getvalue()


PACK = {
    "a.txt": bytes,
    "a.txt.gz": gzip.compress,
    "a.TXT.GZ": gzip.compress,
    "a.txt.bz2": bz2.compress,
    "a.txt.xz": lzma.compress,
    "a.zip": zipped,
    "b.zip!a.txt": lambda data: zipped(data, method=zipfile.ZIP_BZIP2),
    "c.zip!a.txt.gz": lambda data: zipped(gzip.compress(data), "a.txt.gz"),
}


@pytest.fixture
def zstandard(monkeypatch):
    """The package with its interface, zlib inside: frames, their ends and what follows them work the same way."""

    class Decompressor:
        def decompressobj(self):
            return zlib.decompressobj(31)

    module = types.SimpleNamespace(ZstdDecompressor=Decompressor, ZstdError=zlib.error)
    monkeypatch.setitem(sys.modules, "zstandard", module)
    monkeypatch.setitem(sys.modules, "compression.zstd", None)


def write(folder: Path, name: str, data: bytes) -> str:
    (folder / name.partition("!")[0]).write_bytes(data)
    return str(folder / name)


@pytest.mark.parametrize("name", PACK)
def test_every_compression_gives_the_same_lines(tmp_path, name):
    path = write(tmp_path, name, PACK[name](TEXT))
    assert list(read_lines(path)) == LINES
    assert list(read_lines(Path(path))) == LINES
    assert read_text(path) == "\n".join(text for _, text in LINES)
    with open_binary(path) as stream:
        assert stream.read(3) == b"one"
        assert stream.read() == TEXT[3:]


def test_zstd_is_read_with_the_package(tmp_path):
    package = pytest.importorskip("zstandard")
    data = TEXT * 5000
    packed = package.ZstdCompressor().compress(data)
    path = write(tmp_path, "a.txt.zst", packed + packed)
    with open_binary(path) as stream:
        assert stream.read() == data + data
    for size in (len(packed) - 3, len(packed) + 5):
        with pytest.raises(QkvError, match=r"a\.txt\.zst is truncated"):
            list(read_lines(write(tmp_path, "a.txt.zst", (packed + packed)[:size])))
    with pytest.raises(QkvError, match=r"a\.txt\.zst cannot be decompressed: "):
        list(read_lines(write(tmp_path, "a.txt.zst", b"no zstd at all")))


@pytest.mark.usefixtures("zstandard")
def test_zstd_frames_follow_each_other(tmp_path):
    data = os.urandom(50_000)
    path = write(tmp_path, "a.zst", gzip.compress(data) + gzip.compress(b"tail"))
    with open_binary(path) as stream:
        assert stream.read() == data + b"tail"


@pytest.mark.usefixtures("zstandard")
@pytest.mark.parametrize("cut", [-1, 10, 0])
def test_a_truncated_zstd_file_is_said(tmp_path, cut):
    path = write(tmp_path, "a.zst", gzip.compress(os.urandom(50_000))[:cut])
    with pytest.raises(QkvError, match=r"a\.zst is truncated"):
        list(open_binary(path))


def test_zstd_without_a_library_names_the_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    path = write(tmp_path, "a.txt.zst", b"")
    with pytest.raises(QkvError) as caught:
        open_binary(path)
    assert str(caught.value) == f"reading {path} needs the package zstandard: pip install zstandard"


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.bz2", "a.txt.xz", "c.zip!a.txt.gz"])
def test_a_truncated_file_is_said(tmp_path, name):
    packed = gzip.compress(TEXT)[:-9] if "!" in name else PACK[name](os.urandom(9000))[:-20]
    path = write(tmp_path, name, zipped(packed, "a.txt.gz") if "!" in name else packed)
    with pytest.raises(QkvError) as caught:
        list(open_binary(path))
    assert str(caught.value) == f"{path} is truncated: its compressed data ends too early"


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.bz2", "a.txt.xz"])
def test_a_file_of_another_kind_is_said(tmp_path, name):
    path = write(tmp_path, name, b"this is plain text, whatever its name says")
    with pytest.raises(QkvError, match="cannot be decompressed: ") as caught:
        list(open_binary(path))
    assert str(caught.value).startswith(path)


def test_a_broken_zip_is_said(tmp_path):
    whole = zipped(os.urandom(5000))
    path = write(tmp_path, "a.zip", whole[:-30])
    with pytest.raises(QkvError, match=r"a\.zip is not a zip archive, or is truncated"):
        open_binary(path)
    damaged = bytearray(whole)
    damaged[100] ^= 255
    with pytest.raises(QkvError, match=r"a\.zip cannot be decompressed"):
        list(open_binary(write(tmp_path, "a.zip", bytes(damaged))))


def test_an_encrypted_zip_is_said(tmp_path):
    data = bytearray(zipped(b"secret"))
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(signature) + flags] |= 1
    with pytest.raises(QkvError, match=r"a\.zip cannot be opened: .*encrypted"):
        open_binary(write(tmp_path, "a.zip", bytes(data)))


def test_a_zip_with_several_members_is_asked_by_name(tmp_path):
    path = str(tmp_path / "a.zip")
    with zipfile.ZipFile(path, "w") as archive:
        archive.mkdir("in")
        archive.writestr("in/b.txt", "b")
        archive.writestr("in/a.txt", "a")
        archive.writestr("c.md", "c")
    assert read_text(f"{path}!in/b.txt") == "b"
    assert expand(f"{path}!in/*.txt") == [f"{path}!in/a.txt", f"{path}!in/b.txt"]
    with pytest.raises(UsageError) as caught:
        open_binary(path)
    members = "(it contains: in/b.txt, in/a.txt, c.md)"
    assert str(caught.value) == f"{path} contains 3 files; choose one with {path}!FILE {members}"
    with pytest.raises(UsageError, match=r"a\.zip has no member 'x' \(it contains: in/b"):
        open_binary(f"{path}!x")
    with pytest.raises(UsageError, match="no file matches"):
        expand(f"{path}!*.csv")


def test_missing_files_and_folders_are_said(tmp_path):
    for name in ("a.txt", "a.zip", "a.zip!b", "a.gz"):
        with pytest.raises(UsageError, match=rf"{tmp_path}/a\.\w+ does not exist$"):
            open_binary(tmp_path / name)
    with pytest.raises(UsageError) as caught:
        list(read_lines(tmp_path))
    assert str(caught.value) == f"{tmp_path} is a folder, not a file; {tmp_path}/* matches the files in it"


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
@pytest.mark.parametrize(
    ("data", "line", "byte", "offset"),
    [
        ("ä\n".encode() + b"c\xe9d\n", 2, "0xe9", 4),
        (b"\xef\xbb\xbfa\r\n\xc3\x28", 2, "0xc3", 6),
        (b"\xef\xbb\xbfa\xe9", 1, "0xe9", 4),
    ],
)
def test_another_encoding_is_said_with_its_offset(tmp_path, name, data, line, byte, offset):
    path = write(tmp_path, name, PACK[name](data))
    with pytest.raises(QkvError) as caught:
        list(read_lines(path))
    said = f"byte {byte} at offset {offset} is not UTF-8; set data.encoding to the encoding of the file"
    expected = f"{path}:{line}: {said}"
    assert str(caught.value) == expected


def test_a_byte_order_mark_is_no_text(tmp_path):
    path = write(tmp_path, "a.txt", b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n")
    assert list(read_lines(path)) == [(1, "a"), (2, "\ufeffb")]


@given(
    st.lists(st.text(st.characters(exclude_characters="\n\0", exclude_categories=["Cs"])), max_size=8), st.booleans()
)
def test_lines_end_at_line_feeds_only(lines, crlf):
    end = "\r\n" if crlf else "\n"
    lines = [line if not line.endswith("\r") else line + "." for line in lines]
    lines = [line.lstrip("\ufeff") for line in lines]
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), "a.txt", "".join(line + end for line in lines).encode())
        assert list(read_lines(path)) == list(enumerate(lines, 1))


@given(st.binary(max_size=60))
def test_offsets_agree_with_decoding_all_at_once(data):
    try:
        whole, start = data.decode(), None
    except UnicodeDecodeError as error:
        whole, start = "", error.start
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), "a.txt", data)
        if start is None:
            assert "\n".join(text for _, text in read_lines(path, encoding="utf-8")).replace("\r", "") == (
                whole.removeprefix("\ufeff").removesuffix("\n").replace("\r", "")
            )
        else:
            with pytest.raises(QkvError, match=f"at offset {start} "):
                list(read_lines(path, encoding="utf-8"))


def test_the_name_inside_tells_the_format(tmp_path):
    assert content_name("a/b.csv.gz") == "a/b.csv"
    assert content_name("a/b.csv") == "a/b.csv"
    assert content_name(write(tmp_path, "a.zip", zipped(b"", "reviews.tsv.xz"))) == "reviews.tsv"
    assert content_name(str(tmp_path / "a.zip!reviews.tsv.xz")) == "reviews.tsv"


def test_patterns_are_expanded_in_order(tmp_path):
    for name in ("b.txt", "a.txt", "c[1].txt", "sub/a.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")

    def at(*names):
        return [str(tmp_path / name) for name in names]

    assert expand(str(tmp_path / "*.txt")) == at("a.txt", "b.txt", "c[1].txt")
    assert expand(tmp_path / "c[1].txt") == at("c[1].txt")
    assert expand(str(tmp_path / "**/a.txt")) == at("a.txt", "sub/a.txt")
    assert expand([tmp_path / "b.txt", str(tmp_path / "s*/*")]) == at("b.txt", "sub/a.txt")
    assert expand(tmp_path / "not-there.txt") == at("not-there.txt")
    assert expand("hf:a*b") == ["hf:a*b"]
    with pytest.raises(UsageError, match=r"no file matches .*\*\.x"):
        expand(str(tmp_path / "*.x"))
    with pytest.raises(UsageError, match="no file is given"):
        expand([])


def test_digests_change_with_name_size_and_time(tmp_path):
    path = Path(write(tmp_path, "a.txt", b"one"))
    first = digest_of(path)
    assert digest_of(str(path)) == first
    os.utime(path, ns=(0, 5))
    timed = digest_of(path)
    path.write_bytes(b"three")
    os.utime(path, ns=(0, 5))
    sized = digest_of(path)
    named = digest_of(path.rename(tmp_path / "b.txt"))
    member = digest_of(write(tmp_path, "a.zip", zipped(b"")) + "!a.txt")
    assert len({first, timed, sized, named, member, digest_of(tmp_path / "a.zip"), digest_of("hf:a")}) == 7
    with pytest.raises(UsageError, match="does not exist"):
        digest_of(path)


def test_a_folder_has_the_digest_of_its_files(tmp_path):
    (tmp_path / "in").mkdir()
    write(tmp_path / "in", "a.txt", b"a")
    first = digest_of(tmp_path)
    assert digest_of(tmp_path) == first
    write(tmp_path / "in", "b.txt", b"b")
    assert digest_of(tmp_path) != first
