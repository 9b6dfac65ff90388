"""`qkv evaluate` scores what the verbs say: tags of names and of words, answers and none, classes that nobody named."""

import json
from itertools import chain

import pytest
from seqeval.metrics import f1_score
from sklearn.metrics import accuracy_score

from qkv.exams.evaluate import evaluate
from tests.predict.readers import NER, POS, make_reader

SENTENCES = [["The", "cat", "sat", "."], ["Two", "dogs", "play", "in", "the", "snow"], ["tea"]]


def write_tags(file, tags):
    rows = [
        "\n".join(f"{w} {t}" for w, t in zip(words, row, strict=True))
        for words, row in zip(SENTENCES, tags, strict=True)
    ]
    file.write_text("\n\n".join(rows) + "\n")
    return [str(file)]


def test_names_agree_with_seqeval(tmp_path):
    model = make_reader("tag", labels=NER, max_length=7)  # two sentences are read through windows
    said = [[word.label for word in row] for row in model.tag(SENTENCES)]
    gold = [said[0], ["B-PER", "O", "B-LOC", *said[1][3:]], said[2]]
    (score,) = evaluate(model, write_tags(tmp_path / "test.conll", gold))
    assert score.name == "entity-f1"
    assert score.value == pytest.approx(f1_score(gold, said))
    assert 0 < score.value < 1


def test_tags_of_other_schemes_are_read_as_names(tmp_path):
    labels = ("O", "B-X", "I-X", "E-X", "S-X")
    model = make_reader("tag", labels=labels)
    said = [[word.label for word in row] for row in model.tag(SENTENCES)]
    assert {tag for row in said for tag in row} & {"E-X", "S-X"}
    gold = [[{"S-X": "B-X", "E-X": "I-X"}.get(tag, tag) for tag in row] for row in said]
    (score,) = evaluate(model, write_tags(tmp_path / "test.conll", gold))
    assert score.value == 1


def test_parts_of_speech_are_scored_by_word(tmp_path):
    model = make_reader("tag", labels=POS)
    said = [[word.label for word in row] for row in model.tag(SENTENCES)]
    gold = [["NOUN" for _ in row] for row in said]
    (score,) = evaluate(model, write_tags(tmp_path / "test.conll", gold))
    assert score.name == "accuracy"
    assert score.value == pytest.approx(accuracy_score(list(chain(*gold)), list(chain(*said))))
    assert score.count == 11


def write_questions(file, answers):
    context = "The cat sat on the mat, and the dog ran home."
    asked = [
        {"id": str(i), "question": question, "answers": [{"text": a, "answer_start": context.find(a)} for a in found]}
        for i, (question, found) in enumerate(answers)
    ]
    file.write_text(json.dumps({"data": [{"paragraphs": [{"context": context, "qas": asked}]}]}))
    return [str(file)], context


def test_an_answer_may_be_empty_only_where_questions_have_none(tmp_path, monkeypatch):
    model = make_reader("span")
    asked = []
    answer = model.answer
    monkeypatch.setattr(model, "answer", lambda *a, **options: asked.append(options) or answer(*a, **options))
    for gold, allowed in ((["the cat"], False), ([], True)):
        files, context = write_questions(tmp_path / "test.json", [("who?", ["mat"]), ("why?", gold and ["dog"])])
        exact, f1 = evaluate(model, files)
        assert asked[-1] == {"max_length": None, "no_answer": allowed}
        said = [one.text for one in answer(["who?", "why?"], context, no_answer=allowed)]
        right = [said[0] == "mat", said[1] == ("dog" if gold else "")]
        assert (exact.count, exact.value) == (2, pytest.approx(sum(right) / 2))
        assert f1.count == 2


@pytest.mark.parametrize("threshold", [None, -1000.0, 1000.0])
def test_what_the_folder_says_about_no_answer_is_scored(tmp_path, threshold):
    facts = {"no_answer": False} if threshold is None else {"no_answer": True, "no_answer_threshold": threshold}
    files, _ = write_questions(tmp_path / "test.json", [("who?", ["mat"]), ("why?", []), ("when?", [])])
    exact, f1 = evaluate(make_reader("span", **facts), files)
    nothing = threshold == -1000.0  # everything stays unanswered: two of three are right, as SQuAD 2.0 counts them
    assert (exact.parts["unanswerable"], f1.parts["unanswerable"]) == ((1, 1) if nothing else (0, 0))
    assert exact.value == pytest.approx(2 / 3) if nothing else exact.value == exact.parts["answerable"] / 3
    files, _ = write_questions(tmp_path / "test.json", [("who?", ["mat"])])  # even where every question has an answer
    assert evaluate(make_reader("span", **facts), files)[1].value == 0 or not nothing


def test_classes_that_nobody_named_are_numbers(tmp_path):
    model = make_reader("pool", "classify")
    texts = ["the cat", "two dogs play", "tea"]
    said = [label.label.removeprefix("LABEL_") for label in model.classify(texts)]
    (tmp_path / "test.tsv").write_text(
        "text\tlabel\n" + "".join(f"{t}\t{s}\n" for t, s in zip(texts, said, strict=True))
    )
    assert evaluate(model, [str(tmp_path / "test.tsv")])[0].value == 1
