"""Labelled tables: every format, headers, usual names, and each bad row with its place."""

import gzip
import json
import sys

import pytest

from qkv.common.errors import UsageError
from qkv.data.bad_rows import BadRows
from qkv.data.examples import Classified, Rated
from qkv.data.labelled import classified, find_columns, rated, sort_labels
from tests.data.messages import message

ROWS = [("good film", "pos"), ('bad, "very" bad', "neg")]


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # so that messages hold short names

    def write(name, text):
        (tmp_path / name).write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return name

    return write


@pytest.mark.parametrize(
    ("name", "text", "second_line"),
    [
        ("a.tsv", 'text\tlabel\ngood film\tpos\nbad, "very" bad\tneg\n', 3),
        ("a.tsv.gz", 'label\tx\ttext\r\npos\t\tgood film\r\nneg\t\tbad, "very" bad\r\n', 3),
        ("a.csv", '\ufefftext,label\n\ngood film,pos\n"bad, ""very"" bad",neg\n', 4),
        ("a.jsonl", '{"text": "good film", "label": "pos"}\n\n{"label": "neg", "text": "bad, \\"very\\" bad"}\n', 3),
    ],
)
def test_every_format_gives_the_same_examples(write, name, text, second_line):
    path = write(name, text)
    examples = list(classified(path))
    assert [(example.text, example.labels) for example in examples] == [(text, (label,)) for text, label in ROWS]
    assert examples[1].where == f"{path}:{second_line}"
    assert examples[1].second is None


def test_label_first_lines(write):
    path = write("stsa.binary.dev", "1 a fine film\n0  dull\n\n2\n")
    skipped = BadRows()
    assert list(classified(path, format="label-first", bad="skip", skipped=skipped)) == [
        Classified("a fine film", None, ("1",), f"{path}:1"),
        Classified("dull", None, ("0",), f"{path}:2"),
    ]
    assert skipped.reasons == [f"{path}:4: the row has 1 cell, so there is no column #1"]


def test_parquet(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = str(tmp_path / "a.parquet")
    parquet.write_table(arrow.table({"text": ["a", "b", None], "label": [0, 1, 1], "stars": [1.5, 2.0, 3.0]}), path)
    skipped = BadRows()
    examples = list(classified(path, bad="skip", skipped=skipped))
    assert examples == [Classified("a", None, ("0",), f"{path}:1"), Classified("b", None, ("1",), f"{path}:2")]
    assert skipped.reasons == [f"{path}:3: the text is empty"]
    assert next(rated(path, label=2)) == Rated("a", None, 1.5, f"{path}:1")
    assert "unknown column of" in message(classified(path, text="txt"))
    (tmp_path / "b.parquet").write_bytes(b"PAR1 no, not at all")
    assert message(classified(tmp_path / "b.parquet")).startswith(f"{tmp_path}/b.parquet is not a Parquet file")
    assert message(classified(tmp_path / "c.parquet")).startswith(f"{tmp_path}/c.parquet does not exist")


def test_parquet_without_the_package_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    expected = "reading a.parquet needs the package pyarrow: pip install pyarrow"
    assert message(classified("a.parquet")) == expected


def test_tsv_has_no_quoting(write):
    path = write("a.tsv", 'text\tlabel\n"open\tx\nshut"\ty\n')
    assert [example.text for example in classified(path)] == ['"open', 'shut"']


def test_a_quoted_csv_cell_may_hold_lines_and_its_row_is_where_it_starts(write):
    path = write("a.csv", 'text,label\r\n"two\r\nlines",a\nnext,b\n')
    assert list(classified(path)) == [
        Classified("two\nlines", None, ("a",), "a.csv:2"),
        Classified("next", None, ("b",), "a.csv:4"),
    ]


def test_long_csv_cells_are_read(write):
    long = "word " * 60_000
    assert next(classified(write("a.csv", f"text,label\n{long},a\n"))).text == long


def test_pairs_and_numbers_of_columns(write):
    path = write("a.csv", '"3","Title","Body, long"\n"4","Other","More"\n')
    expected = Classified("Title", "Body, long", ("3",), "a.csv:1")
    assert next(classified(path, label="#0", text="#1", second="#2")) == expected
    assert next(classified(path, label=0, text=1, second=-1)) == expected
    assert len(list(classified(path, label=0, text=1))) == 2


def test_numbers_of_columns_still_see_a_header_of_usual_names(write):
    path = write("a.tsv", "sentence\tlabel\nfine\t1\n")
    assert [example.text for example in classified(path, text=0, label=1)] == ["fine"]
    assert [example.text for example in classified(path, text=0, label=1, header=False)] == ["sentence", "fine"]
    plain = write("b.tsv", "fine\t1\ndull\t0\n")
    assert [example.text for example in classified(plain, text=0, label=1)] == ["fine", "dull"]
    assert [example.text for example in classified(plain, text=0, label=1, header=True)] == ["dull"]


def test_several_labels(write):
    path = write("a.tsv", "text\tlabel\nx\ta, b\ny\t\n")
    assert [example.labels for example in classified(path, labels_separator=",")] == [("a", "b"), ()]
    lines = [{"text": "x", "label": ["a", "b"]}, {"text": "y", "label": []}, {"text": "z", "label": [1, True]}]
    path = write("a.jsonl", "\n".join(map(json.dumps, lines)))
    assert [example.labels for example in classified(path)] == [("a", "b"), (), ("1", "true")]


def test_rated(write):
    path = write("a.tsv", "s1\ts2\tscore\na\tb\t2.5\nc\td\t-1e3\n")
    assert list(rated(path, text="s1", second="s2", label="score")) == [
        Rated("a", "b", 2.5, "a.tsv:2"),
        Rated("c", "d", -1000.0, "a.tsv:3"),
    ]


@pytest.mark.parametrize(
    ("value", "reason"), [("x", "must be a number, got 'x'"), ("nan", "must be a finite number, got 'nan'")]
)
def test_a_rating_must_be_a_number(write, value, reason):
    assert message(rated(write("a.tsv", f"text\tlabel\na\t{value}\n"))) == f"a.tsv:2: the label {reason}"


@pytest.mark.parametrize(
    ("header", "chosen"),
    [
        ("id\tReview\tSentiment", "text 'Review', label 'Sentiment'"),
        ("label\tstars\tid\ttext", "text 'text', label 'label'"),
        ("index\tsentence1\tsentence2\tlabel", "text 'sentence1', second text 'sentence2', label 'label'"),
        ("Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", "text '#1 String', second text '#2 String', label 'Quality'"),
        ("title\ttext\tclass", "text 'text', label 'class'"),
        ("class\ttitle\tdescription", "text 'title', second text 'description', label 'class'"),
    ],
)
def test_usual_names_are_recognised_and_said(write, header, chosen):
    path = write("a.tsv", header + "\n" + "\t".join("x" for _ in header.split("\t")) + "\n")
    assert str(find_columns(path)) == chosen
    assert len(list(classified(path, text=None, label=None))) == 1


def test_ratings_have_usual_names_of_their_own(write):
    path = write("a.jsonl", '{"label": 1, "stars": 7, "text": "a"}')
    assert find_columns(path, number=True).label == "stars"
    assert next(rated(path, text=None, label=None)).score == 7


def test_no_usual_name_and_nothing_to_tell_by_is_an_error_that_lists_the_columns(write):
    path = write("a.tsv", "foo\tbar\n1\ta\n2\tb\n")
    expected = (
        "a.tsv:1: no column has a common name for the label or repeats a few short values; "
        "choose one with --set data.label=NAME, or by number as in data.label=#0 (columns: foo, bar)"
    )
    assert message(classified(path, text=None, label=None)) == expected


def test_a_wrong_name_is_an_error_with_the_nearest(write):
    path = write("a.tsv", "texts\tlabel\na\tb\n")
    expected = "unknown column of a.tsv:1 'text'; did you mean 'texts'? (allowed: texts, label)"
    assert message(classified(path)) == expected
    assert message(classified(path, text=7, label=1)) == "a.tsv:1: there is no column #7; the columns are #0 to #1"
    assert "give columns by number (#0)" in message(classified(path, text="texts", header=False))


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.tsv", "text\tlabel\na\tb\nx\ty\tz\n", "a.tsv:3: 3 cells where the header has 2"),
        ("a.tsv", "text\tlabel\na\tb\n \tb\n", "a.tsv:3: the text is empty"),
        ("a.tsv", "text\tlabel\na\tb\nc\t \n", "a.tsv:3: the label is empty"),
        ("a.csv", 'text,label\na,b\n"a"x,b\n', "a.csv:3: not CSV: ',' expected after '\"'"),
        ("a.csv", 'text,label\na,b\n"never\nshut,b\n', "a.csv:3: not CSV: unexpected end of data"),
        (
            "a.jsonl",
            '{"text": "a", "label": "b"}\n{"text": \n',
            "a.jsonl:2: not JSON: Expecting value: line 1 column 10 (char 9)",
        ),
        (
            "a.jsonl",
            '{"text": "a", "label": "b"}\n[1, 2]\n',
            "a.jsonl:2: not a JSON object; every row must be one object",
        ),
        (
            "a.jsonl",
            '{"text": "a", "label": "b"}\n{"text": "x", "lab": 1}\n',
            "a.jsonl:2: the row has no column 'label' (its columns: text, lab)",
        ),
        (
            "a.jsonl",
            '{"text": "a", "label": "b"}\n{"text": 5, "label": 1}\n',
            "a.jsonl:2: the text must be a string, got 5",
        ),
        (
            "a.jsonl",
            '{"text": "a", "label": "b"}\n{"text": "\\ud800", "label": 1}\n',
            "a.jsonl:2: the text contains a lone surrogate, which is not a character",
        ),
        (
            "a.jsonl",
            '{"text": "a", "label": "b"}\n{"text": "x", "label": {}}\n',
            "a.jsonl:2: the label must be a name, got {}",
        ),
        ("a.jsonl", '{"text": "a", "label": "b"}\n{"text": "x", "label": null}\n', "a.jsonl:2: the label is empty"),
    ],
)
def test_a_bad_row_stops_with_its_place_or_is_counted(write, name, text, reason):
    path = write(name, text)
    assert message(classified(path)) == reason
    skipped = BadRows()
    assert [example.text for example in classified(path, bad="skip", skipped=skipped)] == ["a"]
    assert (skipped.count, skipped.reasons) == (1, [reason])
    assert list(classified(path, bad="skip"))


def test_the_collector_keeps_the_first_reasons(write):
    path = write("a.tsv", "text\tlabel\n" + "x\t\n" * 9 + "good\tz\n")
    skipped = BadRows(keep=2)
    assert len(list(classified(path, bad="skip", skipped=skipped))) == 1
    assert skipped.count == 9
    assert str(skipped) == "9 rows left out (a.tsv:2: the label is empty; a.tsv:3: the label is empty; ...)"
    assert str(BadRows()) == "0 rows left out"


def test_wrong_arguments_are_said_before_anything_is_read(write):
    with pytest.raises(UsageError, match=r"unknown policy for bad rows 'ignore' \(allowed: stop, skip\)"):
        classified("a.tsv", bad="ignore")
    assert "unknown data.format 'xml'" in message(classified(write("a.tsv", ""), format="xml"))
    expected = "cannot tell the format from the name; set data.format to one of tsv, csv, jsonl"
    assert expected in message(classified(write("a.txt", "")))
    assert message(classified(write("a.tsv", "\n"))) == "a.tsv contains no rows"
    assert message(classified("not-there.tsv")) == "not-there.tsv does not exist"


def test_several_files_have_columns_of_their_own(write):
    write("a.tsv", "text\tlabel\na\tx\n")
    write("b.tsv", "label\ttext\nx\tb\n")
    assert [example.text for example in classified("*.tsv")] == ["a", "b"]


def test_labels_are_sorted_by_number_if_they_are_numbers():
    assert sort_labels(["10", "2", "2", "1"]) == ["1", "2", "10"]
    assert sort_labels(["b", "10", "2"]) == ["10", "2", "b"]
