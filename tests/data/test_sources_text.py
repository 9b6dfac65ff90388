"""Documents and parallel text; that nothing grows with the file; the split."""

import gzip
import tracemalloc
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.common.errors import QkvError, UsageError
from qkv.data.examples import Document, Parallel
from qkv.data.sources import SOURCES, BadRows, classified, documents, held_out, parallel, tagged


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(name, text):
        (tmp_path / name).write_text(text)
        return name

    return write


def message(examples):
    with pytest.raises(QkvError) as caught:
        list(examples)
    return str(caught.value)


def test_documents_by_line_by_block_and_by_file(write):
    path = write("a.txt", "\none\n two\n \n\nthree\nfour")
    assert list(documents(path)) == [
        Document("one", "a.txt:2"),
        Document(" two", "a.txt:3"),
        Document("three", "a.txt:6"),
        Document("four", "a.txt:7"),
    ]
    assert list(documents(path, unit="blank")) == [
        Document("one\n two", "a.txt:2"),
        Document("three\nfour", "a.txt:6"),
    ]
    assert list(documents(path, unit="file")) == [Document("\none\n two\n \n\nthree\nfour", "a.txt:1")]


@given(st.lists(st.sampled_from(["", " ", "a", "b c"]), max_size=12))
def test_blocks_hold_the_lines_between_blank_ones(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("blocks") / "a.txt"
    path.write_text("".join(line + "\n" for line in lines))
    found = list(documents(path, unit="blank"))
    assert [line for document in found for line in document.text.split("\n")] == [
        line for line in lines if line.strip()
    ]
    for document in found:
        first = int(document.where.rsplit(":", 1)[1]) - 1
        size = document.text.count("\n") + 1
        assert lines[first : first + size] == document.text.split("\n")
        assert first == 0 or not lines[first - 1].strip()
        assert first + size == len(lines) or not lines[first + size].strip()


def test_an_empty_file_is_a_bad_document(write):
    write("a.txt", "x")
    write("b.txt", " \n")
    assert message(documents("*.txt", unit="file")) == "b.txt:1: the document is empty"
    skipped = BadRows()
    assert len(list(documents("*.txt", unit="file", bad="skip", skipped=skipped))) == 1
    assert skipped.count == 1
    assert list(documents("b.txt")) == []


def test_wrong_arguments_are_said_at_once():
    with pytest.raises(UsageError, match=r"unknown unit 'page' \(allowed: line, blank, file\)"):
        documents("a.txt", unit="page")
    with pytest.raises(UsageError, match="unknown policy"):
        documents("a.txt", bad="page")
    with pytest.raises(UsageError, match="two columns, source and target, got 3"):
        parallel("a.tsv", columns=(0, 1, 2))
    for paths in ("a.en", ["a.en"], ["a", "b", "c"]):
        with pytest.raises(UsageError, match="two files, source first, or a table"):
            parallel(paths)


def test_two_files_line_by_line(write):
    pair = [write("a.en", "one\ntwo\n"), write("a.de", "eins\r\nzwei")]
    assert list(parallel(pair)) == [Parallel("one", "eins", "a.en:1"), Parallel("two", "zwei", "a.en:2")]


def test_a_pattern_does_not_tell_which_file_is_the_source(write):
    write("a.en", "one")
    write("a.de", "eins")
    with pytest.raises(UsageError, match="source first"):
        parallel("a.*")


@pytest.mark.parametrize(("left", "right"), [(3, 5), (5, 3), (0, 2), (4, 3)])
def test_different_numbers_of_lines_are_both_said(write, left, right):
    pair = [write("a.en", "x\n" * left), write("a.de", "y\n" * right)]
    expected = f"a.en has {left} lines, a.de has {right}; parallel files have as many"
    assert message(parallel(pair)) == expected
    assert message(parallel(pair, bad="skip")) == expected


def test_an_empty_side_is_a_bad_row(write):
    pair = [write("a.en", "one\n\nthree\n"), write("a.de", "eins\nzwei\n \n")]
    assert message(parallel(pair)) == "a.en:2: the source side is empty"
    skipped = BadRows()
    assert len(list(parallel(pair, bad="skip", skipped=skipped))) == 1
    assert skipped.reasons == ["a.en:2: the source side is empty", "a.en:3: the target side is empty"]


@pytest.mark.parametrize(
    ("name", "text", "columns"),
    [
        ("a.tsv", "one\teins\tCC-BY\ntwo\tzwei\n", None),
        ("a.tsv", "source\ttarget\none\teins\ntwo\tzwei\n", None),
        ("a.tsv", "id\ttgt\tsrc\n1\teins\tone\n2\tzwei\ttwo\n", None),
        ("a.tsv", "de\ten\neins\tone\nzwei\ttwo\n", ("en", "de")),
        ("a.csv", "eins,one\nzwei,two\n", ("#1", 0)),
        ("a.jsonl", '{"en": "one", "de": "eins"}\n{"de": "zwei", "en": "two"}\n', None),
        ("a.jsonl", '{"i": 1, "en": "one", "de": "eins"}\n{"i": 2, "en": "two", "de": "zwei"}\n', ("en", "de")),
        ("a.jsonl", '{"translation": {"en": "one", "de": "eins"}}\n{"translation": {"en": "two", "de": "zwei"}}', "ed"),
    ],
)
def test_tables_of_pairs(write, name, text, columns):
    columns = ("en", "de") if columns == "ed" else columns
    pairs = [(pair.source, pair.target) for pair in parallel(write(name, text), columns=columns)]
    assert pairs == [("one", "eins"), ("two", "zwei")]


def test_tables_with_bad_rows_and_unclear_columns(write):
    path = write("a.tsv", "one\teins\ntwo\n")
    assert message(parallel(path)) == "a.tsv:2: 1 cells, but column #1 is asked for"
    path = write("a.jsonl", '{"en": "a", "de": "b", "fr": "c"}\n')
    assert message(parallel(path)) == "a.jsonl:1: give the two columns of source and target (en, de, fr)"


def test_a_member_of_an_archive_as_a_table(write, tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("fra.txt", "Go.\tVa !\n")
    assert list(parallel("a.zip!fra.txt", format="tsv")) == [Parallel("Go.", "Va !", "a.zip!fra.txt:1")]


LONG = "word " * 80
READS = {
    "documents": lambda path: documents(path),
    "blocks": lambda path: documents(path, unit="blank"),
    "tsv": lambda path: classified(path, text=1, label=0, format="tsv"),
    "csv": lambda path: classified(path, text=0, label=0, format="csv"),
    "parallel": lambda path: parallel([path, path], bad="skip", skipped=BadRows()),
    "tagged": lambda path: tagged(path),
}


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("source", READS)
def test_memory_does_not_grow_with_the_file(tmp_path, source, ending):
    def peak(rows):
        path = tmp_path / f"{rows}.txt{ending}"
        with gzip.open(path, "wt") if ending else open(path, "w") as file:
            file.writelines(f"name{i}\t{LONG}{i}\n\n" for i in range(rows))
        tracemalloc.start()
        count = sum(1 for _ in READS[source](path))
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert count == rows
        return size

    peak(10)  # what is made once and kept
    assert peak(3000) < 1.2 * peak(300) + 20_000  # the larger file has 1.2 million characters


@given(st.text(), st.floats(0, 1), st.integers(0, 5))
def test_a_larger_share_holds_out_a_superset(key, share, seed):
    if held_out(key, share / 2, seed):
        assert held_out(key, share, seed)
    assert held_out(key, share, seed) == held_out(key, share, seed)
    assert not held_out(key, 0, seed)
    assert held_out(key, 1, seed)


def test_shares_are_kept_and_seeds_differ():
    keys = [str(i) for i in range(4000)]
    parts = [{key for key in keys if held_out(key, 0.1, seed)} for seed in range(3)]
    assert all(300 < len(part) < 500 for part in parts)
    assert len(parts[0] & parts[1]) < 100
    # A split must be the same on every machine and in every version: this is a promise, not a photograph.
    assert [key for key in keys[:40] if held_out(key, 0.1, 0)] == ["6", "10", "11", "17", "28", "32"]
    with pytest.raises(UsageError, match=r"from 0 to 1, got 1\.5"):
        held_out("a", 1.5, 0)


def test_every_source_is_in_the_table_by_its_own_name():
    assert all(name == source.__name__ for name, source in SOURCES.items())
    assert len(SOURCES) == 7
