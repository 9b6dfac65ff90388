"""`qkv recipes`: the list, and one recipe with its values."""

import json
import tomllib

import pytest
from typer.testing import CliRunner

from qkv.cli.main import app
from qkv.common.errors import UsageError
from qkv.recipes.schema import read_recipe
from qkv.recipes.shelf import comment_of, listed, shipped


def shell(*arguments):
    found = CliRunner().invoke(app, ["recipes", *arguments], catch_exceptions=False)
    assert found.exit_code == 0
    return found.stdout


def test_every_recipe_has_one_line():
    lines = shell().splitlines()
    assert [line.split()[0] for line in lines] == shipped()
    assert all(len(one.summary) > 20 and one.task for one in listed())
    assert [json.loads(line)["name"] for line in shell("--json").splitlines()] == shipped()


@pytest.mark.parametrize("name", shipped())
def test_what_is_shown_is_the_recipe(name, tmp_path):
    file = tmp_path / f"{name}.toml"
    file.write_text(shell(name))
    assert read_recipe(str(file)) == read_recipe(name)
    assert comment_of(file.read_text())[0] == next(one.summary for one in listed() if one.name == name)


def test_a_recipe_as_json():
    found = json.loads(shell("classify", "--json"))
    assert (found["name"], found["task"]) == ("classify", "classify")
    assert found["train"]["seed"] == 1


def test_a_file_and_a_wrong_name(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('task = "tag"\n')
    assert tomllib.loads(shell(str(file)))["task"] == "tag"
    wrong = CliRunner().invoke(app, ["recipes", "clasify"])
    assert isinstance(wrong.exception, UsageError)
    assert "did you mean 'classify'" in str(wrong.exception)
