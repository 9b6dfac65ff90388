"""CSV as people write it, and numbers with decimal commas."""

import pytest

from qkv.common.errors import QkvError
from qkv.data.bad_rows import REMEDY
from qkv.data.dialect import Dialect, sniff
from qkv.data.labelled import classified, find_columns, rated
from qkv.data.numbers import decimal_comma, number_of


@pytest.mark.parametrize(
    ("text", "dialect"),
    [
        ("text,label\na;b,x\nc;d,y", Dialect(",")),
        ("text;label\na, b;x\nc, d;y", Dialect(";")),
        ("text\tlabel\na, b\tx", Dialect("\t")),
        ("text|label\na, b|x", Dialect("|")),
        ("good film, really;3,5\nbad film, really;1,0", Dialect(";")),  # no header: a space follows the commas
        ("good film;3,5\nbad film;1,0", Dialect(";")),  # no header: the semicolon wins a tie
        ("'text','label'\n'a, b','x'", Dialect(",", "'")),
        ('text,label\n"a \\"b\\", c",x', Dialect(",", escaped=True)),
        ('text, label\n"a", "x, y"', Dialect(",", spaced=True)),
        ("text\nonly, one\ncolumn", Dialect(",")),
        ("sep=;\ntext;label", Dialect(";", named=True)),
        ("text,label\n'tis fine,a\nit's 'so so',b", Dialect(",")),
        ('text,label\n"a"x,b', Dialect(",")),  # a broken row does not change the dialect
        ("", Dialect(",")),
    ],
)
def test_dialects(text, dialect):
    assert sniff(text.split("\n"), complete=True) == dialect


def test_a_sample_that_ends_within_a_quote(tmp_path):
    rows = "".join(f'"line {i}\nand; more";{"ab"[i % 2]}\n' for i in range(300))
    (tmp_path / "a.csv").write_text("text;label\n" + rows)
    assert len(list(classified(tmp_path / "a.csv"))) == 300


def test_the_line_that_names_the_delimiter_counts_as_a_line(tmp_path):
    (tmp_path / "a.csv").write_text("sep=;\ntext;label\na, b;x\n;y\n")
    assert next(classified(tmp_path / "a.csv")).where == f"{tmp_path}/a.csv:3"
    with pytest.raises(QkvError) as caught:
        list(classified(tmp_path / "a.csv"))
    assert str(caught.value) == f"{tmp_path}/a.csv:4: the text is empty{REMEDY}"


@pytest.mark.parametrize(
    ("value", "comma", "number"),
    [
        ("3.5", None, 3.5),
        ("3,5", None, 3.5),
        ("-0,125", None, -0.125),
        ("1.234,5", None, 1234.5),
        ("1,234.5", None, 1234.5),
        ("1,234,567", None, 1234567),
        ("1,234", None, None),
        ("1,234", True, 1.234),
        ("1,234", False, 1234),
        ("1e-3", None, 0.001),
        (7, None, 7),
        ("x", True, None),
        ("1,2,3", True, None),
        (None, True, None),
        ([1], True, None),
    ],
)
def test_numbers(value, comma, number):
    assert number_of(value, comma=comma) == number


def test_a_column_tells_what_its_commas_mean():
    assert decimal_comma(["1,234", "2,5"]) is True
    assert decimal_comma(["1,234", "1,234.5"]) is False
    assert decimal_comma(["1,234", "7"]) is None


def test_decimal_commas_are_read_and_unclear_ones_are_said(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text;rating\ngut, sehr;4,5\nso;1,125\n")
    assert [example.score for example in rated(path, label="rating")] == [4.5, 1.125]
    assert str(find_columns(path, number=True)) == "text 'text', label 'rating'"
    path.write_text('text,rating\na,"1,234"\n')
    with pytest.raises(QkvError) as caught:
        list(rated(path, label="rating"))
    said = "the label '1,234' can be read in two ways: write it without the comma"
    assert str(caught.value) == f"{path}:2: {said}{REMEDY}"
