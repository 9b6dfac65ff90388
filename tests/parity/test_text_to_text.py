"""Folders after text-to-text fine-tuning: `transformers` reads them, with equal logits and a working `generate`."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

import qkv
from qkv.recipes.schema import read_recipe
from qkv.runs.run import run_recipe

PREFIX = "translate English to French: "
TINY = "{dim=32, num_layers=2, num_decoder_layers=1, num_heads=2, ff_dim=32%s}"
PRESETS = {"t5-small": ", head_dim=16", "t5-1.1-small": ", head_dim=16", "transformer-tiny": ", pre_norm=true"}
WORDS = {
    "cat": "chat",
    "dog": "chien",
    "sleeps": "dort",
    "eats": "mange",
    "sees": "voit",
    "red": "rouge",
    "big": "grand",
}
TEXTS = ["cat sleeps", "big dog eats red", "dog"]


@pytest.fixture(scope="module", params=PRESETS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learned to translate word by word, a little."""
    out, draw = tmp_path_factory.mktemp("parity") / "run", random.Random(0)
    sentences = [[draw.choice(list(WORDS)) for _ in range(draw.randint(1, 4))] for _ in range(80)]
    rows = ["\t".join([" ".join(words), " ".join(WORDS[word] for word in words)]) for words in sentences]
    (out.parent / "pairs.tsv").write_text("\n".join(["source\ttarget", *rows]) + "\n")
    asked = [
        f"out={out}", f"model.preset={request.param}", f"model.set={TINY % PRESETS[request.param]}",
        f"data.train={out.parent / 'pairs.tsv'}", "tokenizer.vocab_size=200", f'objective.prefix="{PREFIX}"',
        "objective.smoothing=0.1", "objective.r_drop=1.0", "train.steps=60", "train.tokens=400", "optim.lr=0.01",
        "train.validate_every=60", "train.ema=0.0", "data.held_out=0.1",
    ]  # fmt: skip
    recipe = read_recipe("text-to-text", asked, debug=True)
    outcome = run_recipe(recipe, device="cpu", say=lambda line: None, report=False)
    assert outcome.reason == "done"
    return out


@pytest.fixture(scope="module")
def both(folder: Path) -> tuple[qkv.Model, Any, Any]:
    theirs, report = hf.AutoModelForSeq2SeqLM.from_pretrained(folder, output_loading_info=True)
    assert not any(report.values())
    return qkv.load(folder, device="cpu"), theirs.eval(), hf.AutoTokenizer.from_pretrained(folder)


@torch.no_grad()
def test_equal_ids_and_logits(both: tuple[qkv.Model, Any, Any]) -> None:
    ours, theirs, tokenizer = both
    sources = ours.encode([PREFIX + text for text in TEXTS]).ids
    assert tokenizer([PREFIX + text for text in TEXTS])["input_ids"] == sources
    targets = [[ours.config.start_id, *ids[:-1]] for ids in ours.encode(TEXTS[::-1]).ids]
    for source, target, mine in zip(sources, targets, ours.logits(sources, targets), strict=True):
        other = theirs(input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([target])).logits[0]
        torch.testing.assert_close(mine, other, atol=1e-4, rtol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("beam", [1, 4])
def test_generate_says_what_translate_says(both: tuple[qkv.Model, Any, Any], beam: int) -> None:
    """The prefix of the folder is the default here; there it is a part of the text."""
    ours, theirs, tokenizer = both
    batch = tokenizer([PREFIX + text for text in TEXTS], padding=True, return_tensors="pt")
    found = theirs.generate(**batch, **({"num_beams": 1} if beam == 1 else {}))
    said = tokenizer.batch_decode(found, skip_special_tokens=True)
    assert said == ours.translate(TEXTS, beam=beam)
    assert all(said)
    assert beam > 1 or len(set(said)) > 1  # the sources are read


def test_the_folder_names_the_tokens_that_generate_needs(folder: Path, both: tuple[qkv.Model, Any, Any]) -> None:
    ours, theirs, tokenizer = both
    stored = json.loads((folder / "generation_config.json").read_text())
    assert ours.tokenizer is not None
    end, pad = ours.tokenizer.specials["end"], ours.tokenizer.specials["pad"]
    for config in (stored, theirs.generation_config.to_dict(), theirs.config.to_dict()):
        assert (config["eos_token_id"], config["pad_token_id"]) == (end, pad)
        assert config["decoder_start_token_id"] == ours.config.start_id
    assert (tokenizer.eos_token_id, tokenizer.pad_token_id) == (end, pad)
    assert tokenizer.model_max_length == 256
    assert theirs.config.task_specific_params == {"translate": {"kind": "translate", "prefix": PREFIX}}


def test_what_transformers_saves_keeps_the_task(both: tuple[qkv.Model, Any, Any], tmp_path: Path) -> None:
    ours, theirs, tokenizer = both
    theirs.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    again = qkv.load(tmp_path, device="cpu")
    assert again.text_tasks == ours.text_tasks
    assert again.translate(TEXTS, beam=1, max_length=9) == ours.translate(TEXTS, beam=1, max_length=9)
