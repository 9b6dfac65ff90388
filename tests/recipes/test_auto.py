"""Values that are "auto": which keys they are, how changes replace them, and the rules that set them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.common.errors import UsageError
from qkv.models import catalogue
from qkv.recipes.auto import is_auto, without_auto
from qkv.recipes.check import check
from qkv.recipes.schema import Recipe, change, read_recipe, shipped
from qkv.runs.own import Own
from qkv.runs.resolve import resolve
from qkv.tasks import finetuning, pretraining_rules, text_rules, translate_rules
from qkv.tasks.facts import Facts
from qkv.tasks.table import find_task
from qkv.tokenizers.training import train_tokenizer


def facts(examples: int, length: float = 20.0, **given: Any) -> Facts:
    config = catalogue.preset("bert-tiny", dim=given.pop("dim", 384))
    return Facts(examples=examples, length=length, classes=given.pop("classes", {}), config=config, pretrained=True)


def test_strings_keep_their_own_auto() -> None:
    raw = {
        "task": "tag",
        "optim": {"lr": "auto"},
        "train": {"precision": "auto"},
        "model": {"set": {"dropout": "auto"}},
    }
    plain, auto = without_auto(Recipe, raw)
    assert auto == ("model.set.dropout", "optim.lr")
    assert plain == {"task": "tag", "train": {"precision": "auto"}}
    assert not is_auto(Recipe, "train.compile", "auto")
    assert not is_auto(Recipe, "optim.lr", 1e-4)


def test_a_change_replaces_auto_and_auto_replaces_a_value() -> None:
    recipe = read_recipe("classify")
    assert {"optim.lr", "train.epochs"} <= set(recipe.auto or ())
    changed = change(recipe, {"optim.lr": 1e-4})
    assert changed.optim.lr == 1e-4
    assert "optim.lr" not in (changed.auto or ())
    assert "optim.lr" in (change(changed, {"optim.lr": "auto"}).auto or ())
    assert "model.set.dropout" not in (change(read_recipe("translate"), {"model.set": {"dropout": 0.2}}).auto or ())


@pytest.mark.parametrize("key", ["train.steps", "train.epochs"])
def test_steps_and_epochs_replace_each_other(key: str) -> None:
    for name in ("classify", "translate"):
        auto = change(read_recipe(name), {key: 5}).auto or ()
        assert not {"train.steps", "train.epochs"} & set(auto)


def test_every_auto_of_a_shipped_recipe_has_a_rule_that_says_what_it_does() -> None:
    for name in shipped():
        recipe = read_recipe(name)
        for key in recipe.auto or ():
            assert find_task(recipe.task).rules[key].__doc__, key


def test_a_key_without_a_rule_cannot_be_auto(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\n")
    with pytest.raises(UsageError, match=r"optim\.clip cannot be auto: only data\.held_out, .* for the task classify"):
        check(read_recipe("classify", ["optim.clip=auto", "model.preset=bert-tiny", f"data.train={tmp_path}/a.txt"]))
    with pytest.raises(UsageError, match="no key can be for the task words"):
        check(read_recipe("word2vec", ["optim.lr=auto", f"data.train={tmp_path}/a.txt"]))


@given(st.integers(1, 10**7), st.floats(1, 512))
def test_fine_tuning_stays_within_its_bounds(examples: int, length: float) -> None:
    found = facts(examples, length)
    assert 256 <= finetuning.tokens(found) <= 8192
    assert finetuning.LEAST_EPOCHS <= finetuning.epochs(found) <= finetuning.MOST_EPOCHS
    assert 0.05 <= finetuning.held_out(found) <= 0.1
    steps = finetuning.epochs(found) * examples * length / finetuning.tokens(found)
    capped = finetuning.epochs(found) == finetuning.MOST_EPOCHS
    assert capped or steps >= 0.9 * min(finetuning.STEPS, finetuning.LEAST_EPOCHS * examples)


def test_small_data_gets_enough_steps_and_a_wide_model_a_low_rate() -> None:
    assert finetuning.epochs(facts(300)) > 20
    assert finetuning.epochs(facts(100_000)) == finetuning.LEAST_EPOCHS
    rule = finetuning.rate(1e-4)
    assert rule(facts(300)) == 1e-4
    assert rule(facts(300, dim=768)) == 5e-5


def test_uneven_classes_are_balanced() -> None:
    assert finetuning.balance(facts(40, classes={"a": 30, "b": 10}))
    assert not finetuning.balance(facts(40, classes={"a": 21, "b": 19}))
    assert not finetuning.balance(facts(40))


@given(st.integers(1, 10**8))
def test_a_translator_grows_with_its_pairs(pairs: int) -> None:
    small, large = ({key: rule(facts(n)) for key, rule in translate_rules.RULES.items()} for n in (pairs, 4 * pairs))
    for key in ("tokenizer.vocab_size", "train.steps", "train.tokens"):
        assert small[key] <= large[key]
    for key in ("model.set.dropout", "objective.r_drop"):
        assert small[key] >= large[key]
    assert 2000 <= small["tokenizer.vocab_size"] <= 16_000
    assert 1000 <= small["train.steps"] <= 50_000


@given(st.integers(1, 10**8))
def test_tasks_as_text_take_longer_from_random_weights(examples: int) -> None:
    known, new, more = facts(examples), *(replace(facts(n), pretrained=False) for n in (examples, 4 * examples))
    assert 500 <= text_rules.steps(known) <= text_rules.steps(new) <= 50_000
    assert 1000 <= text_rules.steps(new) <= text_rules.steps(more)
    assert (text_rules.lr(new), text_rules.lr(facts(examples, dim=512))) == (2e-3, 3e-4)
    assert text_rules.tokens(new) == (4096 if examples < 10_000 else 8192)


@pytest.mark.parametrize(
    ("task", "passes"), [("causal", 40), ("plain-lm", 40), ("prefix-lm", 40), ("masked", 100), ("replaced", 100),
                         ("spans", 100), ("denoise", 100)]
)  # fmt: skip
@given(total=st.floats(1, 1e12), batch=st.sampled_from([256, 4096, 16384]))
def test_a_small_text_is_read_at_most_so_many_times(task: str, passes: int, total: float, batch: int) -> None:
    found = find_task(task).rules["train.steps"](replace(facts(1), total=total, batch=batch, pretrained=False))
    assert 500 <= found <= 20_000
    if found > 500:
        assert (found - 1) * batch <= passes * total
    if found < 20_000:
        assert found * batch >= passes * total


@given(st.floats(1, 1e12), st.integers(1, 100_000))
def test_the_vocabulary_grows_with_the_text_and_has_room_for_its_characters(total: float, characters: int) -> None:
    found, more = (
        pretraining_rules.vocab_size(replace(facts(1), total=size, characters=characters))
        for size in (total, 4 * total)
    )
    assert 2000 <= found <= more <= 30_000
    assert found > 2 * characters or found == 30_000
    assert found >= 10.9 * total**0.5 or found == 30_000


PRETRAINING = ["pretrain-bert", "pretrain-electra", "pretrain-gpt", "pretrain-t5"]


@pytest.mark.parametrize("name", PRETRAINING)
def test_a_small_text_gets_few_words_and_steps_and_the_run_says_so(name: str, tmp_path: Path) -> None:
    (tmp_path / "small.txt").write_text("It rained in the night, then it snowed.\n" * 1500)  # 60 kB
    said: list[str] = []
    asked = read_recipe(name, [f"data.train={tmp_path / 'small.txt'}", f"out={tmp_path / 'run'}"])
    found = resolve(asked, tmp_path / "none", Own(), said.append)
    assert (found.tokenizer.vocab_size, found.train.steps, found.train.keep_best) == (2000, 500, True)
    assert "1,500 examples of 10 tokens: " in said[0]
    assert all(told in said[0] for told in ("tokenizer.vocab_size=2000", "train.steps=500", "train.keep_best=true"))


@pytest.mark.parametrize("name", PRETRAINING)
def test_a_script_with_many_characters_fits_into_the_vocabulary(name: str, tmp_path: Path) -> None:
    lines = ["".join(chr(0x4E00 + (7 * row + column) % 3500) for column in range(20)) for row in range(1000)]
    (tmp_path / "small.txt").write_text("\n".join(lines))
    asked = read_recipe(name, [f"data.train={tmp_path / 'small.txt'}", f"out={tmp_path / 'run'}"])
    found = resolve(asked, tmp_path / "none", Own(), lambda _: None)
    config = replace(found.tokenizer, specials=find_task(found.task).specials)
    assert train_tokenizer(lines, config).vocab_size <= found.tokenizer.vocab_size
