"""Answers against a port of SQuAD's evaluation script, and against transformers where it still has one."""

import collections
import math
import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.common.errors import UsageError
from qkv.evaluation.answers import AnswerF1, ExactMatch, best_threshold, exact, normalise, overlap

TEXT = st.one_of(
    st.lists(st.sampled_from(["the", "The", "an", "a", "dog", "Dog!", "thé", "U.S.", "10%", "", "—"])).map(" ".join),
    st.text(max_size=20),
)
GOLDS = st.lists(TEXT, max_size=3)
QUESTIONS = st.lists(st.tuples(TEXT, GOLDS), min_size=1, max_size=12)


def squad_normalise(answer):
    kept = "".join(letter for letter in answer.lower() if letter not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", kept).split())


def squad_f1(gold, prediction):
    gold, prediction = squad_normalise(gold).split(), squad_normalise(prediction).split()
    same = sum((collections.Counter(gold) & collections.Counter(prediction)).values())
    if len(gold) == 0 or len(prediction) == 0:
        return int(gold == prediction)
    if same == 0:
        return 0
    precision, recall = same / len(prediction), same / len(gold)
    return 2 * precision * recall / (precision + recall)


def squad(questions):
    exacts, f1s = [], []
    for prediction, golds in questions:
        golds = [gold for gold in golds if squad_normalise(gold)] or [""]
        exacts.append(max(int(squad_normalise(gold) == squad_normalise(prediction)) for gold in golds))
        f1s.append(max(squad_f1(gold, prediction) for gold in golds))
    return sum(exacts) / len(exacts), sum(f1s) / len(f1s)


def run(metric, questions):
    for prediction, golds in questions:
        metric.add(prediction, golds)
    return metric.result()


@given(QUESTIONS)
def test_agrees_with_the_script(questions):
    share, mean = squad(questions)
    assert run(ExactMatch(), questions).value == pytest.approx(share)
    assert run(AnswerF1(replicas=10), questions).value == pytest.approx(mean)


@given(TEXT, TEXT)
def test_agrees_with_transformers(prediction, gold):
    # transformers 5 dropped it; 4 has it.
    theirs = pytest.importorskip("transformers.data.metrics.squad_metrics")
    assert normalise(gold) == theirs.normalize_answer(gold)
    assert exact(prediction, gold) == theirs.compute_exact(gold, prediction)
    assert overlap(prediction, gold) == pytest.approx(theirs.compute_f1(gold, prediction))


def test_by_hand():
    assert normalise("The U.S.  Army, an army!") == "us army army"
    assert exact("The Beatles", "beatles.")
    assert overlap("the big dog", "a dog") == pytest.approx(2 / 3)
    assert overlap("dog dog", "dog") == pytest.approx(2 / 3)


def test_the_best_gold_answer_counts():
    questions = [("in 1999", ["in the year 1999", "1999", "In 1999."])]
    assert run(ExactMatch(), questions).value == 1
    assert run(AnswerF1(), questions).value == 1


def test_questions_without_an_answer():
    questions = [("", []), ("a dog", []), ("dog", ["dog"]), ("", ["dog"]), ("cat", [""])]
    for metric in (ExactMatch(), AnswerF1()):
        one = run(metric, questions)
        assert one.value == pytest.approx(2 / 5)
        assert one.parts == pytest.approx({"answerable": 1 / 2, "unanswerable": 1 / 3})


def with_threshold(answers, threshold):
    """F1 of SQuAD 2.0 where an answer with more doubt is left out."""
    return squad([("" if doubt > threshold else said, golds) for said, doubt, golds in answers])[1]


def test_the_best_threshold_by_hand():
    answers = [
        ("the dog", -3.0, ["dog"]),  # right
        ("cat", -1.0, []),  # wrong: better left out
        ("big dog", 0.5, ["dog"]),  # half right
        ("cat", 2.0, []),
        ("cat", 4.0, ["dog"]),  # wrong either way
        ("", math.inf, ["dog"]),  # nothing to say
    ]
    # left out beyond -3: 1 + 1 + 0 + 1; beyond 0.5: 1 + 0 + 2/3 + 1, which is less
    assert best_threshold(answers) == -2.0
    assert with_threshold(answers, -2.0) == pytest.approx(3 / 6)
    assert best_threshold([*answers, ("dog", 1.0, ["dog"])]) == 1.5  # now the cat is worth it
    assert best_threshold([("dog", 1.0, ["dog"])]) == 1.5  # everything is said
    assert best_threshold([("dog", 1.0, [])]) == 0.5  # nothing is
    assert best_threshold([("", math.inf, ["dog"])]) == best_threshold([]) == 0.0
    assert best_threshold([("dog", 1.0, ["dog"]), ("cat", 1.0, []), ("cat", 1.0, [])]) == 0.5  # alike: all or none


@given(st.lists(st.tuples(TEXT, st.integers(-3, 3) | st.just(math.inf), GOLDS), min_size=1))
def test_no_threshold_is_better(answers):
    answers = [("" if doubt == math.inf else said, doubt, golds) for said, doubt, golds in answers]
    found = with_threshold(answers, best_threshold(answers))
    assert found >= max(with_threshold(answers, step / 2) for step in range(-8, 9)) - 1e-9


def test_no_parts_where_every_question_has_an_answer():
    assert run(AnswerF1(), [("dog", ["dog"])]).parts == {}
    assert run(ExactMatch(), [("dog", ["dog"])]).parts == {}


@pytest.mark.parametrize("metric", [ExactMatch, AnswerF1])
def test_golds_are_a_list(metric):
    with pytest.raises(UsageError, match="'dog'"):
        metric().add("dog", "dog")
