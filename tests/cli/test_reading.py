"""`qkv classify`, `tag`, `answer` and `fill` as a shell sees them."""

import gzip
import json
import os

import pytest

from tests.predict.readers import NER, POS, make_reader

LABELS = ("animal", "food", "so so")
TEXTS = ["the cat sat", "", "a naïve café owner paid", " dogs  play\tin "]
CONTEXT = "The dog ran home,\r\nbecause it was snowing.\nThe cats stayed on the mat.\n" * 3
MODELS = {
    "one": make_reader("pool", "classify", labels=LABELS),
    "several": make_reader("pool", "classify", labels=LABELS, multi_label=True, threshold=0.3),
    "number": make_reader("pool", "regress"),
    "ner": make_reader("tag", labels=NER, max_length=20),
    "pos": make_reader("tag", labels=POS),
    "reader": make_reader("span", max_length=30),
    "filler": make_reader("mlm"),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("readers")
    for name, model in MODELS.items():
        model.save(place / name)
    return place


@pytest.fixture
def qkv(monkeypatch, shell, tmp_path, folders):
    """Run a verb in an empty folder; the model is one of the above."""
    monkeypatch.chdir(tmp_path)
    return lambda verb, name, *more, **given: shell(verb, folders / name, *more, "--device", "cpu", **given)


def lines_of(result):
    assert (result.code, result.err) == (0, "")
    assert result.out.endswith("\n")
    return result.out[:-1].split("\n")


def objects_of(result):
    return [json.loads(line) for line in lines_of(result)]


def close(rows):
    """Round the numbers: a folder read again says the same but for the last digits."""
    return json.loads(json.dumps(rows), parse_float=lambda x: round(float(x), 4))


def given(texts):
    return "".join(f"{text}\n" for text in texts).encode()


def test_classify_prints_a_label_and_its_probability(qkv):
    found = MODELS["one"].classify(TEXTS)
    wanted = [f"{label.label}\t{label.score:.4f}" for label in found]
    assert lines_of(qkv("classify", "one", *TEXTS)) == wanted
    assert lines_of(qkv("classify", "one", "-", stdin=given(TEXTS))) == wanted
    rows = objects_of(qkv("classify", "one", "-", "--json", stdin=given(TEXTS)))
    assert close(rows) == close(
        [{"text": t, "label": one.label, "score": one.score} for t, one in zip(TEXTS, found, strict=True)]
    )


def test_classify_prints_all_labels_or_those_above_the_threshold(qkv):
    model = MODELS["several"]
    for options, found in (
        (["--all"], model.classify(TEXTS, every=True)),
        ([], model.classify(TEXTS)),
        (["--threshold", "0.8"], model.classify(TEXTS, threshold=0.8)),
    ):
        wanted = ["\t".join(f"{one.label}\t{one.score:.4f}" for one in row) for row in found]
        assert lines_of(qkv("classify", "several", *TEXTS, *options)) == wanted
        rows = objects_of(qkv("classify", "several", *TEXTS, *options, "--json"))
        assert [[one["label"] for one in row["labels"]] for row in rows] == [[one.label for one in r] for r in found]
    assert len(set(map(len, model.classify(TEXTS)))) > 1


def test_classify_prints_numbers(qkv):
    found = MODELS["number"].classify(TEXTS)
    assert lines_of(qkv("classify", "number", *TEXTS)) == [f"{number:.4f}" for number in found]
    assert [row["number"] for row in objects_of(qkv("classify", "number", *TEXTS, "--json"))] == pytest.approx(
        found, rel=1e-5
    )


def test_classify_takes_pairs(qkv, tmp_path):
    first, second = TEXTS[:3], ["home", "dogs play", "tea"]
    wanted = [f"{label.label}\t{label.score:.4f}" for label in MODELS["one"].classify(first, second)]
    both = [text for pair in zip(first, second, strict=True) for text in pair]
    assert lines_of(qkv("classify", "one", "--pair", *both)) == wanted
    data = given(f"{a}\t{b}" for a, b in zip(first, second, strict=True))
    assert lines_of(qkv("classify", "one", "--pair", "-", stdin=data)) == wanted
    (tmp_path / "pairs.tsv.gz").write_bytes(gzip.compress(data))
    rows = objects_of(qkv("classify", "one", "--pair", "--file", "pairs.tsv.gz", "--json"))
    assert [(row["text"], row["pair"]) for row in rows] == list(zip(first, second, strict=True))


def test_tag_prints_entities(qkv):
    texts = ["The cat\tsat on the mat, and the dog ran home because it was snowing.", "", "Two dogs"]
    found = MODELS["ner"].tag(texts)
    wanted = [
        "\t".join(f"{e.label} {e.start} {e.end} {e.score:.4f} {e.text}" for e in row).replace("cat\tsat", "cat sat")
        for row in found
    ]
    assert lines_of(qkv("tag", "ner", *texts)) == wanted
    assert len(found[0]) > 2
    rows = objects_of(qkv("tag", "ner", "-", "--json", stdin=given(texts)))
    for text, row, entities in zip(texts, rows, found, strict=True):
        assert row["text"] == text
        assert [text[e["start"] : e["end"]] for e in row["entities"]] == [e["text"] for e in row["entities"]]
        assert close(row["entities"]) == close([vars(e) for e in entities])


def test_tag_prints_words(qkv):
    for name, options in (("ner", ["--words"]), ("pos", ["--words"]), ("pos", [])):
        text = "The  cat\t sat , cafe\u0301 "
        words = text.split()
        labels = [word.label for word in MODELS[name].tag([words])[0]]
        line = " ".join(f"{word}/{label}" for word, label in zip(words, labels, strict=True))
        assert lines_of(qkv("tag", name, "-", *options, stdin=given([text, ""]))) == [line, ""]
        (row,) = objects_of(qkv("tag", name, text, *options, "--json"))
        assert [(w["text"], w["label"]) for w in row["words"]] == list(zip(words, labels, strict=True))
        assert [text[w["start"] : w["end"]] for w in row["words"]] == words


def test_a_word_may_hold_a_no_break_space(qkv):
    (row,) = objects_of(qkv("tag", "ner", "10\u00a0000 cats", "--words", "--json"))
    assert [word["text"] for word in row["words"]] == ["10\u00a0000", "cats"]


def test_answer_reads_its_context_from_anywhere(qkv, tmp_path):
    questions = ["the dog?", "why?"]
    found = MODELS["reader"].answer(questions, CONTEXT)
    wanted = [f"{one.text}\t{one.score:.4f}\t{one.start}\t{one.end}".replace("\r\n", " ") for one in found]
    wanted = [line.replace("\n", " ") for line in wanted]
    (tmp_path / "context.txt").write_bytes(CONTEXT.encode())
    (tmp_path / "context.gz").write_bytes(gzip.compress(CONTEXT.encode()))
    (tmp_path / "asked.txt").write_bytes(given(questions))
    for options, stdin in (
        (["--context", "context.txt"], b""),
        (["--context", "context.gz"], b""),
        (["--context", "-"], CONTEXT.encode()),
        (["--context-text", CONTEXT], b""),
    ):
        assert lines_of(qkv("answer", "reader", *questions, *options, stdin=stdin)) == wanted
    assert lines_of(qkv("answer", "reader", "--file", "asked.txt", "--context", "context.txt")) == wanted
    assert lines_of(qkv("answer", "reader", "-", "--context", "context.txt", stdin=given(questions))) == wanted


def test_answer_reads_lines_of_json(qkv, tmp_path):
    asked = [{"id": 7, "question": "the dog?", "context": CONTEXT}, {"question": "why?", "context": ""}]
    data = given(map(json.dumps, asked))
    (tmp_path / "asked.jsonl").write_bytes(data)
    found = MODELS["reader"].answer(["the dog?", "why?"], [CONTEXT, ""])
    for result in (
        qkv("answer", "reader", "-", "--json", stdin=data),
        qkv("answer", "reader", "--file", "asked.jsonl", "--json"),
    ):
        rows = objects_of(result)
        assert [row["answer"] for row in rows] == [one.text for one in found]
        assert rows[0]["id"] == 7
        assert rows[0].keys() == {"id", "question", "answer", "start", "end", "score"}
        assert CONTEXT[rows[0]["start"] : rows[0]["end"]] == rows[0]["answer"]
        assert (rows[1]["answer"], rows[1]["start"], rows[1]["end"]) == ("", 0, 0)


def test_answer_prints_the_n_best(qkv):
    options = ["--context-text", "the cat sat on the mat", "--nbest", "3", "--no-answer"]
    lines = [line.split("\t") for line in lines_of(qkv("answer", "reader", "who?", "where?", *options))]
    assert [line[0] for line in lines] == ["0"] * 3 + ["1"] * 3
    (row, _) = objects_of(qkv("answer", "reader", "who?", "where?", *options, "--json"))
    assert [row["answer"], *(other["answer"] for other in row["others"])] == [line[1] for line in lines[:3]]
    assert [row["score"], *(other["score"] for other in row["others"])] == pytest.approx(
        [float(line[2]) for line in lines[:3]], abs=1e-4
    )


def test_fill_prints_a_line_for_each_mask(qkv):
    texts = ["the [MASK] sat on the <mask>", "[MASK]"]
    found = MODELS["filler"].fill(texts, top=2)
    masks = [mask for row in found for mask in row]
    wanted = ["\t".join(f"{choice.word}\t{choice.score:.4f}" for choice in mask) for mask in masks]
    assert lines_of(qkv("fill", "filler", *texts, "--top", "2")) == wanted
    rows = objects_of(qkv("fill", "filler", "-", "--top", "2", "--json", stdin=given(texts)))
    assert [row["text"] for row in rows] == texts
    assert close([row["masks"] for row in rows]) == close([[[vars(c) for c in mask] for mask in row] for row in found])


def test_more_lines_than_are_held_at_a_time_to_a_file(qkv, tmp_path, monkeypatch):
    monkeypatch.setattr("qkv.cli.texts.CHUNK", 4)
    texts = [f"the cat {i}" for i in range(11)]
    wanted = [f"{label.label}\t{label.score:.4f}" for label in MODELS["one"].classify(texts)]
    result = qkv("classify", "one", "-", "--out", "out.txt", stdin=given(texts))
    assert (result.code, result.out, result.err) == (0, "", "")
    assert (tmp_path / "out.txt").read_text().splitlines() == wanted


def test_lines_come_out_before_the_last_is_read(qkv, monkeypatch):
    monkeypatch.setattr("qkv.cli.texts.CHUNK", 1)
    result = qkv("fill", "filler", "-", stdin=given(["[MASK]", "nothing", "[MASK]"]))
    assert (result.code, result.out.count("\n")) == (2, 1)
    assert result.err == "qkv: no mask in 'nothing': write [MASK] where you want a word\n"


@pytest.mark.parametrize(
    ("verb", "name", "arguments", "stdin", "said"),
    [
        ("classify", "one", [], b"", "nothing to read: give texts, --file FILE, or - for standard input"),
        ("classify", "one", ["-"], b"", "standard input is empty"),
        ("classify", "one", ["--file", "missing.txt"], b"", "missing.txt does not exist"),
        ("classify", "one", ["x", "--threshold", "0.5"], b"", "this model gives one label, the most likely one"),
        ("classify", "several", ["x", "--threshold", "2"], b"", "must be between 0 and 1, got 2.0"),
        ("classify", "number", ["x", "--all"], b"", "predicts a number for each text"),
        ("classify", "one", ["--pair", "x"], b"", "a pair is two arguments, got 1 in all"),
        ("classify", "one", ["--pair", "-"], b"a\tb\nc\n", "standard input:2: a pair is two texts with one tab"),
        ("classify", "ner", ["x"], b"", "this bert cannot classify: it has no head for that (it can tag, embed, sim"),
        ("tag", "filler", ["x"], b"", "this bert cannot tag: it has no head for that (it can fill, embed, similar)"),
        ("answer", "one", ["x", "--context-text", "y"], b"", "this bert cannot answer"),
        ("answer", "reader", ["x"], b"", "no context: give --context FILE, --context-text TEXT, or lines of JSON"),
        ("answer", "reader", ["x", "--context", "missing.txt"], b"", "missing.txt does not exist"),
        ("answer", "reader", ["x", "--context", "-"], b"PK\x03\x04", "standard input is not text but an Excel"),
        (
            "answer",
            "reader",
            ["x", "--context", "a", "--context-text", "b"],
            b"",
            "give either --context or --context-text, not both",
        ),
        ("answer", "reader", ["-", "--context", "-"], b"x", "cannot hold both the questions and the context"),
        ("answer", "reader", ["-"], b"who?\n", 'standard input:1: expected {"question": "…", "context": "…"}'),
        ("answer", "reader", ["-"], b'{"question": "who?"}\n', "standard input:1: expected {"),
        ("answer", "reader", ["-"], b'{"question": " ", "context": "x"}\n', "standard input:1: the question is empty"),
        ("answer", "reader", ["x", "--context-text", "y", "--nbest", "0"], b"", "nbest must be at least 1, got 0"),
        ("fill", "filler", ["the cat"], b"", "no mask in 'the cat': write [MASK]"),
        ("fill", "filler", ["[MASK]", "--top", "0"], b"", "top must be at least 1, got 0"),
        ("fill", "nowhere", ["x"], b"", "nowhere is not a folder"),
    ],
)
def test_errors_are_one_sentence_and_leave_nothing_behind(qkv, tmp_path, verb, name, arguments, stdin, said):
    (tmp_path / "old.txt").write_text("old")
    result = qkv(verb, name, *arguments, "--out", "old.txt", stdin=stdin)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("qkv: ")
    assert result.err.count("\n") == 1
    assert said in result.err
    assert os.listdir(tmp_path) == ["old.txt"]
    assert (tmp_path / "old.txt").read_text() == "old"


def test_bytes_that_are_no_text_come_through(qkv):
    for verb, name in (("classify", "one"), ("tag", "ner")):
        result = qkv(verb, name, "caf\udce9 cat", "--json")  # how Python gives an argument that is not UTF-8
        assert json.loads(lines_of(result)[0])["text"] == "caf? cat"


def test_help_shows_the_mask_and_the_json(qkv):
    assert "Paris is the [MASK] of France" in qkv("fill", "filler", "--help").out
    assert '{"question": "…", "context": "…"}' in qkv("answer", "reader", "--help").out
