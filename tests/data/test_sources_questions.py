"""SQuAD 1.1 and 2.0."""

import bz2
import json

import pytest

from qkv.data.bad_rows import BadRows
from qkv.data.examples import Answer, Question
from qkv.data.questions import questions
from tests.data.messages import message

CONTEXT = "Ada met Bob. Bob met Cy."


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(*asked, name="a.json"):
        content = {"data": [{"title": "T", "paragraphs": [{"context": CONTEXT, "qas": list(asked)}]}]}
        data = json.dumps(content).encode()
        (tmp_path / name).write_bytes(bz2.compress(data) if name.endswith(".bz2") else data)
        return name

    return write


def ask(id="q1", **more):
    return {"id": id, "question": " Who? ", **more}


@pytest.mark.parametrize("name", ["a.json", "a.json.bz2"])
def test_questions_answers_and_none(write, name):
    path = write(
        ask(answers=[{"text": "Ada", "answer_start": 0}, {"text": "Bob", "answer_start": 13}]),
        ask("q2", is_impossible=True, answers=[], plausible_answers=[{"text": "Cy", "answer_start": 1}]),
        ask(3, is_impossible=False, answers=[]),
        name=name,
    )
    assert list(questions(path)) == [
        Question("q1", "Who?", CONTEXT, (Answer("Ada", 0), Answer("Bob", 13)), f"{path}:q1"),
        Question("q2", "Who?", CONTEXT, (), f"{path}:q2"),
        Question("3", "Who?", CONTEXT, (), f"{path}:3"),
    ]


@pytest.mark.parametrize("start", [0, 999, -3, None, "21"])
def test_an_answer_that_occurs_once_is_found_again(write, start):
    (question,) = questions(write(ask(answers=[{"text": "Cy", "answer_start": start}])))
    assert question.answers == (Answer("Cy", CONTEXT.index("Cy")),)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (ask(answers=[{"text": "Bob", "answer_start": 0}]), "the answer 'Bob' is not at 0 and occurs more than once"),
        (ask(answers=[{"text": "Eve", "answer_start": 0}]), "the answer 'Eve' is not in the context"),
        (ask(answers=[{"text": "", "answer_start": 0}]), "the answer is empty"),
        (ask(answers={}), "there is no list of answers"),
        (ask(), "there is no list of answers"),
        ({"id": "q1", "question": " ", "answers": []}, "the question is empty"),
        (ask(answers=[], context=None), "the context is empty"),
    ],
)
def test_a_bad_question_stops_with_its_id_or_is_counted(write, asked, reason):
    path = write(ask("q0", answers=[]), asked, ask("q2", answers=[]))
    assert message(questions(path)) == f"a.json:q1: {reason}"
    skipped = BadRows()
    assert [question.id for question in questions(path, bad="skip", skipped=skipped)] == ["q0", "q2"]
    assert skipped.reasons == [f"a.json:q1: {reason}"]


def test_what_overlaps_itself_occurs_more_than_once(write):
    path = write({"id": "q1", "question": "?", "context": "xaaa", "answers": [{"text": "aa", "answer_start": 0}]})
    assert "more than once" in message(questions(path))


def test_files_that_are_not_squad(write, tmp_path):
    (tmp_path / "b.json").write_text('{\n"data": [,]}')
    assert message(questions("b.json")) == "b.json:2: not JSON: Expecting value: line 2 column 10 (char 11)"
    (tmp_path / "b.json").write_text('{"data": 1}')
    reason = "there is no list 'data'; SQuAD files nest data > paragraphs > qas"
    assert message(questions("b.json")) == f"b.json: {reason}"
    (tmp_path / "b.json").write_text("[]\n")
    assert message(questions("b.json")) == "b.json contains no questions"
    (tmp_path / "b.json").write_text('{"data": [{"title": "T", "paragraphs": [{}]}]}')
    assert message(questions("b.json")).startswith("b.json: paragraph 1 of 'T': there is no list 'qas'")
    assert message(questions(write("no"))) == "a.json: paragraph 1 of 'T': a question must be an object, got 'no'"


def test_a_json_list_of_questions(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    row = {"id": "q1", "question": "Who?", "context": CONTEXT, "answers": {"text": ["Ada"], "answer_start": [0]}}
    (tmp_path / "a.json").write_text(json.dumps([row, {**row, "id": "q2"}], indent=1))
    assert [question.id for question in questions("a.json")] == ["q1", "q2"]
    assert next(questions("a.json")).where == "a.json:2"


def test_a_row_for_each_question(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [
        ({"id": "q1", "question": "Who?", "context": CONTEXT, "answers": [{"text": "Ada", "answer_start": 0}]}, None),
        ({"question": "Who?", "context": CONTEXT, "answers": {"text": ["Cy"], "answer_start": [21]}}, None),
        ({"question": "Who?", "context": CONTEXT, "answers": {"text": ["Eve"], "answer_start": [0]}}, "the answer"),
        ({"question": "Who?", "context": CONTEXT, "answers": {"text": "Cy", "answer_start": 21}}, "there is no list"),
        ({"question": "Who?", "answers": []}, "the context is empty"),
        ({"question": "", "context": CONTEXT, "answers": []}, "the question is empty"),
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps(row) for row, _ in rows) + "\n{\n")
    skipped = BadRows(keep=9)
    found = list(questions("a.jsonl", bad="skip", skipped=skipped))
    assert [(q.id, q.answers) for q in found] == [("q1", (Answer("Ada", 0),)), ("a.jsonl:2", (Answer("Cy", 21),))]
    assert [reason.split(": ")[0] for reason in skipped.reasons] == [f"a.jsonl:{i}" for i in (3, 4, 5, 6, 7)]
    for (_, reason), said in zip(rows[2:], skipped.reasons, strict=False):
        assert reason in said


def test_a_paragraph_that_cannot_be_used_is_counted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    good = {"context": CONTEXT, "qas": [ask(answers=[{"text": "Ada", "answer_start": 0}])]}
    content = {"data": [{"title": "T", "paragraphs": [{"context": CONTEXT}, 7, good]}]}
    (tmp_path / "a.json").write_text(json.dumps(content))
    skipped = BadRows()
    assert [question.id for question in questions("a.json", bad="skip", skipped=skipped)] == ["q1"]
    assert [reason[:26] for reason in skipped.reasons] == ["a.json: paragraph 1 of 'T'", "a.json: paragraph 2 of 'T'"]
