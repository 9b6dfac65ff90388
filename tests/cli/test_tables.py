"""Tables in and out of the commands: the text column as in training, CSV, TSV and JSON lines with the answers."""

import csv
import json
import warnings

import pytest

from qkv.data.config import DataConfig
from qkv.data.encodings import Guessed
from qkv.runs.trained_on import keep_reading
from qkv.tasks.table import read_task
from tests.predict.readers import NER, make_reader

LABELS = ("animal", "food", "so so")
TEXTS = ["the cat sat", "a naïve café, owner paid", ""]
MODELS = {
    "one": make_reader("pool", "classify", labels=LABELS),
    "several": make_reader("pool", "classify", labels=LABELS, multi_label=True, threshold=0.1),
    "number": make_reader("pool", "regress"),
    "ner": make_reader("tag", labels=NER),
    "reader": make_reader("span", max_length=30),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("tables")
    for name, model in MODELS.items():
        model.save(place / name)
    return place


@pytest.fixture
def qkv(monkeypatch, shell, tmp_path, folders):
    monkeypatch.chdir(tmp_path)
    return lambda verb, name, *more, **given: shell(verb, folders / name, *more, "--device", "cpu", **given)


@pytest.fixture
def write(tmp_path):
    def write(name, rows, delimiter=",", encoding="utf-8"):
        with open(tmp_path / name, "w", newline="", encoding=encoding) as file:
            csv.writer(file, delimiter=delimiter).writerows(rows)
        return name

    return write


def rows_of(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def wanted(model="one", texts=TEXTS):
    return [f"{label.label}\t{label.score:.4f}" for label in MODELS[model].classify(texts)]


def test_the_header_and_the_gold_label_are_no_texts(qkv, write):
    path = write("new.csv", [["id", "text", "label"], *([i, text, "food"] for i, text in enumerate(TEXTS))], ";")
    result = qkv("classify", "one", "--file", path)
    assert (result.code, result.err, result.out.splitlines()) == (0, "", wanted())


def test_out_csv_has_the_input_and_the_answers(qkv, write, tmp_path):
    path = write("new.csv", [["id", "review", "label"], *([i, text, "food"] for i, text in enumerate(TEXTS))])
    result = qkv("classify", "one", "--file", path, "--out", "out.csv")
    assert (result.code, result.out, result.err) == (0, "", "")
    found, answers = rows_of(tmp_path / "out.csv"), MODELS["one"].classify(TEXTS)
    assert list(found[0]) == ["id", "review", "label", "text", "predicted_label", "score"]
    assert [(row["id"], row["review"], row["text"], row["label"]) for row in found] == [
        (str(i), text, text, "food") for i, text in enumerate(TEXTS)
    ]
    assert [row["predicted_label"] for row in found] == [one.label for one in answers]
    assert [float(row["score"]) for row in found] == pytest.approx([one.score for one in answers], abs=1e-5)
    assert qkv("classify", "one", "--file", "out.csv", "--set", "data.text=review").out.splitlines() == wanted()


def test_out_tsv_and_jsonl(qkv, tmp_path):
    texts = ["a\tcat", "dogs"]
    assert qkv("classify", "one", *texts, "--out", "out.tsv").code == 0
    lines = (tmp_path / "out.tsv").read_text().splitlines()
    labels = [one.label for one in MODELS["one"].classify(texts)]
    assert [line.split("\t")[:2] for line in lines] == [["text", "label"], ["a cat", labels[0]], ["dogs", labels[1]]]
    assert qkv("classify", "several", *TEXTS, "--out", "out.jsonl").code == 0
    objects = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["text"] for row in objects] == TEXTS
    assert {"labels", "text"} == set(objects[0])
    assert qkv("classify", "several", TEXTS[0], "--out", "out.csv").code == 0
    (row,) = rows_of(tmp_path / "out.csv")
    assert row["label"].split(", ") == [one["label"] for one in objects[0]["labels"]]
    assert qkv("classify", "number", *TEXTS, "--out", "number.csv").code == 0
    assert list(rows_of(tmp_path / "number.csv")[0]) == ["text", "number"]


def test_the_column_of_training_is_used_where_the_file_has_it(qkv, write, folders):
    keep_reading(folders / "one", read_task("classify", {}, DataConfig(text="body", label="kind")))
    try:
        path = write("new.csv", [["title", "text", "body"], *(["t", "no", text] for text in TEXTS)])
        assert qkv("classify", "one", "--file", path).out.splitlines() == wanted()
        other = write("b.csv", [["text"], *([text] for text in TEXTS)])
        assert qkv("classify", "one", "--file", other).out.splitlines() == wanted()
        result = qkv("classify", "one", "--file", path, "--set", "text=title")
        assert result.out.splitlines() == wanted(texts=["t"] * 3)
    finally:
        (folders / "one" / "reading.json").unlink()


def test_a_text_column_is_guessed_and_said(qkv, write):
    long = [f"{text} and some more words" for text in TEXTS]
    path = write("new.csv", [["nr", "body_of_it", "kind"], *([i, text, "x"] for i, text in enumerate(long))])
    result = qkv("classify", "one", "--file", path)
    assert result.out.splitlines() == wanted(texts=long)
    assert result.err == "qkv: new.csv: text 'body_of_it', guessed from the values; set data.text to change this\n"
    bare = write("bare.csv", [[i, text] for i, text in enumerate(long)])
    assert qkv("classify", "one", "--file", bare).out.splitlines() == wanted(texts=long)


def test_pairs_come_from_two_columns(qkv, write):
    first, second = ["the cat", "dogs"], ["a mat", "tea"]
    path = write("p.csv", [["id", "premise", "hypothesis"], *([1, a, b] for a, b in zip(first, second, strict=True))])
    answers = [f"{label.label}\t{label.score:.4f}" for label in MODELS["one"].classify(first, second)]
    assert qkv("classify", "one", "--file", path).out.splitlines() == answers
    assert qkv("classify", "one", "--pair", "--file", path).out.splitlines() == answers
    similar = qkv("similar", "one", "--file", path)
    assert (similar.code, len(similar.out.splitlines())) == (0, 2)
    result = qkv("classify", "one", "--pair", "--file", write("q.csv", [["id", "text", "more"], [1, 2, 3]]))
    assert (result.code, "cannot tell which columns hold the two texts of a pair" in result.err) == (2, True)


def test_tag_embed_and_answer_read_tables(qkv, write, tmp_path):
    path = write("new.csv", [["text", "gold"], *([text, "x"] for text in TEXTS[:2])])
    found = qkv("tag", "ner", "--file", path, "--out", "tags.csv")
    assert (found.code, list(rows_of(tmp_path / "tags.csv")[0])) == (0, ["text", "gold", "entities"])
    assert len(qkv("embed", "one", "--file", path).out.splitlines()) == 2
    asked = write("asked.csv", [["question", "context", "n"], ["the dog?", "The dog ran home.", "7"]])
    (row,) = [json.loads(line) for line in qkv("answer", "reader", "--file", asked, "--json").out.splitlines()]
    assert (row["question"], row["n"]) == ("the dog?", "7")
    result = qkv("answer", "reader", "--file", path)
    assert (result.code, "'question'" in result.err, result.err.count("\n")) == (2, True, 1)


def test_tag_reads_the_words_of_conll_files(qkv, tmp_path):
    (tmp_path / "a.conllu").write_text("1\tthe\t_\tDET" + "\t_" * 6 + "\n2\tcat\t_\tNOUN" + "\t_" * 6 + "\n\n")
    (line,) = qkv("tag", "ner", "--file", "a.conllu").out.splitlines()
    assert [word.split("/")[0] for word in line.split()] == ["the", "cat"]


def test_a_path_given_as_a_text_gets_a_hint(qkv, write):
    write("reviews.csv", [["text"], ["the cat"]])
    result = qkv("classify", "one", "reviews.csv")
    assert result.code == 0
    assert result.err == "qkv: reviews.csv is a file: to read the texts in it, use --file reviews.csv\n"


def test_another_encoding_is_said_once(qkv, write):
    path = write("new.csv", [["text"], *([text] for text in TEXTS)], encoding="cp1252")
    with warnings.catch_warnings():
        warnings.simplefilter("default", Guessed)
        result = qkv("classify", "one", "--file", path)
    said = "it is read as cp1252; if letters look wrong, set data.encoding to the encoding of the file"
    assert result.err == f"qkv: new.csv is not UTF-8: {said}\n"
    assert result.out.splitlines() == wanted()
    result = qkv("classify", "one", "--file", path, "--set", "data.encoding=cp1252")
    assert (result.err, result.out.splitlines()) == ("", wanted())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--set", "data.text=body"], "unknown column of new.csv:1 'body' (allowed: text, n)"),
        (["--set", "data.txt=body"], "unknown key of DataConfig 'data.txt'; did you mean 'data.text'?"),
        (["--set", "data.encoding=utf-9"], "data.encoding: unknown encoding 'utf-9'"),
        (["--set", "data.format=xml"], "unknown data.format 'xml'"),
    ],
)
def test_wrong_keys_are_one_sentence(qkv, write, tmp_path, options, said):
    result = qkv("classify", "one", "--file", write("new.csv", [["text", "n"], ["a", 1]]), *options, "--out", "o.csv")
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert said in result.err
    assert not (tmp_path / "o.csv").exists()


def test_rows_of_a_broken_table_are_named(qkv, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n{"txt": "b"}\n')
    result = qkv("classify", "one", "--file", "a.jsonl", "--out", "o.csv")
    assert (result.code, result.err) == (1, "qkv: a.jsonl:2: the row has no column 'text' (its columns: txt)\n")
    (tmp_path / "b.jsonl").write_text('{"text": "a"}\n{"text": "b", "x": 1}\n')
    result = qkv("classify", "one", "--file", "b.jsonl", "--out", "o.csv")
    assert (result.code, "use --out FILE.jsonl" in result.err) == (2, True)
    assert not (tmp_path / "o.csv").exists()


def test_folders_and_fasttext_lines_are_tables_too(qkv, tmp_path):
    (tmp_path / "rev" / "pos").mkdir(parents=True)
    (tmp_path / "rev" / "pos" / "1.txt").write_text(TEXTS[0])
    (tmp_path / "a.txt").write_text(f"__label__pos {TEXTS[0]}\n")
    for path in ("rev", "a.txt"):
        assert qkv("classify", "one", "--file", path).out.splitlines() == wanted(texts=TEXTS[:1])
