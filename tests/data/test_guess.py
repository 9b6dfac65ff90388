"""Columns told by what stands in them: tables are made from known parts, and the parts must be found."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.common.errors import UsageError
from qkv.data.labelled import classified, find_columns, rated

WORDS = [
    "it",
    "broke",
    "after",
    "one",
    "day",
    "and",
    "i",
    "sent",
    "the",
    "whole",
    "thing",
    "back",
    "without",
    "any",
    "answer",
]


def sentence(draw):
    return " ".join(draw.choices(WORDS, k=draw.randint(4, 12))) + f" {draw.randrange(10**6)}"


def table(seed, rows=40, labels=("good", "bad", "so so"), extra=()):
    """Columns by odd names, in a drawn order: a text, a label, and others that are neither."""
    draw = random.Random(seed)
    made = {
        "kundenstimme": [sentence(draw) for _ in range(rows)],
        "urteil": [labels[i % len(labels)] for i in range(rows)],
        "nr": [str(1041 + i) for i in range(rows)],
        "hash": [f"{draw.randrange(16**8):08x}x" for _ in range(rows)],
        "empty": [""] * rows,
    }
    made = {name: made[name] for name in ("kundenstimme", "urteil", *extra)}
    names = draw.sample(list(made), len(made))
    return names, [[made[name][i] for name in names] for i in range(rows)]


@given(st.integers(0, 999), st.sets(st.sampled_from(["nr", "hash", "empty"])), st.booleans(), st.sampled_from("tj"))
def test_text_and_label_are_found_whatever_their_names(tmp_path_factory, seed, extra, header, kind):
    names, rows = table(seed, extra=sorted(extra))
    path = tmp_path_factory.mktemp("guess") / ("a.tsv" if kind == "t" else "a.jsonl")
    if kind == "t":
        lines = ["\t".join(row) for row in ([names] if header else []) + rows]
    else:
        lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
    path.write_text("\n".join(lines) + "\n")
    text, label = names.index("kundenstimme"), names.index("urteil")
    found = list(classified(path, text=None, label=None))
    assert [(example.text, *example.labels) for example in found] == [(row[text], row[label]) for row in rows]
    chosen = find_columns(path)
    assert chosen.guessed
    assert chosen.header == (header and kind == "t")
    assert chosen.text == ("kundenstimme" if header or kind == "j" else text)


def write(tmp_path, *lines):
    path = tmp_path / "a.tsv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_what_is_named_is_taken_and_the_rest_is_found(tmp_path):
    path = write(tmp_path, "kind\tnote\tprose", "a\tx y z w\tone two three four", "b\tp q r s\tfive six seven eight")
    assert str(find_columns(path, label="kind", text="note")) == "text 'note', label 'kind'"
    both = "the text could be #1 'note' or #2 'prose'; choose one with --set data.text=NAME, or by number .*, "
    with pytest.raises(UsageError, match=both + "and add data.second=NAME for a pair of texts"):
        find_columns(path, label="kind")


def test_a_usual_name_goes_before_what_stands_there(tmp_path):
    rows = [f"{'yn'[i % 2]}\t{'ab'[i % 2]}\tsome words here {i}" for i in range(8)]
    chosen = find_columns(write(tmp_path, "topic\tkind\tstuff", *rows))
    assert str(chosen) == "text 'stuff', label 'topic'"
    assert not find_columns(write(tmp_path, "topic\tkind\ttext", *rows)).guessed


def test_two_columns_that_may_be_the_label(tmp_path):
    path = write(tmp_path, "x\ty\tbody", *(f"{i % 2}\t{'ab'[i % 2]}\tsome words here {i}" for i in range(8)))
    with pytest.raises(UsageError, match=r"a\.tsv:1: the label could be #0 'x' or #1 'y'; .* data\.label=NAME"):
        find_columns(path)


def test_a_header_is_told_by_the_label(tmp_path):
    rows = [f"{'ab'[i % 2]}\tsome words here {i}" for i in range(8)]
    assert len(list(classified(write(tmp_path, *rows), text=None, label=None))) == 8
    assert len(list(classified(write(tmp_path, "which\twhat", *rows), text=None, label=None))) == 8
    assert len(list(classified(write(tmp_path, *rows), text=None, label="#0"))) == 8
    assert len(list(classified(write(tmp_path, "which\twhat", *rows), text=None, label="#0"))) == 8


@pytest.mark.parametrize("header", [True, False])
def test_scores_are_the_numbers_that_do_not_count_the_rows(tmp_path, header):
    rows = [f"{i}\tsome words here {i}\t{i * 7 % 5}.5" for i in range(8)]
    path = write(tmp_path, *(["nr\tbody\tlike"] if header else []), *rows)
    assert [example.score for example in rated(path, text=None, label=None)] == [i * 7 % 5 + 0.5 for i in range(8)]


def test_a_pair_beside_a_guessed_label(tmp_path):
    rows = [f"first text {i}\tsecond text {i}\t{'ab'[i % 2]}" for i in range(8)]
    path = write(tmp_path, "sentence1\tsentence2\tverdict", *rows)
    assert str(find_columns(path)) == "text 'sentence1', second text 'sentence2', label 'verdict'"
