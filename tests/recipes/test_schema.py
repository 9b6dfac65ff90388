from __future__ import annotations

from pathlib import Path

import pytest

from qkv.common.config import from_dict, to_toml
from qkv.common.errors import UsageError
from qkv.recipes.reference import reference
from qkv.recipes.schema import Recipe, parse_change, read_recipe
from qkv.recipes.shelf import shipped
from qkv.runs.run import check


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_recipe_is_read_and_survives_its_own_toml(name: str) -> None:
    import tomllib

    for debug in (False, True):
        recipe = read_recipe(name, debug=debug)
        assert from_dict(Recipe, tomllib.loads(to_toml(recipe))) == recipe
        assert recipe.out == f"runs/{name}"


def test_the_reference_is_current() -> None:
    assert Path("docs/recipes.md").read_text("utf-8") == reference()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("train.steps=5", ("train.steps", 5)),
        ("optim.lr=1e-3", ("optim.lr", 1e-3)),
        ("data.skip_bad=true", ("data.skip_bad", True)),
        ("data.train=[a.en, b.de]", ("data.train", ["a.en", "b.de"])),
        ('data.train=["a b", "c"]', ("data.train", ["a b", "c"])),
        ("model.init=some/folder", ("model.init", "some/folder")),
        ("out=x=y", ("out", "x=y")),
    ],
)
def test_changes(text: str, expected: object) -> None:
    assert parse_change(text) == expected


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["train.stepz=5"], "did you mean 'train.steps'"),
        (["train.steps=many"], "train.steps takes a whole number, got 'many'"),
        (["nonsense"], "--set takes key=value"),
        (["modle.preset=x"], "unknown key of Recipe 'modle.preset'"),
    ],
)
def test_bad_changes(changes: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message.replace("(", r"\(")):
        read_recipe("phrasebook", changes)


def test_unknown_recipe() -> None:
    with pytest.raises(UsageError, match="did you mean 'phrasebook'"):
        read_recipe("phrasebok")
    with pytest.raises(UsageError, match=r"no recipe file nowhere\.toml"):
        read_recipe("nowhere.toml")


def test_a_file_that_is_not_toml(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("task = = 3")
    with pytest.raises(UsageError, match="is not TOML"):
        read_recipe(str(tmp_path / "bad.toml"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["task=translat"], "did you mean 'translate'"),
        (["model.preset=transformer-tinny"], "did you mean 'transformer-tiny'"),
        (["model.preset=bert-tiny", "model.init=nowhere"], "exactly one of model.preset and model.init"),
        (["model.init=nowhere"], "model.init: nowhere is not a folder"),
        (["data.train=[]"], "data.train is empty"),
        (["data.train=[nowhere.en,nowhere.de]"], "nowhere.en"),
        (["objective.smoothin=0.1"], "did you mean 'objective.smoothing'"),
    ],
)
def test_what_cannot_work_is_found_before_anything_heavy_starts(changes: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check(read_recipe("phrasebook", changes))


def test_old_names_are_read_with_a_warning_that_gives_the_new_one(tmp_path: Path) -> None:
    file = tmp_path / "old.toml"
    file.write_text(
        'task = "twins"\n[model]\npreset = "bert-tiny"\nset = { reach = 3 }\n[objective]\nagreement = 2.0\n'
        "[objective.mix.picture]\nagreement = 1.0\n[data.mix.twins]\nfiles = 'a'\n"
    )
    with pytest.warns(UserWarning, match="is now called") as said:
        found = read_recipe(str(file), ["objective.agreement=4"])
    assert found.task == "embeddings"
    assert found.model.set == {"conv_width": 3}
    assert found.objective == {"r_drop": 4, "mix": {"image": {"r_drop": 1.0}}}
    assert found.data.mix == {"embeddings": {"files": "a"}}
    assert {str(one.message) for one in said} == {
        "task: 'twins' is now called 'embeddings'",
        "model.set.reach: 'reach' is now called 'conv_width'",
        "objective.agreement: 'agreement' is now called 'r_drop'",
        "objective.mix.picture: 'picture' is now called 'image'",
        "objective.mix.picture.agreement: 'agreement' is now called 'r_drop'",
        "data.mix.twins: 'twins' is now called 'embeddings'",
    }
