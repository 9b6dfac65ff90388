"""The table of benchmarks/defaults.py, and which runs are left to do."""

import json
from pathlib import Path

import pytest
from defaults_cells import Cell, write_packed
from defaults_run import Job, changed, left_to_do, read_lines
from defaults_table import Mean, loses, summarise, table


def run(score, *, cell="sst2/30", side="qkv", setting="recipe", seed=1, start="minilm", file="now"):
    facts = {"cell": cell, "start": start, "side": side, "setting": setting, "seed": seed, "file": file}
    return {**facts, "metric": "accuracy", "examples": 30, "score": score}


def test_a_line_has_means_the_best_setting_and_the_gap():
    runs = [run(80.0), run(82.0, seed=2), run(84.0, setting="optim.lr=1e-4"), run(79.0, setting="optim.lr=1e-5")]
    [line] = summarise(runs)
    assert str(line.ours) == "81.00 ± 1.41"
    assert (line.best.setting, line.gap) == ("optim.lr=1e-4", pytest.approx(-3))
    assert line.behind == ["setting"]


@pytest.mark.parametrize(
    ("ours", "other", "lost"),
    [
        ((80.0,), (80.4,), False),  # less than half a point
        ((80.0,), (80.6,), True),
        ((80.0, 82.0), (82.0,), False),  # less than our standard deviation
        ((80.0, 80.1), (80.0, 82.0), False),  # less than theirs
        ((80.0, 80.1), (81.0, 81.1), True),
        ((80.0,), (70.0,), False),
    ],
)
def test_a_difference_counts_beyond_half_a_point_and_the_spread(ours, other, lost):
    assert loses(Mean("recipe", ours), Mean("other", other)) is lost


def test_the_last_file_is_ours_and_earlier_recipes_are_known_settings():
    [line] = summarise([run(90.0, file="old"), run(85.0, file="now")])
    assert (line.ours.value, line.best.setting, line.gap) == (85.0, "recipe of old", -5.0)
    [line] = summarise([run(85.0, file="now"), run(90.0, file="old")])
    assert (line.ours.value, line.gap) == (90.0, 0.0)


def test_peers_count_with_their_best_rate_and_words_for_every_start():
    peers = [run(70.0, side="hf", setting="lr=2e-5"), run(88.0, side="hf", setting="lr=2e-4")]
    words = [run(86.0, side="bow", setting="tf-idf", start="", seed=0)]
    minilm, scratch = summarise([run(85.0), run(75.0, start="scratch"), *peers, *words])
    assert (minilm.peer.setting, minilm.peer.value, minilm.words.value) == ("lr=2e-4", 88.0, 86.0)
    assert minilm.behind == ["transformers", "words"]
    assert (scratch.peer, scratch.behind) == (None, ["words"])


def test_the_table_is_markdown_in_the_order_of_the_cells_with_averages_and_failures():
    failed = {**run(0.0, cell="squad/30"), "failed": "UsageError: too small"}
    runs = [run(50.0, cell="rte/30"), run(80.0), run(82.0, setting="optim.lr=1e-4"), failed]
    lines = table(runs).splitlines()
    assert [line.split(" | ")[0] for line in lines[:4]] == ["| cell", "| ---", "| sst2/30", "| rte/30"]
    assert len({line.count("|") for line in lines[:4]}) == 1
    assert "- minilm, 2 cells: the recipes 65.00, the best known settings 66.00" in lines
    assert "1 of 2 cells hold." in lines
    assert lines[-1] == "- failed: squad/30 minilm: UsageError: too small"


@pytest.fixture
def jobs(tmp_path):
    for name, count in (("sst2", 40), ("rte", 400)):
        rows = [{"text": "a b", "second": "c", "label": "x"}] * count
        write_packed(tmp_path / f"text/{name}.train.jsonl.gz", rows)
    made = [Cell("sst2", 40, True, tmp_path), Cell("rte", 400, True, tmp_path)]
    return [Job(cell=cell, side="qkv", start="minilm", seed=seed) for seed in (1, 2) for cell in made]


def test_finished_runs_are_skipped_and_the_longest_come_first(jobs, tmp_path):
    assert [job.cell.name for job in left_to_do(jobs, [])] == ["rte/whole", "rte/whole", "sst2/whole", "sst2/whole"]
    file = tmp_path / "done.jsonl"
    done = [{**jobs[1].facts(), "score": 1.0}, {**jobs[0].facts(), "failed": "no"}]
    file.write_text("".join(json.dumps(line) + "\n" for line in done) + '{"cell": "sst2/wh')  # cut short
    left = left_to_do(jobs, read_lines([file]))
    assert [(job.cell.name, job.seed) for job in left] == [("rte/whole", 2), ("sst2/whole", 1), ("sst2/whole", 2)]


def test_a_setting_can_name_another_recipe():
    cell = Cell("multi30k-en-de", 30, False, Path("none"))
    settings = "recipe=rnn-translate optim.lr=2e-3 model.set={pre_norm=true}"
    job = Job(cell=cell, side="qkv", start="scratch", seed=1, setting=settings)
    assert changed(job) == ("rnn-translate", {"optim.lr": 2e-3, "model.set": {"pre_norm": True}})
    assert changed(Job(cell=cell, side="qkv", start="scratch", seed=1)) == ("translate", {})
