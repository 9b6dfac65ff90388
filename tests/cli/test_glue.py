"""`qkv glue`: files of all nine layouts, written here as GLUE has them; scores against other libraries."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from qkv.cli.main import app
from qkv.common.errors import UsageError
from qkv.exams.glue_files import TASKS, find_tasks
from qkv.runs import glue as module
from qkv.runs.glue import _recipe, glue, table
from qkv.runs.run import run_recipe
from qkv.tasks.table import read_task
from tests.runs.test_finetune import texts

# The first lines of the files as they are downloaded; {a} and {b} are the texts, {y} the label.
LAYOUTS = {
    "CoLA": ("", "gj04\t{y}\t\t{a}"),
    "SST-2": ("sentence\tlabel", "{a}\t{y}"),
    "MRPC": ("\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String", "{y}\t7\t8\t{a}\t{b}"),
    "STS-B": (
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore",
        "0\tmain\tMSRvid\t2012\t0001\tnone\tnone\t{a}\t{b}\t{y}.500",
    ),
    "QQP": ("id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate", "1\t2\t3\t{a}\t{b}\t{y}"),
    "MNLI": (
        "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\t"
        "sentence2_parse\tsentence1\tsentence2\tlabel1\tgold_label",
        "0\t1\t1n\tfiction\t( a )\t( b )\t(ROOT)\t(ROOT)\t{a}\t{b}\tneutral\tclass{y}",
    ),
    "QNLI": ("index\tquestion\tsentence\tlabel", "0\t{a}\t{b}\tclass{y}"),
    "RTE": ("index\tsentence1\tsentence2\tlabel", "0\t{a}\t{b}\tclass{y}"),
    "WNLI": ("index\tsentence1\tsentence2\tlabel", "0\t{a}\t{b}\t{y}"),
}  # fmt: skip
DEV_MNLI = (
    LAYOUTS["MNLI"][0].replace("\tgold", "\tlabel2\tlabel3\tlabel4\tlabel5\tgold"),
    LAYOUTS["MNLI"][1].replace("neutral", "neutral\ta\tb\tc\td"),
)


SOME = ("CoLA", "MRPC", "STS-B", "MNLI")  # that are trained here; of the others the files are read


def rows(count: int, seed: int) -> list[tuple[str, str, int]]:
    both = [" ".join(text.split()[:4]) for text in texts(2 * count, seed)]  # a pair fits into the tiny model
    return [(a, b, i % 2) for i, (a, b) in enumerate(zip(both[:count], both[count:], strict=True))]


def write(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).mkdir(parents=True)
        for number, stem in enumerate(("train", *TASKS[name].dev)):
            header, line = DEV_MNLI if stem.startswith("dev_") else LAYOUTS[name]
            lines = [line.format(a=a, b=b, y=y) for a, b, y in rows(24, number)]
            data = "\n".join([header, *lines] if header else lines).encode() + b"\n"
            (folder / name / f"{stem}.tsv.gz").write_bytes(gzip.compress(data))
    return folder


def small(out: Path, **given: Any) -> dict[str, Any]:
    changes = {"train.steps": 6, "train.workers": 1, "train.tokens": 128, "optim.lr": 0.02}
    changes |= dict.fromkeys(("train.validate_every", "train.save_every"), 1000)  # at the end only
    return {"out": str(out), "changes": changes, "device": "cpu", "say": lambda _: None, **given}


@pytest.mark.parametrize("name", TASKS)
def test_every_layout_is_read_as_it_was_written(name: str, tmp_path: Path) -> None:
    ((train, dev),) = find_tasks(str(write(tmp_path, name)), [], pytest.fail).values()
    recipe = _recipe(TASKS[name])
    for number, path in enumerate((train, *dev)):
        found = list(read_task(recipe.task, recipe.objective, recipe.data).examples([path]))
        gold = [float(f"{e.score - 0.5}") if name == "STS-B" else int(e.labels[0][-1]) for e in found]
        read = [(e.text, e.second or b, y) for e, y, (_, b, _) in zip(found, gold, rows(24, number), strict=True)]
        assert read == rows(24, number)
        assert all((e.second is None) == (name in ("CoLA", "SST-2")) for e in found)


@pytest.fixture(scope="module")
def done(bert_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, dict[str, Any]]:
    place = tmp_path_factory.mktemp("glue")
    data = write(place / "data", *SOME)
    return data, place / "out", glue(str(data), str(bert_folder), **small(place / "out"))


def test_the_tasks_that_are_there_and_their_average(done: tuple[Path, Path, dict[str, Any]]) -> None:
    _, out, found = done
    assert tuple(found["scores"]) == SOME
    assert list(found["scores"]["MNLI"]) == ["accuracy", "accuracy (mismatched)"]
    means = [sum(v[0] for v in metrics.values()) / len(metrics) for metrics in found["scores"].values()]
    assert found["average"] == pytest.approx(sum(means) / len(SOME))
    head, line = table(found).splitlines()
    assert head.split() == ["model", *SOME, "average"]
    assert line.split()[-1] == f"{100 * found['average']:.1f}"
    assert {path.name for path in out.iterdir()} == {"glue.json", *(f"{name}-1" for name in SOME)}


def test_scores_are_those_of_other_libraries(done: tuple[Path, Path, dict[str, Any]]) -> None:
    from scipy.stats import pearsonr, spearmanr
    from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    _, out, found = done
    first, second, gold = (list(column) for column in zip(*rows(24, 1), strict=True))
    logits = {}
    for name in ("CoLA", "MRPC", "STS-B"):
        theirs = AutoModelForSequenceClassification.from_pretrained(out / f"{name}-1").eval()
        tokens = AutoTokenizer.from_pretrained(out / f"{name}-1")
        batch = tokens(
            first, *([] if name == "CoLA" else [second]), padding=True, return_token_type_ids=True, return_tensors="pt"
        )
        with torch.no_grad():
            logits[name] = theirs(**batch).logits
    cola, mrpc = (logits[name].argmax(-1).tolist() for name in ("CoLA", "MRPC"))
    stsb = logits["STS-B"][:, 0].tolist()
    wanted = {
        "CoLA": {"matthews": matthews_corrcoef(gold, cola)},
        "MRPC": {"accuracy": accuracy_score(gold, mrpc), "f1[1]": f1_score(gold, mrpc)},
        "STS-B": {"pearson": pearsonr(stsb, gold)[0], "spearman": spearmanr(stsb, gold)[0]},
    }
    assert 0 < wanted["MRPC"]["f1[1]"] < 1
    for name, scores in wanted.items():
        assert {key: values[0] for key, values in found["scores"][name].items()} == pytest.approx(scores, abs=1e-4)


def test_what_is_done_is_not_done_again(
    done: tuple[Path, Path, dict[str, Any]], bert_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, out, found = done
    ran: list[str] = []

    def counting(recipe: Any, **rest: Any) -> Any:
        ran.append(Path(recipe.out).name)
        return run_recipe(recipe, **rest)

    monkeypatch.setattr("qkv.runs.run.run_recipe", counting)
    assert glue(str(data), str(bert_folder), **small(out)) == found
    assert ran == []
    two = glue(str(data), str(bert_folder), **small(out, tasks=["cola"], seeds=2))
    assert ran == ["CoLA-2"]
    assert two["scores"]["CoLA"]["matthews"][0] == found["scores"]["CoLA"]["matthews"][0]
    assert "±" in table(two)
    with pytest.raises(UsageError, match=r"holds scores of .* with other settings: choose another folder with --out"):
        glue(str(data), str(bert_folder), **small(out, epochs=1))


def test_a_run_that_was_cut_off_goes_on(bert_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = str(write(tmp_path / "data", "CoLA", "RTE"))
    monkeypatch.setattr(module, "evaluate", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        glue(data, str(bert_folder), **small(tmp_path / "out"))
    assert not (tmp_path / "out" / "glue.json").exists()
    monkeypatch.undo()
    said: list[str] = []
    found = glue(data, str(bert_folder), **small(tmp_path / "out", say=said.append))
    assert any(line.endswith("CoLA-1 is finished: there is nothing to resume") for line in said)
    assert list(found["scores"]) == ["CoLA", "RTE"]


def test_the_command(bert_folder: Path, tmp_path: Path) -> None:
    data = write(tmp_path / "data", "CoLA", "QNLI")
    (data / "QNLI" / "train.tsv.gz").unlink()
    (data / "CoLA").rename(data / "cola")
    options = ["--model", str(bert_folder), "--out", str(tmp_path / "out"), "--device", "cpu", "--set", "train.steps=1"]
    options += ["train.workers=1"]
    found = CliRunner().invoke(app, ["glue", str(data), *options], catch_exceptions=False)
    assert found.exit_code == 0
    assert found.stdout.splitlines()[0].split() == ["model", "CoLA", "average"]
    assert "skipping QNLI" in found.stderr
    found = CliRunner().invoke(app, ["glue", str(data), *options, "--json"], catch_exceptions=False)
    assert json.loads(found.stdout)["scores"]["CoLA"].keys() == {"matthews"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere is not a folder"),
        (["DATA", "--tasks", "CoLB"], "unknown GLUE task 'CoLB'; did you mean 'CoLA'"),
        (["DATA", "--tasks", "RTE"], "holds none of RTE: each task is a folder with train.tsv and dev.tsv"),
        (["DATA", "--model", "bert-hugh"], "unknown model folder or preset 'bert-hugh'"),
        (["DATA", "--seeds", "0"], "seeds must be at least 1, got 0"),
        (["DATA", "--set", "optim.rate=1"], "unknown key of OptimConfig"),
    ],
)
def test_wrong_usage_is_one_sentence(arguments: list[str], message: str, tmp_path: Path) -> None:
    data = str(write(tmp_path / "data", "CoLA"))
    asked = [data if argument == "DATA" else argument for argument in arguments]
    with pytest.raises(UsageError) as error:
        CliRunner().invoke(app, ["glue", *asked, "--out", str(tmp_path / "out")], catch_exceptions=False)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()
