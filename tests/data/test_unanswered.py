"""Texts without answers: lines, pairs and tables, and what is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.common.errors import QkvError
from qkv.data.bad_rows import BadRows
from qkv.data.config import DataConfig
from qkv.data.unanswered import read_texts, read_words

LINES = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n\ufeff"), min_size=1), min_size=1)


def texts(file: Path, pair: bool | None = False, **data: Any) -> list[tuple[str, ...]]:
    return [found for _, found in read_texts([str(file)], DataConfig(**data), pair=pair)]


@given(lines=LINES)
def test_lines_are_texts_but_for_blank_ones(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    file = tmp_path_factory.mktemp("lines") / "texts.txt"
    file.write_bytes("\n".join(["first", *lines, "end"]).encode())
    expected = [(line,) for line in ["first", *lines, "end"] if line.strip()]
    assert texts(file, encoding="utf-8") == expected


def test_the_columns_of_tables(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text('id,title,premise,hypothesis\n1,head,"a, b",c\n2,head,d,e\n')
    assert texts(table, pair=None) == [("a, b", "c"), ("d", "e")]
    assert texts(table, pair=True, text="title", second="premise") == [("head", "a, b"), ("head", "d")]
    assert texts(table, text="hypothesis") == [("c",), ("e",)]
    assert texts(table, pair=None, train=("other.csv",), text="review") == [("a, b", "c"), ("d", "e")]
    found = read_texts([str(table)], DataConfig(), usual=("source", "premise"))
    assert [row for _, row in found] == [("a, b",), ("d",)]


def test_a_tab_in_the_first_line_means_pairs(tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("a\tb\nc\td\n")
    assert texts(lines, pair=None) == [("a", "b"), ("c", "d")]
    assert texts(lines, pair=False) == [("a\tb",), ("c\td",)]
    lines.write_text("a\nb c\td\n")
    assert texts(lines, pair=None) == [("a",), ("b c\td",)]
    lines.write_text("a\tb\nc\n")
    with pytest.raises(QkvError, match=r"lines\.txt:2: a pair is two texts with one tab between, got 0 tabs"):
        texts(lines, pair=None)
    skipped = BadRows()
    assert len(list(read_texts([str(lines)], DataConfig(skip_bad=True), skipped, pair=None))) == 1
    assert skipped.count == 1


def test_words(tmp_path: Path) -> None:
    lines, rows, conll = tmp_path / "w.txt", tmp_path / "w.jsonl", tmp_path / "w.conll"
    lines.write_text("a  b\tc\n\nd\n")
    rows.write_text("".join(json.dumps({"words": words}) + "\n" for words in (["a b", "c"], ["d"])))
    conll.write_text("a X\nb X\n\nc X\n")

    def words(file: Path) -> list[tuple[str, ...]]:
        return [found for _, found in read_words([str(file)], DataConfig())]

    assert words(lines) == [("a", "b", "c"), ("d",)]
    assert words(rows) == [("a b", "c"), ("d",)]
    assert words(conll) == [("a", "b"), ("c",)]
    rows.write_text('{"words": ["a", ""]}\n')
    with pytest.raises(QkvError, match=r"w\.jsonl:1: the word is empty"):
        words(rows)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("no.txt", None, "does not exist"),
        ("empty.txt", "", "has no text"),
        ("blank.txt", "\n \n", "has no text"),
        ("empty.csv", "", "contains no rows"),
        ("head.csv", "text\n", "has no text"),
        ("gap.csv", "text,n\na,1\n,2\n", "the text is empty"),
        ("other.csv", "text,n\na,1\n", "unknown column of .* 'review'"),
    ],
)
def test_bad_files(tmp_path: Path, name: str, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(QkvError, match=message):
        texts(tmp_path / name, text="review" if name == "other.csv" else "")
