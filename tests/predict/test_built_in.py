"""The models that come with the package: small, licensed, and able to translate what their cards say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import qkv
from qkv.common.config import override
from qkv.models import catalogue
from qkv.predict import loading
from qkv.recipes.schema import read_recipe

RECIPE = Path(__file__).parents[2] / "benchmarks" / "built-in-translators.toml"
MEGABYTE = 10**6
NAMES = ["en-de", "en-fr"]  # the translators
ENCODER = "english"


def test_the_built_in_models_are_these() -> None:
    assert [name for name in loading.built_in() if name != ENCODER] == NAMES


@pytest.mark.skipif(ENCODER not in loading.built_in(), reason="this source has no built-in encoder")
def test_the_encoder_is_small_and_fills_and_embeds() -> None:
    folder = loading.find(ENCODER)
    assert sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) <= 30 * MEGABYTE
    card = (folder / "README.md").read_text("utf-8")
    for said in ("CC BY-SA", "benchmarks/english.py", "kJ", "STS-B without labels", "## Limits"):
        assert said in card
    model = qkv.load(ENCODER, device="cpu")
    assert {"fill", "embed", "similar"} <= set(model.verbs)
    words = [choice.word for choice in model.fill(["She opened the [MASK] and went into the house."])[0][0]]
    assert "door" in words
    near = model.similar("A man is playing a guitar.", "A man plays the guitar.")
    assert near > model.similar("A man is playing a guitar.", "The weather in London was cold.")


@pytest.mark.parametrize("name", NAMES)
def test_they_are_small_and_their_cards_name_source_licence_and_score(name: str) -> None:
    folder = loading.find(name)
    assert sum(file.stat().st_size for file in folder.iterdir()) < 12 * MEGABYTE
    card = (folder / "README.md").read_text("utf-8")
    for said in ("Tatoeba", "CC BY 2.0", "qkv train benchmarks/built-in-translators.toml", "nrefs:1"):
        assert said in card
    assert re.search(r"\*\*4\d\.\d\d\*\* on the test part", card)


@pytest.mark.parametrize("name", NAMES)
def test_they_say_what_their_cards_show(name: str) -> None:
    card = (loading.find(name) / "README.md").read_text("utf-8")
    table = card.split("## What to expect")[1].split("It knows")[0]
    shown = [re.split(r"\s*\|\s*", line.strip("| ")) for line in table.strip().splitlines()[2:]]
    assert len(shown) == 3
    assert qkv.load(name, device="cpu").translate([english for english, _ in shown]) == [said for _, said in shown]


def test_they_load_in_16_bits_and_compute_in_32(tmp_path) -> None:
    model = qkv.load("en-de", device="cpu")
    assert {parameter.dtype.__str__() for parameter in model.module.parameters()} == {"torch.float32"}
    model.save(tmp_path / "half", dtype="float16")
    model.save(tmp_path / "whole")
    half, whole = ((tmp_path / name / "model.safetensors").stat().st_size for name in ("half", "whole"))
    assert whole > 1.99 * half
    again = qkv.load(tmp_path / "half", device="cpu").module.state_dict()
    assert all(again[name].equal(tensor) for name, tensor in model.module.state_dict().items())


@pytest.mark.parametrize("name", NAMES)
def test_their_recipe_makes_models_of_their_size(name: str) -> None:
    recipe, model = read_recipe(str(RECIPE)), qkv.load(name, device="cpu")
    changes = {**recipe.model.set, "vocab_size": recipe.tokenizer.vocab_size}
    made = override(catalogue.preset(recipe.model.preset), changes)
    for key in ("num_layers", "num_decoder_layers", "dim", "ff_dim", "num_heads", "vocab_size", "pre_norm", "dropout"):
        assert getattr(made, key) == getattr(model.config, key), key
