"""One pass over the examples: the same scores as `evaluate`, trivial answers, and the worst mistakes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.metrics import accuracy_score, f1_score, mean_squared_error

from qkv.common.errors import UsageError
from qkv.data.config import DataConfig
from qkv.data.examples import Tagged
from qkv.exams.evaluate import evaluate
from qkv.exams.study import study
from qkv.tasks.base import Task
from qkv.tasks.exam import Exam
from qkv.tasks.tag import TagTask
from tests.predict.conftest import make_translator
from tests.predict.readers import NER, POS, make_reader

NOUNS = ["cat", "dog", "mat", "tea", "snow"]
TEXTS = [f"the {NOUNS[i % 5]} sat on the {NOUNS[i // 5 % 5]}" + " and so on" * (i % 3) for i in range(40)]


def write(file: Path, head: str, rows: list[str]) -> list[str]:
    file.write_text("\n".join([head, *(f"{text}\t{row}" for text, row in zip(TEXTS, rows, strict=True))]) + "\n")
    return [str(file)]


def conll(file: Path, rows: list[tuple[list[str], list[str]]]) -> list[str]:
    blocks = ("\n".join(f"{w}\t{t}" for w, t in zip(words, tags, strict=True)) for words, tags in rows)
    file.write_text("\n\n".join(blocks) + "\n")
    return [str(file)]


def test_a_class_for_each_text(tmp_path: Path) -> None:
    model = make_reader("pool", "classify", labels=("a", "b", "c"))
    gold = ["a" if i % 4 else "b" for i in range(40)]
    files = write(tmp_path / "t.tsv", "text\tlabel", gold)
    found = study(model, files)
    assert list(found.scores) == evaluate(model, files)
    said = [label.label for label in model.classify(TEXTS)]
    dummy = DummyClassifier().fit(TEXTS, gold).predict(TEXTS)
    ((name, trivial),) = found.trivial.items()
    assert name == "always 'a'"
    assert trivial[0].value == pytest.approx(accuracy_score(gold, dummy))
    assert trivial[1].value == pytest.approx(f1_score(gold, dummy, average="macro"))
    wrong = [(label.score, text) for label, text, right in zip(model.classify(TEXTS), TEXTS, gold, strict=True)
             if label.label != right]  # fmt: skip
    assert found.wrong == len(wrong) == sum(a != b for a, b in zip(said, gold, strict=True))
    assert [one.chance for one in found.mistakes] == sorted((chance for chance, _ in wrong), reverse=True)[:20]
    assert found.mistakes[0].texts[0] in TEXTS
    assert found.mistakes[0].where.startswith(f"{files[0]}:")
    assert found.calibration is not None
    assert sum(one.count for one in found.calibration.bins) == found.count == 40
    assert sum(one.score.count for one in found.lengths) == 40
    assert found.texts == 1


def test_training_examples_decide_the_trivial_answer(tmp_path: Path) -> None:
    model = make_reader("pool", "classify", labels=("a", "b", "c"))
    files = write(tmp_path / "t.tsv", "text\tlabel", ["a"] * 39 + ["b"])
    from qkv.data.examples import Classified

    known = [Classified("x", None, ("c",))] * 3 + [Classified("y", None, ("a",))]
    ((name, trivial),) = study(model, files, known=known).trivial.items()
    assert (name, trivial[0].value) == ("always 'c'", 0)


def test_any_number_of_labels(tmp_path: Path) -> None:
    model = make_reader("pool", "classify", labels=("a", "b", "c"), multi_label=True)
    gold = [["a", "a,b", "", "c"][i % 4] for i in range(40)]
    found = study(model, write(tmp_path / "t.tsv", "text\tlabel", gold), DataConfig(separator=","))
    assert found.trivial.keys() == {"always 'a'"}
    assert {one.label for one in found.classes} == {"a", "b", "c"}
    assert {one.label: one.support for one in found.classes} == {"a": 20, "b": 10, "c": 10}
    assert found.calibration is None
    faults = [len(set(m.answer.split(", ")) ^ set(m.correct.split(", "))) for m in found.mistakes]
    assert faults[0] >= 2


def test_a_number_for_each_text(tmp_path: Path) -> None:
    model = make_reader("pool", "regress")
    gold = [float(i % 7) for i in range(40)]
    found = study(model, write(tmp_path / "t.tsv", "text\tscore", list(map(str, gold))))
    ((name, trivial),) = found.trivial.items()
    assert name == f"always the mean, {np.mean(gold):.4g}"
    assert trivial[2].value == pytest.approx(mean_squared_error(gold, [np.mean(gold)] * 40))
    assert np.isnan(trivial[0].value)
    errors = [abs(float(one.answer) - float(one.correct)) for one in found.mistakes]
    assert errors == sorted(errors, reverse=True)
    assert found.confusion is None
    assert len(found.points) == 40
    json.dumps(found.to_dict(), allow_nan=False)


def test_names_and_the_tags_of_each_word(tmp_path: Path) -> None:
    model = make_reader("tag", labels=NER)
    words = ["The", "cat", "sat", "New York"]  # a word with a space, as CoNLL-U has them
    rows = [(words, ["O", "B-PER", "O", "B-LOC"])] * 3 + [(["tea"], ["O"])]
    files = conll(tmp_path / "t.conll", rows)
    found = study(model, files)
    assert list(found.scores) == evaluate(model, files)
    assert found.trivial.keys() == {"every tag O"}  # the scored words themselves may not teach
    known = [Tagged(tuple(words), ("O", "B-PER", "O", "O"), ""), Tagged(("cat", "tea"), ("O", "O"), "")]
    known += [Tagged(("cat",), ("B-PER",), "")]
    both = study(model, files, known=known).trivial
    assert both["every tag O"][0].value == 0
    assert both["each word's most frequent tag"][0].value == pytest.approx(2 * 3 / (3 + 6))
    assert found.confusion is not None
    assert found.mistakes
    assert "/" in found.mistakes[0].answer


def test_plain_tags_have_a_most_frequent_one(tmp_path: Path) -> None:
    model = make_reader("tag", labels=POS)
    files = conll(tmp_path / "t.conll", [(["the", "cat", "sat"], ["DET", "NOUN", "VERB"]), (["tea"], ["NOUN"])])
    ((name, (trivial,)),) = study(model, files).trivial.items()
    assert (name, trivial.value, trivial.count) == ("every tag NOUN", 0.5, 4)


def test_a_translation_beside_its_source(tmp_path: Path) -> None:
    model = make_translator("transformer-tiny")
    (tmp_path / "a.en").write_text("The cat sleeps.\nA dog runs.\n")
    (tmp_path / "a.fr").write_text("The cat sleeps.\nUn chien court.\n")
    files = [str(tmp_path / "a.en"), str(tmp_path / "a.fr")]
    found = study(model, files, beam=1)
    assert list(found.scores) == evaluate(model, files, beam=1)
    assert "beam:1" in found.trivial["the source, copied"][0].signature
    assert 0 < found.trivial["the source, copied"][0].value < 100
    assert found.confusion is None
    assert [one.correct for one in found.mistakes]


def test_answers_to_questions(tmp_path: Path) -> None:
    model = make_reader("span", no_answer=True)
    context = "The cat sat on the mat, and the dog ran home."
    asked = [{"id": "1", "question": "Who sat?", "answers": [{"text": "The cat", "answer_start": 0}]},
             {"id": "2", "question": "Who flew?", "answers": []}]  # fmt: skip
    paragraphs = [{"context": context, "qas": asked}]
    (tmp_path / "q.json").write_text(json.dumps({"data": [{"title": "t", "paragraphs": paragraphs}]}))
    found = study(model, [str(tmp_path / "q.json")])
    assert list(found.scores) == evaluate(model, [str(tmp_path / "q.json")])
    assert found.trivial["never an answer"][0].value == 0.5
    assert found.texts == 2
    assert found.mistakes[0].texts[1] == context


def test_only_the_worst_are_kept(tmp_path: Path) -> None:
    model = make_reader("pool", "classify", labels=("a", "b", "c"))
    files = write(tmp_path / "t.tsv", "text\tlabel", ["abc"[i % 3] for i in range(40)])
    whole = study(model, files, mistakes=100)
    assert whole.wrong == len(whole.mistakes) > 5
    assert study(model, files, mistakes=5).mistakes == whole.mistakes[:5]
    assert study(model, files, mistakes=0).mistakes == ()


def test_a_pipe_is_refused_instead_of_waiting(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.tsv"
    os.mkfifo(pipe)
    model = make_reader("pool", "classify", labels=("a", "b", "c"))
    with pytest.raises(UsageError, match="must be read more than once"):
        study(model, [str(pipe)], DataConfig(text="text", label="label", format="tsv"))


def test_a_task_of_ones_own_with_scores_only(tmp_path: Path) -> None:
    class Mine(TagTask):
        """Counts sentences."""

        predictions = Task.predictions

        def score(self, exam: Exam) -> list[Any]:
            from qkv.evaluation.classification import Accuracy

            metric = Accuracy(name="mine")
            for _ in exam.examples(self):
                metric.add(1, 1)
            return [metric.result()]

    model = make_reader("tag", labels=POS)
    files = conll(tmp_path / "t.conll", [(["the", "cat"], ["DET", "NOUN"]), (["tea"], ["NOUN"])])
    found = study(model, files, task=Mine(Mine.Settings(), DataConfig()))
    assert [(score.name, score.count) for score in found.scores] == [("mine", 2)]
    assert (found.count, found.trivial, found.mistakes) == (2, {}, ())
