"""Answers: exact places in any context, the best span over all windows."""

import json
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

import qkv
from qkv.common.errors import QkvError, UsageError
from qkv.predict.answer import doubts

from .readers import make_reader
from .test_tag import KINDS, TEXT

QUESTION = "the dog ?"
CONTEXT = "The dog ran home,\r\n because it was snowing. The cats stayed on their mat and the owner had tea. " * 2


def reader(**changes):
    return make_reader("span", **changes)


@pytest.mark.parametrize("kind", KINDS)
@example("?", "", 1, False)
@example("?", "x" * 90, 2, False)
@example("where " * 40, "\ud83d\ude00 the cat", 3, True)
@example("?", " \n\t ", 3, True)
@given(TEXT.filter(str.strip), TEXT, st.integers(1, 4), st.booleans())
@pytest.mark.filterwarnings("ignore:1 of 1 questions were cut")
def test_places_are_those_in_the_original_context(kind, question, context, nbest, no_answer):
    for length in (12, 40):
        (found,) = reader(kind=kind, max_length=length).answer([question], [context], nbest=nbest, no_answer=no_answer)
        answers = [found, *found.others]
        assert len(answers) <= nbest
        assert len({(one.start, one.end) for one in answers}) == len(answers)
        assert [one.score for one in answers] == sorted((one.score for one in answers), reverse=True)
        for one in answers:
            assert context[one.start : one.end] == one.text == one.text.strip()
            assert 0 <= one.score <= 1.0001
            assert one.text or no_answer or not any(not c.isspace() for c in context) or kind == "wordpiece"
        assert sum(one.score for one in answers) <= 1.0001


def windows_of(model, limit, stride):
    ((*windows,),) = model.tokenizer.encode_spans([QUESTION], [CONTEXT], max_length=limit, stride=stride)
    return windows


@pytest.mark.parametrize("limit", [20, 24, 400])
def test_the_best_over_all_windows_by_hand(limit):
    """Every span of every window, compared by the sum of its two scores (Devlin et al. 2019)."""
    model = reader(max_length=limit)
    scores, total, nothing = {}, 0.0, math.inf
    for window in windows_of(model, min(limit, 384), min(128, limit // 4)):
        logits = model.logits([window.ids], segments=[window.segments])[0].double()
        inside = [i for i, side in enumerate(window.sides) if side == 1]
        total += math.exp(logits[[0, *inside], 0].logsumexp(0)) * math.exp(logits[[0, *inside], 1].logsumexp(0))
        nothing = min(nothing, float(logits[0].sum()))
        for i in inside:
            for j in range(i, min(i + 30, inside[-1] + 1)):
                place = window.spans[i][0], window.spans[j][1]
                scores[place] = max(scores.get(place, -math.inf), float(logits[i, 0] + logits[j, 1]))
    best = sorted(scores.items(), key=lambda item: -item[1])[:4]
    (found,) = model.answer([QUESTION], [CONTEXT], nbest=4)
    for one, ((start, end), score) in zip([found, *found.others], best, strict=True):
        assert (one.start, one.end, one.text) == (start, end, CONTEXT[start:end])
        assert one.score == pytest.approx(math.exp(score) / total, rel=1e-4)
    (may,) = model.answer([QUESTION], [CONTEXT], no_answer=True)
    if nothing > best[0][1]:
        assert (may.text, may.start, may.end) == ("", 0, 0)
        assert may.score == pytest.approx(math.exp(nothing) / total, rel=1e-4)
    else:
        assert may.text == found.text


@pytest.mark.parametrize("doubts", [0, 1])
def test_no_answer_must_be_the_best_of_every_window(monkeypatch, doubts):
    model = reader(max_length=24)

    def scores(ids, **_):
        assert len(ids) > 3
        found = [torch.zeros(len(row), 2) for row in ids]
        for number, row in enumerate(found):
            row[0] = 0 if number == 2 and doubts else 5
            row[7] = 1
        return found

    monkeypatch.setattr(model, "logits", scores)
    (found,) = model.answer([QUESTION], [CONTEXT], no_answer=True, nbest=5000)
    assert (found.text == "") == (doubts == 0)
    assert [one.text for one in [found, *found.others]].count("") == 1
    assert model.answer([QUESTION], [CONTEXT])[0].text


def doubt_by_hand(model):
    """The lowest score of the first token over all windows, less the best one of a span."""
    best, nothing = -math.inf, math.inf
    for window in windows_of(model, 24, 6):
        start, end = model.logits([window.ids], segments=[window.segments])[0].double().unbind(-1)
        inside = [i for i, side in enumerate(window.sides) if side == 1]
        nothing = min(nothing, float(start[0] + end[0]))
        best = max(best, *(float(start[i] + end[j]) for i in inside for j in inside if i <= j < i + 30))
    return nothing - best


def test_the_folder_says_whether_and_when_there_is_no_answer():
    plain = reader(max_length=24)
    doubt = doubt_by_hand(plain)
    assert doubts(plain, [QUESTION, QUESTION], [CONTEXT, " "]) == [
        (plain.answer([QUESTION], CONTEXT)[0].text, pytest.approx(doubt, abs=1e-4)),
        ("", math.inf),
    ]
    for threshold in (doubt - 0.01, doubt + 0.01):
        model = reader(max_length=24, no_answer=True, no_answer_threshold=threshold)
        (found,) = model.answer([QUESTION], CONTEXT)
        assert (found.text == "") == (doubt > threshold)
        assert model.answer([QUESTION], CONTEXT, no_answer=True) == [found]
        assert model.answer([QUESTION], CONTEXT, no_answer=False) == plain.answer([QUESTION], CONTEXT)
    never = reader(max_length=24, no_answer=False)
    assert never.answer([QUESTION], CONTEXT) == plain.answer([QUESTION], CONTEXT)
    assert never.answer([QUESTION], CONTEXT, no_answer=True) == plain.answer([QUESTION], CONTEXT, no_answer=True)


def test_a_threshold_moves_no_answer_and_nothing_else():
    ranks, found_all = [], []
    for threshold in (-1000.0, 0.0, 1000.0):
        (found,) = reader(no_answer=True, no_answer_threshold=threshold).answer(["the cat ?"], "two dogs", nbest=50)
        answers = [replace(one, others=[]) for one in (found, *found.others)]
        ranks.append([one.text for one in answers].index(""))
        found_all.append(sorted(answers, key=lambda one: (one.start, one.end)))
    assert ranks[0] == 0 <= ranks[1] <= ranks[2] == len(found_all[0]) - 1 > 1
    assert found_all[0] == found_all[1] == found_all[2]


@pytest.mark.parametrize(
    ("facts", "written"),
    [
        ({}, {}),
        ({"no_answer": False}, {"no_answer": False}),
        ({"no_answer": True, "no_answer_threshold": -1.25}, {"no_answer": True, "no_answer_threshold": -1.25}),
    ],
)
def test_no_answer_travels_with_the_folder(tmp_path, facts, written):
    from transformers import AutoModelForQuestionAnswering

    model = reader(**facts)
    model.save(tmp_path / "ours")
    raw = json.loads((tmp_path / "ours" / "config.json").read_text())
    assert {key: value for key, value in raw.items() if "answer" in key} == written
    AutoModelForQuestionAnswering.from_pretrained(tmp_path / "ours").save_pretrained(tmp_path / "theirs")
    for name in ("ours", "theirs"):
        again = qkv.load(tmp_path / name, device="cpu")
        assert again.no_answer == facts.get("no_answer")
        assert again.no_answer_threshold == facts.get("no_answer_threshold", 0.0)
    again = qkv.load(tmp_path / "ours", device="cpu")
    [found], [expected] = again.answer([QUESTION], CONTEXT), model.answer([QUESTION], CONTEXT)
    assert (found.text, found.start, found.end) == (expected.text, expected.start, expected.end)
    assert found.score == pytest.approx(expected.score, rel=1e-4)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"no_answer": "yes"}, "no_answer must be true or false, got 'yes'"),
        ({"no_answer": 1}, "no_answer must be true or false, got 1"),
        ({"no_answer": True, "no_answer_threshold": math.nan}, "no_answer_threshold must be a finite number, got nan"),
        ({"no_answer": True, "no_answer_threshold": "0"}, "no_answer_threshold must be a finite number, got '0'"),
        ({"no_answer": True, "no_answer_threshold": True}, "no_answer_threshold must be a finite number, got True"),
    ],
)
def test_what_cannot_be_is_damage(tmp_path, facts, said):
    reader().save(tmp_path / "model")
    file = tmp_path / "model" / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | facts))
    with pytest.raises(QkvError, match=f"config.json is invalid: {said}"):
        qkv.load(tmp_path / "model", device="cpu", verify=False)


def test_one_context_for_all_and_any_company():
    model = reader(max_length=30)
    questions = [QUESTION, "who had tea?", "what?"]
    together = model.answer(questions, CONTEXT)
    for question, found in zip(questions, together, strict=True):
        (alone,) = model.answer([question], [CONTEXT])
        assert replace(alone, score=0) == replace(found, score=0)
        assert alone.score == pytest.approx(found.score, abs=1e-5)
    assert model.answer([], []) == model.answer([], CONTEXT) == []


def test_a_long_question_is_cut_and_said_aloud():
    model = reader(max_length=20)
    with pytest.warns(UserWarning, match="1 of 2 questions were cut to half of a window"):
        found = model.answer([QUESTION * 9, "who?"], CONTEXT)
    assert all(CONTEXT[one.start : one.end] == one.text != "" for one in found)
    with pytest.warns(UserWarning, match="1 of 1"):
        assert found[0] == model.answer([QUESTION * 30], CONTEXT)[0]


@pytest.mark.parametrize(
    ("questions", "contexts", "options", "said"),
    [
        ("who?", "x", {}, "list of texts"),
        (["who?", " "], "x", {}, "question 1 is empty"),
        (["who?"], ["x", "y"], {}, "1 questions and 2 contexts"),
        (["who?"], "x", {"nbest": 0}, "nbest must be at least 1, got 0"),
    ],
)
def test_wrong_use(questions, contexts, options, said):
    with pytest.raises(UsageError, match=said):
        reader().answer(questions, contexts, **options)


@pytest.mark.filterwarnings("ignore:1 of 1 questions were cut")
def test_other_models():
    with pytest.raises(UsageError, match=r"this bert cannot answer: it has no head for that \(it can tag, embed"):
        make_reader("tag").answer(["who?"], "x")
    with pytest.raises(UsageError, match="leaves no room"):
        reader(max_length=4).answer(["who?"], "the cat")
