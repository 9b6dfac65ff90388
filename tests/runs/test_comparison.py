"""`qkv compare`: the table against runs made by hand, and a comparison that is cut off and goes on."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
import torch.nn.functional as F

import qkv
from qkv.cli.comparison_tables import compared_table
from qkv.common.errors import QkvError, UsageError
from qkv.evaluation.translation import Bleu
from qkv.recipes.comparison import Comparison, read_comparison
from qkv.recipes.schema import change
from qkv.runs.budget import STEPS, check_parameters, count_parameters, steps_within
from qkv.runs.comparison import Compared, Row, Spread, compare
from qkv.runs.history import find_runs
from qkv.runs.run import run_recipe
from qkv.runs.scored import Scored
from qkv.tasks.exam import Exam
from qkv.tasks.table import read_task
from qkv.training.loop import Outcome

TINY = """
recipe = "pretrain-gpt"
metric = "perplexity"
seeds = [1, 2]
lengths = [1, 2]

[data]
train = ["phrasebook:train:100"]
valid = ["phrasebook:valid:96"]
test = ["phrasebook:test:96"]
unit = "blank"
max_length = 32

[set]
"model.set" = { dim = 16, num_layers = 1, num_heads = 2, ff_dim = 16, max_length = 32 }
"tokenizer.vocab_size" = 280
"optim.name" = "adamw"
"optim.lr" = 0.01
"train.steps" = 3
"train.tokens" = 128
"train.workers" = 1

[variants.learned]
set.model.set.position = "learned"

[variants.rotary]
set.model.set.position = "rotary"

[variants.wider]
trained_as = "rotary"
read.position = { name = "rotary-ntk", scale = 8.0 }
"""


def tiny(folder: Path, *changes: str) -> Comparison:
    file = folder / "tiny.toml"
    file.write_text(TINY)
    return read_comparison(str(file), changes)


def go(asked: Comparison, out: Path) -> tuple[Compared, list[str]]:
    said: list[str] = []
    return compare(asked, "tiny", str(out), device="cpu", say=said.append), said


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Comparison, Compared]:
    folder = tmp_path_factory.mktemp("whole")
    asked = tiny(folder)
    return folder / "out", asked, go(asked, folder / "out")[0]


def test_the_table_has_the_numbers_of_runs_made_by_hand(
    whole: tuple[Path, Comparison, Compared], tmp_path: Path
) -> None:
    """The oracle trains the same recipe by itself and computes the perplexity window by window from the logits."""
    out, asked, compared = whole
    recipe = asked.recipe_of("rotary", 2, str(tmp_path / "alone"))
    run_recipe(recipe, device="cpu", say=lambda _: None)
    model = qkv.load(tmp_path / "alone", device="cpu")
    task = read_task(recipe.task, recipe.objective, recipe.data)
    assert model.tokenizer is not None
    encoded = model.tokenizer.encode([one.text for one in task.examples(recipe.data.test)]).ids
    texts = [ids[: len(ids) // 64 * 64] for ids in encoded]
    assert min(map(len, texts)) >= 64
    row = next(row for row in compared.rows if row.name == "rotary")
    for times in (1, 2):
        total = count = 0.0
        for ids in texts:
            for start in range(0, len(ids), 32 * times):
                piece = ids[start : start + 32 * times]
                (logits,) = model.logits([piece], head="lm")
                nll = F.cross_entropy(logits[:-1].double(), torch.tensor(piece[1:]), reduction="none")
                kept = [place for place in range(1, len(piece)) if place % 32]  # those that both lengths predict
                total += sum(nll[place - 1].item() for place in kept)
                count += len(kept)
        assert row.runs[1].longer[str(times)] == pytest.approx(torch.tensor(total / count).exp().item(), rel=1e-4)
    energy = json.loads((out / "rotary-2" / "energy.json").read_text())
    assert row.runs[1].seconds == energy["seconds"]
    assert row.runs[1].kwh == energy["kwh"]
    assert row.runs[1].parameters == sum(p.numel() for p in model.module.parameters())


def test_what_is_written(whole: tuple[Path, Comparison, Compared]) -> None:
    out, _, compared = whole
    found = json.loads((out / "comparison.json").read_text())
    values = {row["name"]: row["longer"] for row in found["variants"]}
    assert values["learned"]["2"] == {"mean": None, "sd": None, "values": []}  # its positions end at 32
    assert values["rotary"]["1"]["mean"] == pytest.approx(statistics.fmean(values["rotary"]["1"]["values"]))
    assert values["rotary"]["1"]["sd"] == pytest.approx(statistics.stdev(values["rotary"]["1"]["values"]))
    assert values["wider"]["1"]["values"] != values["rotary"]["1"]["values"]  # the same weights, read otherwise
    assert not (out / "wider-1").exists()
    assert found["better"] == "lower"
    assert {path.name for path in find_runs([str(out)])} == {"learned-1", "learned-2", "rotary-1", "rotary-2"}
    drawn = "".join(ElementTree.parse(out / "comparison.svg").getroot().itertext())
    assert "rotary" in drawn
    assert "learned: positions end at the length of training" in drawn
    assert compared.to_dict() == found


def test_a_comparison_that_was_cut_off_goes_on(
    whole: tuple[Path, Comparison, Compared], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between two runs; the finished ones are kept and the result is that of the whole."""
    started: list[str] = []

    def stopping(recipe: Any, **rest: Any) -> Any:
        started.append(Path(recipe.out).name)
        if len(started) == 3:
            raise KeyboardInterrupt
        return run_recipe(recipe, **rest)

    monkeypatch.setattr("qkv.runs.run.run_recipe", stopping)
    asked = tiny(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        go(asked, tmp_path / "out")
    assert not (tmp_path / "out" / "comparison.json").exists()
    weights = (tmp_path / "out" / "learned-1" / "model.safetensors").stat().st_mtime_ns
    compared, said = go(asked, tmp_path / "out")
    assert started == ["learned-1", "learned-2", "rotary-1", "learned-1", "learned-2", "rotary-1", "rotary-2"]
    assert sum("is finished: there is nothing to resume" in line for line in said) == 2
    assert (tmp_path / "out" / "learned-1" / "model.safetensors").stat().st_mtime_ns == weights
    for mine, theirs in zip(compared.rows, whole[2].rows, strict=True):
        assert [run.longer for run in mine.runs] == [run.longer for run in theirs.runs]


def test_scores_are_kept_until_something_changes(
    whole: tuple[Path, Comparison, Compared], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, asked, compared = whole
    asked_again: list[Any] = []
    monkeypatch.setattr("qkv.runs.scored._scored", lambda *given: asked_again.append(given) or compared.rows[0].runs[0])
    assert go(asked, out)[0].to_dict() == compared.to_dict()
    assert not asked_again
    try:
        go(tiny(tmp_path, "lengths=[1]"), out)
        assert len(asked_again) == 6
    finally:
        monkeypatch.undo()
        go(asked, out)


def test_a_run_that_is_stopped_stops_the_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qkv.runs.run.run_recipe", lambda *_, **__: Outcome("SIGTERM", 1, None, {}))
    with pytest.raises(QkvError, match=r"stopped by SIGTERM after \d+ steps: run the same command again to continue"):
        go(tiny(tmp_path), tmp_path / "out")


def test_other_settings_do_not_mix_with_finished_runs(whole: tuple[Path, Comparison, Compared], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="differs from this recipe"):
        go(tiny(tmp_path, "train.steps=4"), whole[0])


def test_errors_before_the_first_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"variant learned: there is no file .*nothing\.txt"):
        go(tiny(tmp_path, "data.train=nothing.txt"), tmp_path / "out")
    with pytest.raises(UsageError, match=r"budget.parameters allows 1%, but learned has \d,\d+ parameters and rotary"):
        go(tiny(tmp_path, "budget.parameters=0.01"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_parameters_are_counted_before_training(whole: tuple[Path, Comparison, Compared]) -> None:
    _, asked, compared = whole
    recipes = {name: asked.recipe_of(name, 1, "x") for name in ("learned", "rotary")}
    trained = {row.name: row.runs[0].parameters for row in compared.rows}
    assert {name: count_parameters(recipe) for name, recipe in recipes.items()} == {n: trained[n] for n in recipes}
    more = trained["learned"] / trained["rotary"] - 1
    check_parameters(recipes, more + 1e-6)
    with pytest.raises(UsageError, match="change their sizes or the budget"):
        check_parameters(recipes, more - 1e-6)


def test_equal_seconds_become_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = tiny(tmp_path).recipe_of("rotary", 1, str(tmp_path / "run"))
    out, said = tmp_path / "out", list[str]()
    monkeypatch.setattr("qkv.runs.budget._seconds_per_step", lambda *_: 0.25)
    assert steps_within(10.0, recipe, "rotary", out, device="cpu", say=said.append) == 40
    assert said[-1] == "rotary: 40 steps fit into 10 seconds"
    monkeypatch.setattr("qkv.runs.budget._seconds_per_step", lambda *_: pytest.fail("it was measured already"))
    assert steps_within(10.0, recipe, "rotary", out, device="cpu", say=said.append) == 40
    assert json.loads((out / STEPS).read_text()) == {"rotary": 40}
    monkeypatch.undo()
    assert steps_within(1.0, recipe, "other", out, device="cpu", say=said.append) > 1  # really timed
    assert not list(out.glob("trial-*"))


def scored(value: float | None, longer: dict[str, float | None] | None = None) -> Scored:
    return Scored("BLEU", value, longer or {}, 1234, 500.0, 61.0, 0.002, False, "", 10)


def test_the_text_of_the_table() -> None:
    rows = [Row("a", [scored(20.0), scored(22.0)], []), Row("b", [scored(30.0), scored(30.0)], [])]
    lines = compared_table(Compared("x", "BLEU", (), (1, 2), rows, "cpu")).splitlines()
    assert lines[0].split() == ["variant", "BLEU", "parameters", "tokens/s", "time", "Wh"]
    assert lines[1].split() == ["a", "21.00", "±", "1.4142", "1,234", "500", "1:01", "2"]
    assert lines[2].split()[:5] == ["b", "30.00", "±", "0.0000", "*"]
    assert "higher is better" in lines[-1]
    one = [Row("a", [scored(None, {"1": 5.0, "2": None})], []), Row("b", [scored(None, {"1": 6.0, "2": 7.0})], [])]
    lines = compared_table(Compared("x", "perplexity", (1, 2), (1,), one, "cpu")).splitlines()
    assert lines[1].split()[:4] == ["a", "5.0000", "*", "-"]
    assert "the positions end at the length of training" in lines[-1]


def test_a_spread_needs_two_seeds() -> None:
    assert Spread((2.0,)).deviation is None
    assert Spread((2.0, 4.0)).deviation == pytest.approx(2**0.5)
    assert Spread(()).to_dict() == {"mean": None, "sd": None, "values": []}


def test_translations_of_joined_examples(tmp_path: Path) -> None:
    """Once the length of training, it is the greedy BLEU of the model; twice, that of neighbours joined."""
    base = read_comparison("positions-translate", debug=True)
    recipe = change(
        base.recipe_of("sinusoidal", 1, str(tmp_path / "run")),
        {"train.steps": 60, "data.valid": ["phrasebook:valid:4"]},
    )
    run_recipe(recipe, device="cpu", say=lambda _: None, report=False)
    model = qkv.load(tmp_path / "run", device="cpu")
    task = read_task(recipe.task, recipe.objective, recipe.data)
    examples = list(task.examples(["phrasebook:test:6"]))
    single, double = task.score_longer(Exam(model, given=examples), (1, 2))
    plain = Bleu()
    for said, example in zip(model.translate([one.source for one in examples], beam=1), examples, strict=True):
        plain.add(said, [example.target])
    assert single is not None
    assert single.value == pytest.approx(plain.result().value)
    assert double is not None
    assert (single.count, double.count) == (6, 3)
    with pytest.raises(UsageError, match="too few to join 7"):
        task.score_longer(Exam(model, given=examples), (7,))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["positions", "positions-translate", "models", "objectives"])
def test_shipped_comparisons_run(name: str, tmp_path: Path) -> None:
    found = compare(read_comparison(name, debug=True), name, str(tmp_path), device="cpu", say=lambda _: None)
    assert [row.name for row in found.rows] == list(read_comparison(name).variants)
