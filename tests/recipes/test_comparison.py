"""The TOML of a comparison: what it says, and its errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from qkv.common.config import to_toml
from qkv.common.errors import UsageError
from qkv.models.position import POSITIONS
from qkv.recipes.check import check
from qkv.recipes.comparison import about, read_comparison, shipped_comparisons
from qkv.recipes.schema import read_recipe
from qkv.tasks.spans import SequenceTask
from qkv.tasks.table import TASKS

SMALL = """
recipe = "phrasebook"
[set.train]
steps = 7
[variants.a]
[variants.b]
set.model.set.ff_dim = 32
"""


def written(folder: Path, text: str) -> str:
    file = folder / "c.toml"
    file.write_text(text)
    return str(file)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('recipe = "phrasebook"', "a comparison needs variants"),
        ("[variants.a]", "a comparison needs a recipe"),
        ('recip = "phrasebook"\n[variants.a]', "unknown key of Comparison 'recip'; did you mean 'recipe'"),
        (SMALL + 'sett.x = 1', "unknown key of Variant 'variants.b.sett'; did you mean 'variants.b.set'"),
        ('recipe = "phrasebook"\nvariants.a = 3', "variants.a takes a table, got 3"),
        ('recipe = "phrasebook"\n[variants."../x"]', r"variants.'../x': a name has letters"),
        (SMALL + '[variants.c]\ntrained_as = "aa"', "unknown variant in variants.c.trained_as 'aa'; did you mean 'a'"),
        (SMALL + '[variants.c]\ntrained_as = "a"\nset.x = 1', "variants.c is trained as a, so it takes neither"),
        ("seeds = [1, 1]\n" + SMALL, "seeds takes different whole numbers"),
        ("seeds = []\n" + SMALL, "seeds takes different whole numbers"),
        ("lengths = [0]\n" + SMALL, "lengths takes whole numbers from 1 on"),
        ("budget.seconds = -1\n" + SMALL, "budget.seconds must be at least 0"),
        ("budget.second = 1\n" + SMALL, "did you mean 'budget.seconds'"),
        ("finetune.set.x = 1\n" + SMALL, "finetune.set needs finetune.recipe"),
        ("debug = 1\n" + SMALL, "debug must be a table"),
        ("recipe = ", "c.toml is not TOML"),
        ("seeds = [inf]\n" + SMALL, "c.toml cannot be read: seeds must be a finite number"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_in_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message.replace("[", r"\[")):
        read_comparison(written(tmp_path, text))


def test_wrong_names() -> None:
    with pytest.raises(UsageError, match="unknown comparison 'position'; did you mean 'positions'"):
        read_comparison("position")
    with pytest.raises(UsageError, match=r"there is no comparison file no\.toml"):
        read_comparison("no.toml")


def test_a_wrong_key_of_a_variant_is_that_of_its_recipe(tmp_path: Path) -> None:
    found = read_comparison(written(tmp_path, SMALL + "set.train.stepps = 3"))
    with pytest.raises(UsageError, match=r"did you mean 'train\.steps'"):
        found.recipe_of("b", 1, "x")


def test_what_a_run_gets(tmp_path: Path) -> None:
    """Base recipe, then [data], [set] and --set, then the variant, then seed and folder."""
    text = SMALL + "set.train.steps = 9\n[data]\nmax_length = 20\n"
    found = read_comparison(
        written(tmp_path, text), ["data.train=phrasebook:train:5", "train.tokens=99", "seeds=[3,4]"]
    )
    assert found.seeds == (3, 4)
    a, b = (found.recipe_of(name, 3, f"out/{name}") for name in ("a", "b"))
    assert (a.train.steps, b.train.steps) == (7, 9)
    assert (a.train.tokens, a.train.seed, a.out) == (99, 3, "out/a")
    assert (a.data.max_length, a.data.train) == (20, ("phrasebook:train:5",))
    base = read_recipe("phrasebook").model.set
    assert (a.model.set, b.model.set) == (base, base | {"ff_dim": 32})


def test_another_preset_does_not_get_the_numbers_of_the_recipes(tmp_path: Path) -> None:
    text = SMALL + '[variants.c]\nset.model.preset = "convs2s-tiny"\nset.model.set.dim = 8\n'
    found = read_comparison(written(tmp_path, text)).recipe_of("c", 1, "x")
    assert found.model.set == {"dim": 8}


def test_what_is_kept_is_the_same_comparison(tmp_path: Path) -> None:
    found = read_comparison(written(tmp_path, SMALL), ["model.set.dim=16", "metric=BLEU"])
    again = read_comparison(written(tmp_path, to_toml(found.whole())))
    assert again.metric == "BLEU"
    assert again.sides() == found.sides()
    assert [again.recipe_of(name, 1, "x") for name in "ab"] == [found.recipe_of(name, 1, "x") for name in "ab"]


@pytest.mark.parametrize("name", shipped_comparisons())
@pytest.mark.parametrize("debug", [False, True])
def test_shipped_comparisons_can_run(name: str, debug: bool) -> None:
    found = read_comparison(name, debug=debug)
    assert len(about(name)) > 20
    for side, one in found.sides().items():
        if not one.trained_as:
            check(found.recipe_of(side, found.seeds[0], f"runs/{side}"))
    if found.finetune.recipe:
        assert found.finetuning_of(1, "start", "out").model.init == "start"


@pytest.mark.parametrize("name", ["positions", "positions-translate"])
def test_every_position_scheme_is_compared(name: str) -> None:
    assert set(read_comparison(name).variants) == set(POSITIONS)


def test_every_objective_of_a_t5_is_compared() -> None:
    found = read_comparison("objectives")
    tasks = {name for name, task in TASKS.items() if issubclass(task, SequenceTask)}
    assert {found.recipe_of(name, 1, "x").task for name in found.variants if name != "none"} == tasks


def test_debug_needs_a_table(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no table \[debug\]"):
        read_comparison(written(tmp_path, SMALL), debug=True)


def test_the_example_of_the_docs_is_a_comparison(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "comparing.md").read_text("utf-8")
    found = read_comparison(written(tmp_path, page.split("```toml\n")[1].split("```")[0]))
    assert found.recipe_of("rnn", 1, "x").model.set["dim"] == 164
    named = {name for name in shipped_comparisons() if f"| `{name}` |" in page}
    assert named == set(shipped_comparisons())
