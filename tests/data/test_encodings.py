"""Encodings: what is written in one of them is read back, guesses are stated, and what is no text is an error."""

import csv
import io
import tempfile
import warnings
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.common.errors import QkvError, UsageError
from qkv.data.encodings import Guessed
from qkv.data.files import read_lines, read_text
from qkv.data.labelled import classified
from qkv.data.table_readers import read_csv

WORDS = ["naïve", "café", "Übung", "dog", "it's", 'said "yes"', "a; b", "x | y", "one, two", "3,5", "tab\there"]
NAMED = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "cp1252"]
ANY = st.characters(codec="utf-8", exclude_characters="\r\0")
CELLS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)


def lines(path, **options):
    return [text for _, text in read_lines(path, **options)]


@pytest.mark.parametrize("encoding", NAMED)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_every_encoding_is_detected_or_named(tmp_path, encoding, end):
    path, wanted = tmp_path / "a.txt", ["The plain first line", "naïve café", "", "last"]
    path.write_bytes("".join(line + end for line in wanted).encode(encoding))
    assert lines(path, encoding=encoding) == wanted
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert lines(path) == wanted
    marked = encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-32")
    assert [str(one.message).partition(";")[0] for one in said] == (
        [] if marked else [f"{path} is not UTF-8: it is read as {encoding.replace('latin-1', 'cp1252')}"]
    )


def test_the_guess_is_one_line_that_names_the_key(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("text,label\nschön,a\nhäßlich,b\nnaïve “quotes”,a\n".encode("cp1252"))
    with pytest.warns(Guessed) as said:
        assert [example.text for example in classified(path)] == ["schön", "häßlich", "naïve “quotes”"]
    wanted = f"{path} is not UTF-8: it is read as cp1252; if letters look wrong, set data.encoding to the encoding"
    assert {str(one.message) for one in said} == {f"{wanted} of the file"}
    assert next(classified(path, encoding="cp1252")).text == "schön"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            "für\n".encode() + b"n\xe4chste\n",
            ":2: byte 0xe4 at offset 6 is not UTF-8; set data.encoding to the encoding",
        ),
        (b"na\xefve\n\x81\n", ":2: byte 0x81 at offset 6 is not cp1252; set data.encoding to the encoding of the file"),
        ("Привет, мир".encode("cp1251"), ":1: the text at offset 0 is neither UTF-8 nor cp1252; set data.encoding to"),
        (b"abc\n\xe9\x01\x02\x03", ":2: the file is not text: it has the byte 0x01"),
    ],
)
def test_what_cannot_be_guessed_is_an_error_with_the_place(tmp_path, data, said):
    (tmp_path / "a.txt").write_bytes(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Guessed)
        with pytest.raises(QkvError) as caught:
            lines(tmp_path / "a.txt")
    assert str(caught.value).startswith(f"{tmp_path}/a.txt{said}")


def test_other_scripts_are_read_where_they_are_named(tmp_path):
    for encoding, text in (("cp1251", "Привет"), ("shift_jis", "こんにちは\n世界"), ("gb18030", "你好")):
        (tmp_path / "a.txt").write_bytes(text.encode(encoding))
        assert read_text(tmp_path / "a.txt", encoding) == text


@pytest.mark.parametrize("name", ["utf-9", "base64", "\0", ""])
def test_an_unknown_encoding_is_wrong_usage(tmp_path, name):
    (tmp_path / "a.txt").write_text("a")
    if not name:
        assert lines(tmp_path / "a.txt", encoding=name) == ["a"]
        return
    with pytest.raises(UsageError, match=r"data\.encoding: unknown encoding .*; use one such as utf-8, utf-16"):
        lines(tmp_path / "a.txt", encoding=name)
    (tmp_path / "a.txt").write_bytes(b"a\xff\n")
    with pytest.raises(QkvError, match=r"a\.txt:1: not ascii .*; set data\.encoding"):
        lines(tmp_path / "a.txt", encoding="ascii")


def test_workbooks_and_pdfs_are_named(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"PK\x03\x04" + bytes(range(256)))
    with pytest.raises(UsageError, match=r"a\.csv is not text but an Excel workbook or a zip archive: save it as CSV"):
        lines(tmp_path / "a.csv")
    (tmp_path / "a.xlsx").write_bytes(b"PK\x03\x04")
    with pytest.raises(UsageError, match=r"a\.xlsx is an Excel workbook: save it as CSV"):
        list(classified(tmp_path / "a.xlsx"))


@given(
    st.lists(st.tuples(CELLS, CELLS, st.sampled_from(["good", "bad"])), min_size=1, max_size=12),
    st.sampled_from([",", ";", "\t", "|"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(NAMED),
)
def test_any_table_of_the_csv_module_is_read_back(rows, delimiter, quoting, end, encoding):
    """With a header: the first line alone tells the delimiter, whatever the texts hold."""
    table = [["first", "second", "label"], *map(list, rows)]
    written = io.StringIO()
    csv.writer(written, delimiter=delimiter, quoting=quoting, lineterminator=end).writerows(table)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", Guessed)
        path = Path(folder) / "a.csv"
        path.write_bytes(written.getvalue().encode(encoding))
        assert [row for _, row in read_csv(str(path))] == table


@given(
    st.lists(
        st.tuples(st.text(st.characters(codec="utf-8", exclude_characters="\r\0")), st.text("ab ,;|'\"\\\t")),
        min_size=1,
    ),
    st.sampled_from([",", ";", "\t", "|"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.sampled_from(['"', "'"]),
)
def test_any_text_is_read_back_where_every_cell_or_the_header_is_clear(rows, delimiter, quoting, quote):
    table = [["text", "label"], *([text + "x", label + "y"] for text, label in rows)]
    written = io.StringIO()
    quoting = csv.QUOTE_ALL if quote == "'" else quoting
    csv.writer(written, delimiter=delimiter, quoting=quoting, quotechar=quote, lineterminator="\n").writerows(table)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.csv"
        path.write_text(written.getvalue(), encoding="utf-8-sig")
        assert [row for _, row in read_csv(str(path))] == table
