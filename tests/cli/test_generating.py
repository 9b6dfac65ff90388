"""`qkv generate`, `qkv score` and `qkv classify --labels` as a shell sees them."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qkv.cli.generated import WIDTH, bar
from qkv.predict import Model
from tests.predict.writers import writer

PROMPTS = ["The small cat", "Two dogs"]


@pytest.fixture(scope="module")
def model() -> Model:
    return writer("char", max_length=128)


@pytest.fixture(scope="module")
def folder(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("writer") / "gpt"
    model.save(place)
    return place


@pytest.fixture
def qkv(shell: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Any]:
    monkeypatch.chdir(tmp_path)
    return lambda *arguments, **given: shell(*arguments, "--device", "cpu", **given)


def test_one_text_is_streamed_and_several_are_blocks(qkv: Any, folder: Path, model: Model) -> None:
    options: dict[str, Any] = {"temperature": 1.2, "seed": 7, "max_length": 12}
    given = ["--temperature", "1.2", "--seed", "7", "--max-length", "12"]
    one, two = (found.text for found in model.generate(PROMPTS, **options))
    assert qkv("generate", folder, PROMPTS[0], *given).out == f"{one}\n"
    assert qkv("generate", folder, *PROMPTS, *given).out == f"{one}\n---\n{two}\n"
    assert qkv("generate", folder, *PROMPTS, *given, "--echo").out == f"{PROMPTS[0]}{one}\n---\n{PROMPTS[1]}{two}\n"
    (three,) = model.generate(PROMPTS[:1], samples=3, **options)
    wanted = "\n---\n".join([three.text, *(other.text for other in three.others)])
    assert qkv("generate", folder, PROMPTS[0], *given, "--samples", "3").out == f"{wanted}\n"


def test_pieces_come_one_by_one(qkv: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces: list[str] = []
    monkeypatch.setattr("qkv.cli.generating.print_piece", pieces.append)
    qkv("generate", folder, PROMPTS[0], "--max-length", "12", "--greedy", "--stop", "\\n")
    assert len(pieces) > 6
    assert pieces[-1] == "\n"
    assert all(len(piece) <= 1 for piece in pieces)


def test_lines_of_a_file_give_one_line_each(qkv: Any, folder: Path, model: Model, tmp_path: Path) -> None:
    found = model.generate(PROMPTS, max_length=40, temperature=2.0)
    texts = [one.text.replace("\n", " ") for one in found]
    (tmp_path / "in.txt").write_text("\n".join(PROMPTS))
    given = ["--temperature", "2", "--max-length", "40"]
    assert qkv("generate", folder, "--file", "in.txt", *given).out.splitlines() == texts
    assert qkv("generate", folder, "-", *given, stdin="\n".join(PROMPTS)).out.splitlines() == texts
    numbered = qkv("generate", folder, "-", *given, "--samples", "2", stdin="\n".join(PROMPTS)).out.splitlines()
    assert [line.split("\t")[0] for line in numbered] == ["0", "0", "1", "1"]
    rows = qkv("generate", folder, "--file", "in.txt", *given, "--json").out.splitlines()
    assert [json.loads(row)["generated"] for row in rows] == [one.text for one in found]
    assert json.loads(rows[0])["prompt"] == PROMPTS[0]
    assert qkv("generate", folder, "--file", "in.txt", *given, "--out", "out.csv").out == ""
    with open("out.csv", newline="") as stream:
        assert [row["generated"] for row in csv.DictReader(stream)] == [one.text for one in found]


def test_probabilities_are_bars(qkv: Any, folder: Path, model: Model) -> None:
    shown = qkv("generate", folder, PROMPTS[0], "--greedy", "--max-length", "3", "--probabilities").out
    (found,) = model.generate(PROMPTS[:1], sample=False, max_length=3, probabilities=5)
    assert found.steps is not None
    assert shown.startswith(found.text + "\n")
    assert shown.count("→") == 3
    for choice in found.steps[0].choices:
        assert f"{100 * choice.score:5.1f} %" in shown
    steps = json.loads(qkv("generate", folder, PROMPTS[0], "--max-length", "3", "--probabilities", "--json").out)[
        "steps"
    ]
    assert [len(step["choices"]) for step in steps] == [5, 5, 5]
    assert (bar(1.0), bar(0.0).strip(), len(bar(0.5).strip())) == ("█" * WIDTH, "", WIDTH // 2)


def test_control_characters_are_escaped_on_a_terminal(qkv: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qkv.cli.texts.on_terminal", lambda: True)
    monkeypatch.setattr("qkv.predict.Model.generate", lambda self, *_, on_text, **__: on_text("a\x1b[31mb"))
    assert qkv("generate", folder, PROMPTS[0]).out == "a\\x1b[31mb\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--max-length", "500"], "13 tokens and max_length is 500, together more than the context of 128"),
        (["--beam", "2", "--stop", "x"], "stop strings and a beam of 2 do not go together"),
        (["--top-p", "2"], "top_p must be greater than 0 and at most 1"),
        (["--greedy", "--top-k", "2"], "top_k changes nothing without sample"),
        (["--dtype", "float8"], "unknown dtype 'float8'; did you mean 'float32'?"),
    ],
)
def test_wrong_usage_is_one_sentence(qkv: Any, folder: Path, arguments: list[str], said: str) -> None:
    result = qkv("generate", folder, PROMPTS[0], *arguments)
    assert (result.code, result.out) == (2, "")
    assert said in result.err
    assert len(result.err.splitlines()) == 1
    assert qkv("generate", folder).code == 2


def test_scores(qkv: Any, folder: Path, model: Model, tmp_path: Path) -> None:
    (found,) = model.score(PROMPTS[:1], [" sleeps"])
    plain = qkv("score", folder, PROMPTS[0], " sleeps").out
    assert plain == f"{found.log_prob:.4f}\t{found.per_token:.4f}\t7\n"
    (tmp_path / "pairs.tsv").write_text(f"prompt\tanswer\n{PROMPTS[0]}\t sleeps\n")
    row = json.loads(qkv("score", folder, "--file", "pairs.tsv", "--json").out)
    assert row["tokens"] == found.tokens
    assert row["log_prob"] == pytest.approx(found.log_prob, abs=1e-4)
    assert qkv("score", folder, PROMPTS[0]).code == 2


def test_classify_by_likelihood(qkv: Any, folder: Path, model: Model, tmp_path: Path) -> None:
    given = ["classify", folder, *PROMPTS, "--labels", "good, bad", "--prompt", "{text}\\nIt is"]
    found = model.zero_shot(PROMPTS, ["good", "bad"], "{text}\nIt is")
    lines = [line.split("\t") for line in qkv(*given).out.splitlines()]
    assert [line[0] for line in lines] == [labels[0].label for labels in found]
    assert len(qkv(*given, "--all").out.splitlines()[0].split("\t")) == 4
    (tmp_path / "shots.csv").write_text("text,label\nI eat,good\nWe run,bad\n")
    shots = model.zero_shot(
        PROMPTS, ["good", "bad"], "{text}\nIt is", examples=[("I eat", "good"), ("We run", "bad")], calibrate=True
    )
    rows = qkv(*given, "--examples", "shots.csv", "--calibrate", "--json").out.splitlines()
    assert [json.loads(row)["score"] for row in rows] == pytest.approx([one[0].score for one in shots], abs=1e-5)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "has no head for classes: give --labels and --prompt"),
        (["--labels", "a,b"], "--labels needs a prompt"),
        (["--prompt", "{text}"], "--prompt needs --labels"),
        (["--calibrate"], "--calibrate needs --labels"),
        (["--labels", "a,b", "--prompt", "no place"], "has no place for the text"),
        (["--labels", "a", "--prompt", "{text}"], "at least two labels"),
    ],
)
def test_wrong_zero_shot_is_one_sentence(qkv: Any, folder: Path, arguments: list[str], said: str) -> None:
    result = qkv("classify", folder, "x", *arguments)
    assert (result.code, result.out) == (2, "")
    assert said in result.err
