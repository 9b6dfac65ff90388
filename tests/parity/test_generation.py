"""`generate` and `score` against `transformers`, on its folders and on ours, with generation_config.json both ways."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

import qkv
from qkv.predict import Model
from tests.predict.writers import writer

PROMPTS = ["The small cat", "Two dogs", "The old queen sees a red house."]
CLASSES = {"gpt2": hf.GPT2LMHeadModel, "t5-small": hf.T5ForConditionalGeneration}


def theirs(folder: Path) -> tuple[Any, Any]:
    preset = "gpt2" if "gpt2" in folder.name else "t5-small"
    return hf.AutoTokenizer.from_pretrained(folder), CLASSES[preset].from_pretrained(folder).eval()


@pytest.fixture(scope="module", params=["ours", "theirs"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of a GPT and of a T5, written by qkv or written again by `transformers`."""
    root = tmp_path_factory.mktemp(request.param)
    for preset, kind in (("gpt2", "byte-bpe"), ("t5-small", "unigram")):
        folder = root / preset
        writer(kind, preset).save(folder)
        if request.param == "theirs":
            tokenizer, model = theirs(folder)
            model.generation_config = hf.GenerationConfig(**said(model.generation_config))
            model.save_pretrained(root / f"{preset}-again")
            tokenizer.save_pretrained(root / f"{preset}-again")
            folder.rename(root / "before")
            (root / f"{preset}-again").rename(folder)
            (root / "before").rename(root / f"{preset}-before")
    return root


def said(config: Any) -> dict[str, Any]:
    """Return what `transformers` itself writes for a model without settings: the ids of special tokens."""
    return {key: value for key in ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")
            if (value := getattr(config, key)) is not None}  # fmt: skip


def new_text(tokenizer: Any, model: Any, prompt: str, /, **options: Any) -> list[str]:
    """Return the new texts; a character that the end cuts is U+FFFD there, and nothing here."""
    inputs = tokenizer(prompt, return_tensors="pt")
    with torch.no_grad():
        found = model.generate(**inputs, **options)
    skip = 0 if model.config.is_encoder_decoder else inputs["input_ids"].shape[1]
    rows = found.tolist()
    before = "" if not skip else tokenizer.decode(rows[0][:skip], skip_special_tokens=True)
    return [tokenizer.decode(row, skip_special_tokens=True)[len(before) :].rstrip("\ufffd") for row in rows]


@pytest.mark.parametrize("preset", ["gpt2", "t5-small"])
@pytest.mark.parametrize(
    ("mine", "their"),
    [
        ({"sample": False, "beam": 1}, {"do_sample": False, "num_beams": 1}),
        ({"sample": False, "beam": 1, "repetition_penalty": 1.5, "no_repeat_ngram": 2},
         {"do_sample": False, "num_beams": 1, "repetition_penalty": 1.5, "no_repeat_ngram_size": 2}),
        ({"beam": 3, "samples": 2}, {"num_beams": 3, "num_return_sequences": 2, "do_sample": False,
                                     "early_stopping": "never", "length_penalty": 1.0}),
    ],
    ids=["greedy", "constraints", "beam"],
)  # fmt: skip
def test_generate_agrees(place: Path, preset: str, mine: dict[str, Any], their: dict[str, Any]) -> None:
    model = qkv.load(place / preset, device="cpu")
    tokenizer, other = theirs(place / preset)
    seen = set()
    for prompt, found in zip(PROMPTS, model.generate(PROMPTS, max_length=12, **mine), strict=True):
        wanted = new_text(tokenizer, other, prompt, max_new_tokens=12, **their)
        assert [found.text, *(one.text for one in found.others)] == wanted
        seen |= {*wanted}
    assert len(seen) > 1


def test_stop_strings_agree(place: Path) -> None:
    """They keep the stop string, and the rest of its last token; we do not."""
    model = qkv.load(place / "gpt2", device="cpu")
    tokenizer, other = theirs(place / "gpt2")
    (free,) = model.generate(PROMPTS[:1], sample=False, max_length=12)
    stop = free.text[3:5]
    (found,) = model.generate(PROMPTS[:1], sample=False, max_length=12, stop=[stop])
    (wanted,) = new_text(tokenizer, other, PROMPTS[0], max_new_tokens=12, do_sample=False, stop_strings=[stop],
                         tokenizer=tokenizer)  # fmt: skip
    assert wanted.startswith(found.text + stop)


def test_generate_of_transformers_works_on_our_folders_as_they_are(place: Path) -> None:
    """Without any argument: the folder says how to sample, how long, and which tokens end and pad."""
    for preset in CLASSES:
        tokenizer, model = theirs(place / preset)
        assert model.generation_config.eos_token_id is not None
        assert model.generation_config.pad_token_id is not None
        found = model.generate(**tokenizer(PROMPTS[:2], return_tensors="pt", padding=True))
        assert found.shape[0] == 2


def test_our_gpt_says_how_to_sample_and_what_they_say_is_kept(tmp_path: Path) -> None:
    writer().save(tmp_path / "gpt2")
    written = json.loads((tmp_path / "gpt2" / "generation_config.json").read_text())
    assert written["do_sample"] is True
    assert written["max_length"] == 48
    assert {written["eos_token_id"], written["pad_token_id"]} == {0}
    _, model = theirs(tmp_path / "gpt2")
    model.generation_config.update(temperature=0.5, top_k=7, max_length=30)
    model.generation_config.save_pretrained(tmp_path / "gpt2")
    again = qkv.load(tmp_path / "gpt2", device="cpu", verify=False)
    again.save(tmp_path / "again")
    kept = json.loads((tmp_path / "again" / "generation_config.json").read_text())
    assert (kept["temperature"], kept["top_k"], kept["max_length"]) == (0.5, 7, 30)
    assert len(again.generate(["I"])[0].tokens) <= 29


def test_the_prefix_of_a_t5_folder(tmp_path: Path) -> None:
    ours = writer("unigram", "t5-small")
    ours.save(tmp_path / "t5-small")
    config = json.loads((tmp_path / "t5-small" / "config.json").read_text())
    config["task_specific_params"] = {"summarization": {"prefix": "The old ", "num_beams": 4}}
    (tmp_path / "t5-small" / "config.json").write_text(json.dumps(config))
    model = qkv.load(tmp_path / "t5-small", device="cpu", verify=False)
    options: dict[str, Any] = {"sample": False, "beam": 1, "max_length": 6}
    for mine, text in ((None, "The old cat"), ("", "cat"), ("Two ", "Two cat")):
        assert model.generate(["cat"], prefix=mine, **options) == ours.generate([text], **options)


def test_scores_are_their_log_probabilities(place: Path) -> None:
    model: Model = qkv.load(place / "gpt2", device="cpu")
    tokenizer, other = theirs(place / "gpt2")
    after = [" sleeps", " eat the cat.", " It is"]
    for prompt, continuation, found in zip(PROMPTS, after, model.score(PROMPTS, after), strict=True):
        read, whole = (tokenizer(text, return_tensors="pt")["input_ids"] for text in (prompt, prompt + continuation))
        with torch.no_grad():
            logs = other(whole).logits[0, :-1].log_softmax(-1).gather(1, whole[0, 1:, None])[:, 0]
        assert found.token_scores == pytest.approx(logs[read.shape[1] - 1 :].tolist(), abs=1e-4)
