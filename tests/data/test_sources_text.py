"""Documents and parallel text; that nothing grows with the file; the split."""

import gzip
import tracemalloc
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.common.errors import UsageError
from qkv.data.bad_rows import BadRows
from qkv.data.documents import documents
from qkv.data.examples import Document, Parallel
from qkv.data.files import digest_of, expand, stored_file
from qkv.data.labelled import classified
from qkv.data.parallel import parallel
from qkv.data.split import held_out, part_of, sentence_key
from qkv.data.tagged import tagged
from tests.data.messages import message


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(name, text):
        (tmp_path / name).write_text(text)
        return name

    return write


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


def test_documents_of_a_table_are_its_texts_without_the_labels(write):
    table = write("a.csv", 'label,Review,note\n1,"one\ntwo",x\n0,three,y\n')
    assert [d.text for d in documents(table)] == ["one\ntwo", "three"]
    assert [d.text for d in documents(table, column="note")] == ["x", "y"]
    bare = write("b.tsv", "1\tone\n0\t\n")
    assert message(documents(bare)).startswith(
        "b.tsv:1: cannot tell which column holds the text; set data.text to its name"
    )
    skipped = BadRows()
    assert list(documents(bare, column="#1", bad="skip", skipped=skipped)) == [Document("one", "b.tsv:1")]
    assert skipped.reasons == ["b.tsv:2: the document is empty"]
    assert message(documents(table, column="body")) == "unknown column of a.csv:1 'body' (allowed: label, Review, note)"
    lines = write("c.jsonl", '{"text": "one", "label": 1}\n')
    assert list(documents(lines)) == [Document("one", "c.jsonl:1")]


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


@pytest.mark.parametrize(
    ("left", "right", "extra"),
    [
        (3, 5, "lines 4 to 5 of a.de have"),
        (5, 3, "lines 4 to 5 of a.en have"),
        (0, 2, "lines 1 to 2 of a.de have"),
        (5, 4, "line 5 of a.en has"),
    ],
)
def test_lines_without_a_partner_are_said(write, left, right, extra):
    pair = [write("a.en", "x\n" * left), write("a.de", "y\n" * right)]
    expected = f"a.en has {left} lines, a.de has {right}: {extra} no partner"
    assert message(parallel(pair)) == expected
    assert message(parallel(pair, bad="skip")) == expected


def test_empty_files_and_wrong_bytes_are_said_with_their_names(write, tmp_path):
    assert message(parallel([write("a.en", ""), write("a.de", "")])) == "a.en and a.de are empty"
    assert message(parallel(write("a.tsv", ""))) == "a.tsv contains no rows"
    (tmp_path / "b.de").write_bytes("für\n".encode() + b"zw\xffei\n")
    said = message(parallel([write("b.en", "one\ntwo\n"), "b.de"]))
    assert said.startswith("b.de:2: byte 0xff at offset 7 is not UTF-8")


@pytest.mark.parametrize("text", ["one\teins\ntwo\tzwei\n", "one\teins\tCC-BY 1\ntwo\tzwei\tCC-BY 2\n"])
@pytest.mark.parametrize("columns", [None, ("#0", "#1")])
def test_a_plain_text_of_columns_is_a_table(write, text, columns):
    pairs = [(pair.source, pair.target) for pair in parallel([write("a.txt", text)], columns=columns)]
    assert pairs == [("one", "eins"), ("two", "zwei")]


SOURCES_OF_PARTS = [f"Sentence number {i}." for i in range(1500)]


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """An archive as Tatoeba's: sources with one to three translations, their variants, and a file about it all."""
    monkeypatch.chdir(tmp_path)
    rows = [(source, f"Satz {i}.{j}") for i, source in enumerate(SOURCES_OF_PARTS) for j in range(1 + i % 3)]
    rows += [(f"  {source.upper().removesuffix('.')}  !", "Ein anderer.") for source in SOURCES_OF_PARTS]
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("_about.txt", "about\tit")
        archive.writestr("deu.txt", "".join(f"{source}\t{target}\n" for source, target in rows))
    return rows


def test_parts_share_no_source_and_lose_none(corpus):
    parts = {part: list(parallel([f"a.zip#{part}"])) for part in ("train", "valid", "test")}
    keys = {part: {sentence_key(pair.source) for pair in pairs} for part, pairs in parts.items()}
    assert set.union(*keys.values()) == {sentence_key(source) for source in SOURCES_OF_PARTS}
    assert sum(map(len, keys.values())) == len(SOURCES_OF_PARTS)  # no key is in two parts
    for part in ("valid", "test"):
        assert 5 <= len(parts[part]) == len(keys[part]) <= 30  # about 1 %, each source once
        first = {sentence_key(source): target for source, target in reversed(corpus)}
        assert all(pair.target == first[sentence_key(pair.source)] for pair in parts[part])
    kept = [(source.strip(), target) for source, target in corpus if sentence_key(source) in keys["train"]]
    assert [(pair.source.strip(), pair.target) for pair in parts["train"]] == kept
    assert len(list(parallel(["a.zip"]))) == len(corpus)


def test_parts_of_two_files_and_of_several_tables(corpus, write):
    write("a.en", "".join(f"{source}\n" for source, _ in corpus))
    write("a.de", "".join(f"{target}\n" for _, target in corpus))
    aligned = [(pair.source, pair.target) for pair in parallel(["a.en#valid", "a.de#valid"])]
    assert aligned == [(pair.source, pair.target) for pair in parallel(["a.zip!deu.txt#valid"])]
    several = list(parallel(["a.zip#valid", "a.zip#test", "a.zip#valid"]))
    assert len(several) == sum(len(list(parallel([f"a.zip#{part}"]))) for part in ("valid", "test"))
    with pytest.raises(UsageError, match="the same part of both"):
        parallel(["a.en#valid", "a.de"])


@given(st.text(max_size=30), st.sampled_from(["", " ", ".", "!", " ?", "..."]))
def test_case_space_and_final_marks_do_not_change_the_part(source, mark):
    assert part_of(f" {source}{mark}") == part_of(source)
    assert part_of(source) in ("train", "valid", "test")
    assert source.isascii() is False or part_of(source.upper()) == part_of(source)


def test_a_part_with_nothing_in_it_and_a_part_that_does_not_exist(write):
    write("a.tsv", "one\teins\n")
    assert part_of("one") == "train"
    assert message(parallel(["a.tsv#test"])) == "a.tsv#test is empty: no source sentence of the file is in that part"
    assert message(parallel(["b.tsv#test"])) == "b.tsv does not exist"
    write("c.tsv#test", "two\tzwei\n")  # a file with such a name is meant itself
    assert [pair.source for pair in parallel(["c.tsv#test"], format="tsv")] == ["two"]


def test_names_and_identities_of_parts(write):
    write("a.tsv", "one\teins\n")
    write("b.tsv", "one\teins\n")
    assert expand("*.tsv#valid") == ["a.tsv#valid", "b.tsv#valid"]
    assert len({digest_of("a.tsv"), digest_of("a.tsv#train"), digest_of("a.tsv#valid")}) == 3
    with pytest.raises(UsageError, match=r"c\.tsv does not exist"):
        digest_of("c.tsv#valid")
    for path in ("a.tsv", "a.tsv#train", "a.zip!b.txt#test", "a.zip#valid"):
        assert str(stored_file(path)) == path[:5]


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
        ("a.csv", "en,de\none,eins\ntwo,zwei\n", None),
        ("a.csv", "Source,Target\none,eins\ntwo,zwei\n", None),
        ("a.csv", "id,Target ,Source\n1,eins,one\n2,zwei,two\n", None),
        ("a.csv", "id,en-GB,deu_Latn,score\n1,one,eins,5\n2,two,zwei,4\n", None),
        ("a.tsv", "English\tGerman\none\teins\ntwo\tzwei\n", None),
        ("a.tsv", "text_en\tsentence_de\none\teins\ntwo\tzwei\n", None),
        ("a.txt", "en\tde\none\teins\ntwo\tzwei\n", None),
        ("a.jsonl", '{"id": 1, "en": "one", "de": "eins"}\n{"id": 2, "en": "two", "de": "zwei"}\n', None),
        ("a.jsonl", '{"en": "one", "de": "eins"}\n{"de": "zwei", "en": "two"}\n', None),
        ("a.jsonl", '{"i": 1, "en": "one", "de": "eins"}\n{"i": 2, "en": "two", "de": "zwei"}\n', ("en", "de")),
        ("a.jsonl", '{"translation": {"en": "one", "de": "eins"}}\n{"translation": {"en": "two", "de": "zwei"}}', "ed"),
    ],
)
def test_tables_of_pairs(write, name, text, columns):
    columns = ("en", "de") if columns == "ed" else columns
    pairs = [(pair.source, pair.target) for pair in parallel(write(name, text), columns=columns)]
    assert pairs == [("one", "eins"), ("two", "zwei")]


@pytest.mark.parametrize(
    "first",
    [("It is.", "Es ist."), ("Go", "Geh"), ("no", "no"), ("German is fun", "German"), ("it", "er"), ("en", "")],
)
def test_a_first_pair_is_no_header(write, first):
    rows = [list(first), ["two", "zwei"]]
    found = parallel(write("a.tsv", "".join("\t".join(row) + "\n" for row in rows)), bad="skip", skipped=BadRows())
    assert [[pair.source, pair.target] for pair in found] == [row for row in rows if all(row)]


def test_tables_with_bad_rows_and_unclear_columns(write):
    path = write("a.csv", "en,de,fr\none,eins,un\n")
    reason = "set data.text and data.second to two columns, source and target (of: en, de, fr)"
    assert message(parallel(path)) == f"a.csv:1: {reason}"
    assert [pair.target for pair in parallel(path, columns=("en", "fr"))] == ["un"]
    path = write("a.tsv", "one\teins\ntwo\n")
    assert message(parallel(path)) == "a.tsv:2: the row has 1 cell, so there is no column #1"
    path = write("a.jsonl", '{"en": "a", "de": "b", "fr": "c"}\n')
    assert message(parallel(path)) == f"a.jsonl:1: {reason}"


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
