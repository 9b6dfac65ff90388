"""Tasks as text: what is read and said, how several share a step, how answers are scored, and what is refused."""

from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import pearsonr
from sklearn.metrics import f1_score, matthews_corrcoef

from qkv.checkpoints.text_tasks import TextTask
from qkv.common.errors import QkvError, UsageError
from qkv.data.config import DataConfig
from qkv.evaluation.score import Score
from qkv.recipes.schema import read_recipe
from qkv.runs.run import Prepared, check, prepare
from qkv.tasks.base import Task
from qkv.tasks.exam import Exam
from qkv.tasks.split import in_turn, training_examples, validation_examples, validation_streams
from qkv.tasks.table import read_task
from qkv.tasks.text_kinds import number, rounded
from qkv.tasks.text_to_text import TextMixture
from tests.tasks.test_tasks import assert_resumes, batches, loader

TINY = "{dim=32, num_layers=1, num_decoder_layers=1, num_heads=2, head_dim=16, ff_dim=32}"


@dataclass(frozen=True)
class Made:
    folder: Path

    def __getitem__(self, name: str) -> str:
        return str(self.folder / name)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder, draw = tmp_path_factory.mktemp("data"), random.Random(0)
    rows = [
        f"this {draw.choice(['film', 'song'])} is {n % 7} {'good' if n % 3 else 'bad'}\t{n % 3 and 1}"
        for n in range(90)
    ]
    (folder / "tone.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
    rows = [f"a {n} b\tc {n}\t{n / 20:.2f}" for n in range(100)]
    (folder / "near.tsv").write_text("\n".join(["sentence1\tsentence2\tscore", *rows]) + "\n")
    (folder / "a.en").write_text("\n".join(f"the cat {n % 9} and dog {n}" for n in range(80)) + "\n")
    (folder / "a.fr").write_text("\n".join(f"le chat {n % 9} et chien {n}" for n in range(80)) + "\n")
    asked = [
        {
            "id": str(n),
            "question": f"who is {n}",
            "context": f"the cat is {n}",
            "answers": [{"text": "cat", "answer_start": 4}],
        }
        for n in range(40)
    ]
    asked[7]["answers"] = []
    (folder / "asked.jsonl").write_text("".join(json.dumps(one) + "\n" for one in asked))
    return Made(folder)


MIX = {
    "tone": {"kind": "classify", "prefix": "tone: ", "labels": {"0": "negative", "1": "positive"}},
    "near": {"kind": "regress", "prefix": "near: ", "step": 0.5, "weight": 2.0},
    "en-fr": {"kind": "translate", "prefix": "to French: "},
    "asked": {"kind": "answer", "prefix": "question: "},
}
FILES = {"tone": "tone.tsv", "near": "near.tsv", "en-fr": ["a.en", "a.fr"], "asked": "asked.jsonl"}


def mixture(files: Made, **changes: Any) -> Task:
    data = DataConfig(
        train=tuple(files[name] for name in ("tone.tsv", "near.tsv", "a.en", "a.fr", "asked.jsonl")),
        held_out=0.2,
        mix={name: {"files": patterns} for name, patterns in FILES.items()},
    )
    return read_task("text-to-text", {"mix": MIX}, replace(data, **changes)).resolved(lambda line: None)


def made(out: Path, files: Made, objective: dict[str, Any], data: dict[str, Any]) -> Prepared:
    asked = [f"out={out}", "model.preset=t5-small", f"model.set={TINY}", "tokenizer.vocab_size=300", "train.workers=1"]
    recipe = read_recipe("text-to-text", asked, debug=True)
    recipe = replace(recipe, auto=None, objective=objective, data=replace(recipe.data, held_out=0.2, **data))
    check(recipe)
    out.mkdir()
    return prepare(recipe, out, lambda line: None)


@pytest.fixture(scope="module")
def prepared(files: Made, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    mixed = mixture(files)
    data = {"train": mixed.data.train, "mix": mixed.data.mix}
    return made(tmp_path_factory.mktemp("mix") / "run", files, {"mix": MIX, "smoothing": 0.1}, data)


def one(kind: str, path: str | tuple[str, ...], **settings: Any) -> Task:
    paths = (path,) if isinstance(path, str) else path
    return read_task("text-to-text", {"kind": kind, **settings}, DataConfig(train=paths)).resolved(lambda line: None)


# What is read and said


def test_each_kind_is_written_as_in_the_paper(files: Made) -> None:
    def first(task: Task) -> tuple[str, ...]:
        return tuple(task.texts(next(iter(task.examples(task.data.train)))))

    assert first(one("translate", (files["a.en"], files["a.fr"]), prefix="translate English to French: ")) == (
        "translate English to French: the cat 0 and dog 0",
        "le chat 0 et chien 0",
    )
    source, answer = first(one("classify", files["tone.tsv"], prefix="sst2 sentence: ", labels={"0": "negative"}))
    assert source.startswith("sst2 sentence: this ")
    assert answer == "negative"
    assert first(one("regress", files["near.tsv"], prefix="stsb sentence1: ")) == (
        "stsb sentence1: a 0 b sentence2: c 0",
        "0.0",
    )
    assert first(one("answer", files["asked.jsonl"], prefix="question: ")) == (
        "question: who is 0 context: the cat is 0",
        "cat",
    )
    assert first(one("answer", files["asked.jsonl"], between=" text: "))[0] == "who is 0 text: the cat is 0"


@pytest.mark.parametrize(
    ("value", "step", "text"),
    [(2.57, 0.2, "2.6"), (3.8, 0.2, "3.8"), (0.05, 0.2, "0.0"), (-0.04, 0.2, "0.0"), (5, 0.2, "5.0"), (2.6, 1, "3"),
     (1234, 100, "1200"), (0.37, 0.25, "0.25"), (-1.3, 0.5, "-1.5")],
)  # fmt: skip
def test_numbers_are_rounded_as_in_the_paper(value: float, step: float, text: str) -> None:
    assert rounded(value, step) == text


@given(st.floats(-100, 100), st.sampled_from([0.1, 0.2, 0.25, 0.5, 1.0, 3.0]))
def test_a_rounded_number_is_near_and_is_read_again(value: float, step: float) -> None:
    found = number(rounded(value, step))
    assert found is not None
    assert abs(found - value) <= step / 2 + 1e-6
    assert math.isclose(found / step, round(found / step), abs_tol=1e-6)


@pytest.mark.parametrize("said", ["", "three", "nan", "inf", "1.2.3", "positive", "2,5"])
def test_words_that_are_no_number(said: str) -> None:
    assert number(said) is None


def test_rows_hold_both_texts_and_their_ends(prepared: Prepared) -> None:
    text = prepared.context.text
    for name, task in prepared.task.parts().items():
        store, examples = prepared.train[name], list(training_examples(task))
        assert len(store) == len(examples) > 0
        for number_, example in enumerate(examples):
            source, target = (store.gather(side, np.array([number_]))[0].tolist() for side in ("source", "target"))
            assert [source, target] == text.encode(list(task.texts(example))).ids
            assert source[-1] == target[-1] == text.specials["end"]


def test_no_answer_is_no_words(prepared: Prepared) -> None:
    end = prepared.context.text.specials["end"]
    lengths = [prepared.train["asked"].lengths("target"), prepared.valid["asked"].lengths("target")]
    assert np.concatenate(lengths).min() == 1
    assert end == prepared.context.config.end_id


# Several tasks


def test_parts_share_a_step_by_their_weights(prepared: Prepared) -> None:
    task = prepared.task
    assert isinstance(task, TextMixture)
    assert {name: task.share(name, 500) for name in MIX} == {"tone": 100, "near": 200, "en-fr": 100, "asked": 100}
    assert list(task.parts()) == sorted(MIX)
    for batch, _ in batches(loader(prepared, prepared.train, tokens=500), 4):
        sizes = {n: len(part.wanted) + part.pairs.source.layout.num_rows for n, part in batch.items()}
        assert all(sizes[name] <= task.share(name, 500) for name in MIX)
        assert sizes["near"] > 100
    weights = task.objective_for(prepared.context).weights
    assert weights == {f"{name}/translate": 2.0 if name == "near" else 1.0 for name in MIX}
    assert all(part.settings.smoothing == 0.1 for part in task.parts().values())


def test_a_mixture_of_texts_resumes(prepared: Prepared) -> None:
    assert_resumes(prepared)


def test_the_folder_names_every_task(prepared: Prepared) -> None:
    tasks = prepared.task.folder_facts(prepared.context)["text_tasks"]
    assert tasks["tone"].labels == {"0": "negative", "1": "positive"}
    assert (tasks["near"].low, tasks["near"].high, tasks["near"].step) == (0.0, 4.95, 0.5)
    assert {name: task.prefix for name, task in tasks.items()} == {name: MIX[name]["prefix"] for name in MIX}


def test_validation_takes_the_tasks_in_turn(files: Made) -> None:
    task = mixture(files)
    found = list(validation_examples(task))
    streams = [list(stream) for stream in validation_streams(task)]
    assert sorted(map(repr, found)) == sorted(repr(example) for stream in streams for example in stream)
    assert {name for name, _ in found[:4]} == set(MIX)
    both = [*found, *training_examples(task)]
    assert len(both) == len({repr(example) for example in both}) == 90 + 100 + 80 + 40


@given(st.lists(st.lists(st.integers(), max_size=5), max_size=4))
def test_in_turn_loses_nothing(streams: list[list[int]]) -> None:
    found = list(in_turn([iter([(i, x) for x in stream]) for i, stream in enumerate(streams)]))
    for i, stream in enumerate(streams):
        assert [x for number_, x in found if number_ == i] == stream
    assert [i for i, _ in found[: len(streams)]] == [i for i, s in enumerate(streams) if s] or not all(streams)


# Scoring


def model_that_says(tasks: dict[str, TextTask], answers: dict[str, str]) -> Any:
    """A model that answers sources from a table, and remembers how it was asked."""

    def translate(sources: list[str], **options: Any) -> list[str]:
        assert (options["source_prefix"], options["split"]) == ("", False)
        asked.append(options["beam"])
        return [answers[source] for source in sources]

    asked: list[int] = []
    return SimpleNamespace(text_tasks=tasks, translate=translate, asked=asked, family="t5")


def scores_of(task: Task, answers: dict[str, str], **exam: Any) -> tuple[dict[str, Score], Any]:
    facts = task.survey(task.examples(task.data.train), lambda line: None)
    tasks = {name: TextTask(**one) for name, one in facts["text_tasks"].items()}
    model = model_that_says(tasks, answers)
    scores = task.score(Exam(model, task.data.train, **exam))
    return {f"{score.name}{number_ or ''}": score for number_, score in enumerate_same(scores)}, model


def enumerate_same(scores: list[Score]) -> list[tuple[int, Score]]:
    seen: dict[str, int] = {}
    found = []
    for score in scores:
        seen[score.name] = seen.get(score.name, -1) + 1
        found.append((seen[score.name], score))
    return found


def test_an_answer_that_is_no_label_is_wrong_and_counted(files: Made) -> None:
    task = one("classify", files["tone.tsv"], prefix="tone: ", labels={"0": "negative", "1": "positive"})
    draw, golds, said, answers = random.Random(1), [], [], {}
    for example in task.examples(task.data.train):
        source, right = task.texts(example)
        if source not in answers:
            answers[source] = draw.choice([right, right, "negative", " positive ", "nonsense", ""])
        golds.append(right)
        said.append(answers[source].strip())
    found, model = scores_of(task, answers)
    assert found["accuracy"].value == pytest.approx(np.mean([a == b for a, b in zip(said, golds, strict=True)]))
    share = np.mean([a not in ("negative", "positive") for a in said])
    assert found["invalid"].value == pytest.approx(share)
    assert 0.1 < share < 0.6
    known = ["negative", "positive"]
    assert found["f1"].value == pytest.approx(f1_score(golds, said, labels=known, average="macro"))
    assert found["matthews"].value == pytest.approx(
        matthews_corrcoef(golds, [one if one in known else "other" for one in said])
    )
    assert set(model.asked) == {1}  # one of a few labels needs no beam
    assert "answer:text|beam:1" in found["accuracy"].signature


def test_a_number_that_is_none_counts_as_the_farthest(files: Made) -> None:
    task = one("regress", files["near.tsv"])
    golds, said, answers = [], [], {}
    for place, example in enumerate(task.examples(task.data.train)):
        source, right = task.texts(example)
        answers[source] = "far" if place % 10 == 0 else str(float(right) + place % 3)
        golds.append(example.score)
        said.append((0.0 if example.score > 4.95 / 2 else 4.95) if place % 10 == 0 else float(answers[source]))
    found, _ = scores_of(task, answers)
    assert found["pearson"].value == pytest.approx(pearsonr(said, golds)[0])
    assert found["mse"].value == pytest.approx(np.mean((np.array(said) - golds) ** 2))
    assert found["invalid"].value == 0.1
    assert "invalid:farthest-of-0-4.95" in found["pearson"].signature


def test_translations_and_answers_are_searched_with_a_beam(files: Made) -> None:
    task = one("answer", files["asked.jsonl"])
    found, model = scores_of(
        task, {next(iter(task.texts(e))): "The cat." for e in task.examples(task.data.train)}, beam=3
    )
    assert found["exact-match"].value == 39 / 40
    assert found["answer-f1"].parts == {"answerable": 1.0, "unanswerable": 0.0}
    assert set(model.asked) == {3}
    task = one("translate", (files["a.en"], files["a.fr"]), prefix="x: ")
    perfect = dict(tuple(task.texts(example)) for example in task.examples(task.data.train))
    assert scores_of(task, perfect)[0]["BLEU"].value == pytest.approx(100.0)


def test_a_mixture_scores_each_task_as_it_scores_alone(files: Made) -> None:
    task = mixture(files)
    answers = {}
    for name, example in training_examples(task):
        source, right = task.parts()[name].texts(example)
        answers[source] = right if len(answers) % 3 else "nothing"
    given_ = list(training_examples(task))
    found, model = scores_of(task, answers, given=given_)
    for name, part in task.parts().items():
        mine = [example for part_name, example in given_ if part_name == name]
        alone = part.score(Exam(model, (), given=mine))
        theirs = [score for score in found.values() if score.name.startswith(f"{name}/")]
        assert [score.value for score in theirs] == [score.value for score in alone]
    firsts = ["asked/exact-match", "en-fr/BLEU", "near/pearson", "tone/accuracy"]
    values = [found[name].value / (100 if "BLEU" in name else 1) for name in firsts]
    assert found["average"].value == pytest.approx(np.mean(values))
    assert found["average"].low < found["average"].value < found["average"].high
    assert found["average"].signature == f"of:{','.join(firsts)}"


def test_tasks_without_examples_are_not_scored(files: Made) -> None:
    task = mixture(files)
    (name, example), *_ = [(n, e) for n, e in training_examples(task) if n == "tone"]
    found, _ = scores_of(task, {next(iter(task.parts()[name].texts(example))): "positive"}, given=[(name, example)])
    assert {score.split("/")[0] for score in found} == {"average", "tone"}


def test_a_label_that_was_not_in_training_is_a_bad_row(files: Made, tmp_path: Path) -> None:
    task = one("classify", files["tone.tsv"])
    facts = task.survey(task.examples(task.data.train), lambda line: None)["text_tasks"]
    model = model_that_says({"classify": TextTask(**facts["classify"])}, {"x": "0"})
    (tmp_path / "new.tsv").write_text("text\tlabel\nx\t0\ny\t7\n")
    with pytest.raises(QkvError, match=r"new.tsv:3: unknown label '7' \(allowed: 0, 1\)"):
        task.score(Exam(model, [str(tmp_path / "new.tsv")]))


# What is refused


def refused(files: Made, says: str, mix: Any = None, **objective: Any) -> None:
    found = {"mix": mix} if mix is not None else {}
    data = DataConfig(train=(files["tone.tsv"],), mix={name: {"files": "*.tsv"} for name in mix or {}})

    def ask() -> None:
        task = read_task("text-to-text", {**found, **objective}, data).resolved(lambda line: None)
        task.survey(task.examples(task.data.train), lambda line: None)

    with pytest.raises(UsageError, match=says):
        ask()


def test_what_cannot_be_a_task_is_said(files: Made) -> None:
    refused(files, r"unknown objective.kind 'sing' \(allowed: translate, classify, regress, answer\)", kind="sing")
    refused(files, r"objective.step must be above 0, got 0", kind="regress", step=0.0)
    refused(files, r"unknown label in objective.labels '9' \(allowed: 0, 1\)", kind="classify", labels={"9": "x"})
    refused(files, r"two labels have the answer 'x'", kind="classify", labels={"0": "x", "1": "x"})
    refused(files, r"objective.labels.0 must be a text, got 3", kind="classify", labels={"0": 3})
    refused(files, r"objective.labels is for objective.kind=classify", kind="regress", labels={"0": "x"})
    refused(files, r"unknown key of TextSettings 'objective.prefixes'; did you mean 'objective.prefix'", prefixes="x")
    wrong = {"a": {"kind": "classify"}}
    refused(files, r"objective.mix.a.prefix is missing: the tasks of one model are told apart by their prefixes", wrong)
    same = {name: {"kind": "classify", "prefix": "x: "} for name in "ab"}
    refused(files, r"the parts a and b have the same prefix 'x: '", same)
    refused(
        files, r"objective.mix.a.weight must be a number of at least 0, got -1", {"a": {"prefix": "x", "weight": -1}}
    )
    refused(files, r"all parts of objective.mix have the weight 0", {"a": {"prefix": "x", "weight": 0}})
    refused(files, r"objective.mix.a must be a table, got 3", {"a": 3})


def test_parts_and_files_must_belong_together(files: Made) -> None:
    with pytest.raises(
        UsageError, match=r"objective.mix has tone and data.mix has tune: they must name the same parts"
    ):
        read_task("text-to-text", {"mix": {"tone": MIX["tone"]}}, DataConfig(mix={"tune": {"files": "*"}}))
    with pytest.raises(UsageError, match=r"data.test: other.tsv belongs to no part \(data.mix.NAME.files\)"):
        mixture(files, test=("other.tsv",))
    with pytest.raises(UsageError, match=r"data.mix.asked.files matches none of .*a.en"):
        mixture(files, train=(files["a.en"],))
    with pytest.raises(UsageError, match=r"a mixture needs a table for each part in objective.mix$"):
        read_task("text-to-text", {}, DataConfig(mix={"tone": {"files": "*"}}))
    assert [part.data.test for part in mixture(files, test=(files["tone.tsv"],)).parts().values()] == [
        (), (), (), (files["tone.tsv"],),
    ]  # fmt: skip


def test_a_table_without_the_column_is_said(files: Made) -> None:
    data = DataConfig(train=(files["near.tsv"],), text="sentence1", label="kind")
    task = read_task("text-to-text", {"kind": "classify"}, data)
    with pytest.raises(QkvError, match=r"near.tsv.*kind.*sentence1, sentence2, score"):
        list(task.examples(task.data.train))


def test_several_labels_are_refused(tmp_path: Path) -> None:
    rows = [{"text": f"text {n}", "label": ["a", "b"]} for n in range(9)]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(UsageError, match=r"a text-to-text classifier gives one label: leave out data\.separator"):
        one("classify", str(tmp_path / "t.jsonl"))


def test_what_is_too_long_is_cut_left_out_or_refused(files: Made, tmp_path: Path) -> None:
    def lines(name: str, task: str, limit: int, **settings: Any) -> tuple[Prepared, list[str]]:
        data = {
            "train": (files[name],) if isinstance(name, str) else tuple(files[n] for n in name),
            "max_length": limit,
        }
        found = made(tmp_path / f"{task}{limit}", files, {"kind": task, **settings}, data)
        said: list[str] = []
        rows = list(found.task.rows(found.task.examples(data["train"]), replace(found.context, say=said.append)))
        assert max(len(row["source"]) for row in rows) <= limit
        assert max(len(row["target"]) for row in rows) <= limit
        return found, said

    _, said = lines("tone.tsv", "classify", 6, prefix="tone: ")
    assert said == ["classify: 90 texts are longer than 6 tokens and were cut"]
    whole = [
        len(ids)
        for ids in lines(("a.en", "a.fr"), "translate", 64)[0].context.text.encode(["the cat 1 and dog 77"]).ids
    ]
    limit = whole[0] - 1
    _, said = lines(("a.en", "a.fr"), "translate", limit)
    assert len(said) == 1
    assert said[0].endswith(f"examples are longer than {limit} tokens, in the text or in the answer, and were left out")
    with pytest.raises(UsageError, match=r"the answer 'a very long.*' has \d+ tokens, more than the limit of 7"):
        lines("tone.tsv", "classify", 7, labels={"0": "a very long answer that no one would ever give to any text"})


def test_a_model_without_a_decoder_is_refused(files: Made, tmp_path: Path) -> None:
    asked = [
        f"out={tmp_path / 'run'}",
        "model.preset=bert-tiny",
        f"data.train={files['tone.tsv']}",
        "objective.kind=classify",
    ]
    recipe = read_recipe("text-to-text", asked, debug=True)
    (tmp_path / "run").mkdir()
    with pytest.raises(UsageError, match="needs an encoder-decoder"):
        prepare(replace(recipe, auto=None), tmp_path / "run", lambda line: None)
