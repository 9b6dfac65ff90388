"""Folders with tokenizers of our own, used in `transformers` as anyone would: no argument names a special token.

Batches of two are padded there and compared with what qkv gives each text alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

import qkv
from qkv.checkpoints.folder import Folder, write_folder
from qkv.models import catalogue
from tests.tokenizers.conftest import train

SIZES = {"dim": 32, "num_layers": 2, "num_heads": 4, "ff_dim": 48}
TEXTS = ["The cat sat on the mat, and the dog ran home.", "Two ☃ dogs"]  # one character is unknown
PAIRS = ["the cats don't.", "A naïve café owner paid 1,234.56 € for (old) tea!"]
READERS = {
    "bert-tiny": "wordpiece", "roberta-base": "byte-bpe", "xlm-roberta-base": "unigram", "distilbert-base": "wordpiece",
    "electra-small": "bpe", "albert-base": "unigram",
}  # fmt: skip


def saved(place: Path, preset: str, kind: str, specials: str, **changes: Any) -> qkv.Model:
    """Write a random model with a trained tokenizer, and read it back."""
    tokenizer = train(kind, specials=specials, min_frequency=1)
    roles = {"start_id": tokenizer.specials.get("pad"), "end_id": tokenizer.specials.get("end")}
    fields = {field for field in vars(catalogue.preset(preset)) if roles.get(field) is not None}
    config = catalogue.preset(
        preset, **SIZES, vocab_size=tokenizer.vocab_size, **{key: roles[key] for key in fields}, **changes
    )
    torch.manual_seed(0)
    model = catalogue.build(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    write_folder(Folder(config, model, tokenizer), place)
    return qkv.load(place, device="cpu")


@pytest.mark.parametrize("preset", [*READERS, "gpt2"])
@torch.no_grad()
def test_a_batch_of_two_is_classified(tmp_path: Path, preset: str) -> None:
    specials = "gpt" if preset == "gpt2" else "bert"
    heads = ["classify"] if preset == "gpt2" else ["pool", "classify"]
    kind = READERS.get(preset, "byte-bpe")
    ours = saved(tmp_path, preset, kind, specials, heads=heads, num_labels=3)
    tokenizer = hf.AutoTokenizer.from_pretrained(tmp_path)
    model = hf.AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    assert model.config.pad_token_id == tokenizer.pad_token_id is not None
    for pairs in (None, PAIRS):
        encoded = ours.encode(TEXTS, pairs)
        wanted = ours.logits(encoded.ids, segments=encoded.segments)
        batch = tokenizer(TEXTS, pairs, padding=True, return_tensors="pt")
        torch.testing.assert_close(model(**batch).logits, torch.stack(wanted), atol=1e-4, rtol=0)
    ask = hf.pipeline("text-classification", model=str(tmp_path), device="cpu")
    scores = [label.score for label in ours.classify(TEXTS)]
    assert [row["score"] for row in ask(TEXTS, batch_size=2)] == pytest.approx(scores, abs=1e-5)


def test_a_classifier_made_from_a_language_model_fills_batches_on_the_right(tmp_path: Path) -> None:
    """GPT-2 counts positions from the left, padding or not; only `generate` knows better."""
    language = saved(tmp_path / "lm", "gpt2", "byte-bpe", "gpt")
    assert hf.AutoTokenizer.from_pretrained(tmp_path / "lm").padding_side == "left"
    reader = saved(tmp_path / "reader", "gpt2", "byte-bpe", "gpt", heads=["classify"])
    write_folder(Folder(reader.config, reader.module, language.tokenizer), tmp_path / "reader")
    assert hf.AutoTokenizer.from_pretrained(tmp_path / "reader").padding_side == "right"


@pytest.mark.parametrize("preset", READERS)
@torch.no_grad()
def test_hidden_tokens_of_a_batch_of_two(tmp_path: Path, preset: str) -> None:
    """Unknown tokens count as positions, padding does not: RoBERTa tells them apart by id."""
    ours = saved(tmp_path, preset, "wordpiece", "bert", heads=["mlm"])
    tokenizer = hf.AutoTokenizer.from_pretrained(tmp_path)
    texts = ["the [MASK] sat on ☃ the mat ☃ .", "Two [MASK]"]
    encoded = ours.encode(texts)
    assert ours.tokenizer is not None
    assert ours.tokenizer.specials["unk"] in encoded.ids[0]
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    found = hf.AutoModelForMaskedLM.from_pretrained(tmp_path).eval()(**batch).logits
    for row, wanted in zip(found, ours.logits(encoded.ids, segments=encoded.segments, head="mlm"), strict=True):
        torch.testing.assert_close(row[: len(wanted)], wanted, atol=1e-4, rtol=0)


@pytest.mark.parametrize("kind", ["byte-bpe", "bpe"])
@torch.no_grad()
def test_a_batch_of_two_is_continued(tmp_path: Path, kind: str) -> None:
    ours = saved(tmp_path, "gpt2", kind, "gpt", max_length=64)
    assert ours.tokenizer is not None
    tokenizer, model = hf.AutoTokenizer.from_pretrained(tmp_path), hf.AutoModelForCausalLM.from_pretrained(tmp_path)
    end = ours.tokenizer.specials["end"]
    assert tokenizer.eos_token_id == tokenizer.pad_token_id == end
    assert model.generation_config.eos_token_id == model.config.eos_token_id == end
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    found = model.generate(**batch, max_new_tokens=6, do_sample=False)
    for text, row in zip(TEXTS, found, strict=True):
        ids = list(ours.encode([text]).ids[0])
        for wanted in row[batch["input_ids"].shape[1] :].tolist():
            assert int(ours.logits([ids])[0][-1].argmax()) == wanted
            ids.append(wanted)
            if wanted == end:
                break


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize(("preset", "specials"), [("transformer-tiny", "translate"), ("t5-small", "t5")])
@torch.no_grad()
def test_a_batch_of_two_is_translated(tmp_path: Path, preset: str, specials: str, kind: str) -> None:
    ours = saved(tmp_path, preset, kind, specials, num_decoder_layers=2)
    assert ours.tokenizer is not None
    tokenizer, model = hf.AutoTokenizer.from_pretrained(tmp_path), hf.AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    assert tokenizer.pad_token_id == model.config.pad_token_id == ours.tokenizer.specials["pad"]
    assert tokenizer.eos_token_id == model.config.eos_token_id == ours.tokenizer.specials["end"]
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    found = model.generate(**batch, max_new_tokens=6, do_sample=False, num_beams=1).tolist()
    for source, row in zip(ours.encode(TEXTS).ids, found, strict=True):
        for step in range(1, len(row)):
            if row[step - 1] == tokenizer.eos_token_id:
                break
            if step < 6:  # their last token is forced to be the end in Marian
                assert int(ours.logits([source], [row[:step]])[0][-1].argmax()) == row[step]


@pytest.mark.parametrize("kind", ["wordpiece", "byte-bpe"])
def test_a_tokenizer_whose_settings_name_nothing_pads(tmp_path: Path, kind: str) -> None:
    """A folder with tokenizer.json alone is written with the names of its special tokens."""
    saved(tmp_path / "a", "bert-tiny", kind, "bert")
    for name in ("tokenizer_config.json", "qkv_digests.json"):
        (tmp_path / "a" / name).unlink(missing_ok=True)
    qkv.load(tmp_path / "a", device="cpu").save(tmp_path / "b")
    tokenizer = hf.AutoTokenizer.from_pretrained(tmp_path / "b")
    named = (tokenizer.pad_token, tokenizer.unk_token, tokenizer.mask_token, tokenizer.cls_token, tokenizer.sep_token)
    assert named == ("[PAD]", "[UNK]", "[MASK]", "[CLS]", "[SEP]")
    assert tokenizer.bos_token is None
    batch = tokenizer(TEXTS, PAIRS, padding=True, return_tensors="pt")
    alone = [len(tokenizer(*pair)["input_ids"]) for pair in zip(TEXTS, PAIRS, strict=True)]
    assert batch["attention_mask"].sum(1).tolist() == alone
    assert set(batch["token_type_ids"].flatten().tolist()) == {0, 1}


def test_names_that_a_folder_gives_stay(tmp_path: Path) -> None:
    ours = saved(tmp_path / "a", "bert-tiny", "wordpiece", "bert")
    assert ours.tokenizer is not None
    ours.tokenizer.settings |= {"pad_token": "[MASK]", "bos_token": "[CLS]"}
    ours.save(tmp_path / "b")
    tokenizer = hf.AutoTokenizer.from_pretrained(tmp_path / "b")
    assert (tokenizer.pad_token, tokenizer.bos_token) == ("[MASK]", "[CLS]")
