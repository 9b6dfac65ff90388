"""Whatever a recipe says, it passes the check or is refused in a sentence."""

import os
import warnings
from dataclasses import fields, is_dataclass
from random import Random

import pytest

from qkv.common.errors import QkvError, UsageError
from qkv.recipes.check import check
from qkv.recipes.schema import Recipe, read_recipe
from qkv.recipes.shelf import SHIPPED, shipped
from qkv.tasks.table import TASKS
from tests.data.hostile import damaged

DEEP = 3000
VALUES = [
    "0", "-1", "1", "9" * 400, "-" + "9" * 400, "9" * 5000, "0.5", "1e400", "-1e400", "nan", "inf", "-inf", "true",
    '""', '"x"', '"\\u0000"', '"\\n"', '"é🤖"', '"*"', '"[" ', '"**/x"', '"a.zip!b"', '"hf:"', '"phrasebook:"',
    '"#train"',
    "[]", "[[]]", "[[1]]", '["x"]', "[1, 2]", '[["x"]]', "[true]", "[nan]", "{}", "{x = 1}", '{"" = 1}', "{a.b.c = 1}",
    "2020-01-01", "07:32:00", "1979-05-27T07:32:00Z", '"' + "x" * 5000 + '"',
    "[" * 80 + "]" * 80, "{a = " * 80 + "1" + "}" * 80,
]  # fmt: skip
TEXTS = [
    "",
    "\x00",
    "=",
    "a",
    "a = ",
    '"" = 1',
    "[task]",
    "[[task]]",
    "[[data]]",
    "[data]\n[data]",
    "data = 1",
    "data.train.x = 1",
    "debug = 1",
    "debug = []",
    'debug = "x"',
    "[debug]\n'' = 1",
    "[debug]\ndata = 1",
    "[debug]\n'data.train.x' = 1",
    "[debug]\n'task.x' = 1",
    "[debug]\n'.' = 1",
    "[debug]\n'..' = 1",
    "[debug]\n'data.' = 1",
    "[debug]\n'objective.' = 1",
    "[debug]\ntrain = {steps = {}}",
    "[debug.debug]\nx = 1",
    "x = " + "[" * DEEP + "]" * DEEP,
    "x = " + "{a = " * DEEP + "1" + "}" * DEEP,
    ".".join("a" * DEEP) + " = 1",
    "objective." + ".".join("a" * DEEP) + " = 1",
    "model.set." + ".".join("a" * 900) + " = 1",
    "[" + ".".join("a" * DEEP) + "]",
    "task = " + "9" * 5000,
    "out = 1\n",
    "out = '\\u0000'",
    "task = \udcff",
    "\ufeff",
]
CHANGES = [
    "", "=", "x", "x=", "=1", ".=1", "..=1", "task.x=1", "data=1", "data.=1", ".data=1", "data.train.x=1", "debug=1",
    "objective=1", "objective.=1", "objective.a.b.c=1", "model.set=1", "model.set.=1", "train.steps=" + "9" * 5000,
    "train.steps=1e400", "x=" + "[" * DEEP, "data.train=" + "[" * DEEP + "]" * DEEP, "optim.lr=nan", "optim.lr=\udcff",
    "task=1\ntask=2", "train.steps=1\n[x]", "objective." + ".".join("a" * DEEP) + "=1", "a" * 10_000 + "=1",
]  # fmt: skip


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    """Write a recipe that passes the check."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("one\n")

    def write(text, name="a.toml"):
        (tmp_path / name).write_bytes(text.encode("utf-8", "surrogateescape"))
        return name

    return write


BASE = {"task": '"masked"', "out": '"x"', "model.preset": '"bert-tiny"', "data.train": '"a.txt"'}


def toml(**changes):
    return "".join(f"{key} = {value}\n" for key, value in {**BASE, **changes}.items())


def keys(cls=Recipe, start=""):
    """List every key that a recipe has."""
    for one in fields(cls):
        yield f"{start}{one.name}"
        inner = one.default_factory() if callable(one.default_factory) else None
        if is_dataclass(inner):
            yield from keys(type(inner), f"{start}{one.name}.")


def outcome(name, changes=(), *, debug=False):
    """Return what went wrong in another way than ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            check(read_recipe(name, changes, debug=debug))
        except QkvError as error:
            return None if str(error) else "an empty message"
        except Exception as error:
            return f"{type(error).__name__}: {str(error)[:200]}"
    return None


def test_the_recipe_that_is_broken_below_is_good(recipe):
    check(read_recipe(recipe(toml())))


@pytest.mark.parametrize("key", sorted(keys()))
def test_wrong_values_are_refused(recipe, key):
    found = {value[:60]: outcome(recipe(toml(**{key: value}))) for value in VALUES}
    changed = {f"set {value[:60]}": outcome(recipe(toml()), [f"{key}={value}"]) for value in VALUES}
    assert not {value: problem for value, problem in (found | changed).items() if problem}


@pytest.mark.parametrize("task", TASKS)
def test_wrong_settings_of_a_task_are_refused(recipe, task):
    for key in ("smoothing", "r_drop", "temperature", "next_sentence", "pairs", "mix", "mix.classify", "kind", '""'):
        texts = {value[:60]: toml(**{"task": f'"{task}"', f"objective.{key}": value}) for value in VALUES[::2]}
        found = {value: outcome(recipe(text)) for value, text in texts.items()}
        assert not {f"{key} {value}": problem for value, problem in found.items() if problem}


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_hostile_files_are_refused(recipe, text):
    for whole in (text, f"{toml()}{text}", f"{text}\n{toml()}"):
        assert outcome(recipe(whole)) is None
        assert outcome(recipe(whole), debug=True) is None


@pytest.mark.parametrize("change", CHANGES, ids=range(len(CHANGES)))
def test_hostile_changes_are_refused(recipe, change):
    assert outcome(recipe(toml()), [change]) is None


@pytest.mark.parametrize("name", ["", ".", "..", "/", "\x00", "\x00.toml", "x" * 5000, "x" * 5000 + ".toml", "\udcff"])
def test_hostile_names_are_refused(recipe, name):
    with pytest.raises(QkvError):
        read_recipe(name)


def test_a_folder_and_a_pipe_are_no_recipe(recipe, tmp_path):
    (tmp_path / "a.toml").mkdir()
    os.mkfifo(tmp_path / "b.toml")
    for name in ("a.toml", "b.toml"):
        with pytest.raises(QkvError, match="there is no recipe file"):
            read_recipe(name)


def attack(recipe, seeds):
    names = shipped()
    found = {}
    for seed in seeds:
        random = Random(seed)
        text = toml() if seed % 2 else (SHIPPED / f"{names[seed % len(names)]}.toml").read_text("utf-8")
        data = damaged(text.encode(), random)
        found[seed] = outcome(recipe(data.decode("utf-8", "surrogateescape")), debug=bool(seed % 3))
    assert not {seed: problem for seed, problem in found.items() if problem}


def test_damaged_recipes_are_read_or_refused(recipe):
    attack(recipe, range(200))


@pytest.mark.slow
def test_many_damaged_recipes_are_read_or_refused(recipe):
    attack(recipe, range(1000, 6000))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("optim.lr = nan", "a.toml cannot be read: optim.lr must be a finite number, got nan"),
        ("optim.lr = 1e400", "a.toml cannot be read: optim.lr must be a finite number, got inf"),
        (f"train.steps = {2**63}", "a.toml cannot be read: train.steps has a number of more than 64 bits"),
        ("x = " + "[" * 100 + "]" * 100, "a.toml cannot be read: it is nested too deeply"),
        ("x = " + "[" * DEEP + "]" * DEEP, "a.toml cannot be read: it is nested too deeply"),
        ("debug = 1", "a.toml: debug must be a table, got 1"),
    ],
    ids=range(6),
)
def test_what_is_wrong_is_one_sentence(recipe, text, said):
    with pytest.raises(UsageError) as caught:
        read_recipe(recipe(f"{toml()}{text}"))
    assert str(caught.value) == said


def test_a_change_that_no_recipe_means_is_named(recipe):
    with pytest.raises(UsageError, match=r"^--set 'optim\.lr=nan': value must be a finite number, got nan$"):
        read_recipe(recipe(toml()), ["optim.lr=nan"])
