"""Folders that `transformers` wrote, fine-tuned here, and read there again: equal logits and a working `generate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

import qkv
from qkv.data.images import read_image
from qkv.recipes.schema import read_recipe
from qkv.runs.run import run_recipe

image = pytest.importorskip("PIL.Image")
SENTENCES = [f"the {size} {name} sees {many} dogs" for size in ("old", "red") for name in ("cat", "queen")
             for many in ("two", "three", "no")]  # fmt: skip
LANGUAGE = {"vocab_size": 300, "n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 48}
T5 = {"vocab_size": 300, "d_model": 32, "d_kv": 16, "d_ff": 48, "num_layers": 2, "num_heads": 2}
IMAGES = {
    "image_size": 16, "patch_size": 8, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
    "intermediate_size": 24,
}  # fmt: skip


def random_weights(model: Any) -> Any:
    torch.manual_seed(0)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return model


def gpt2(folder: Path) -> Path:
    """As the original folder: the end token is the only special one, and generation_config.json has only its id."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    end = "<|endoftext|>"
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=[end], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())  # fmt: skip
    tokenizer.train_from_iterator(SENTENCES, trainer)
    names = {"eos_token": end, "bos_token": end, "unk_token": end}
    hf.PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=48, **names).save_pretrained(folder)
    config = hf.GPT2Config(**LANGUAGE, bos_token_id=0, eos_token_id=0)
    random_weights(hf.GPT2LMHeadModel(config)).save_pretrained(folder)
    return folder


def t5(folder: Path) -> Path:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    specials = ["<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(vocab_size=200, special_tokens=specials, unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator(SENTENCES, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    names = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    hf.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    random_weights(hf.T5ForConditionalGeneration(hf.T5Config(**T5, decoder_start_token_id=0))).save_pretrained(folder)
    return folder


@torch.enable_grad()
def trained(out: Path, recipe: str, *changes: str) -> qkv.Model:
    asked = [f"out={out}", "train.steps=4", "train.workers=0", "train.validate_every=4", "optim.lr=0.003", *changes]
    outcome = run_recipe(read_recipe(recipe, asked), device="cpu", say=lambda line: None, report=False)
    assert outcome.reason == "done"
    return qkv.load(out, device="cpu")


def read_again(kind: Any, folder: Path) -> Any:
    theirs, report = kind.from_pretrained(folder, output_loading_info=True)
    assert not any(report.values())
    return theirs.eval()


@pytest.mark.parametrize("recipe", ["tune-gpt", "complete"])
@torch.no_grad()
def test_gpt2(tmp_path: Path, recipe: str) -> None:
    (tmp_path / "text.txt").write_text("\n".join(SENTENCES * 4) + "\n")
    rows = [f"{text.rsplit(' ', 1)[0]}\t{text.rsplit(' ', 1)[1]}" for text in SENTENCES * 4]
    (tmp_path / "pairs.tsv").write_text("\n".join(["prompt\tanswer", *rows]) + "\n")
    start = gpt2(tmp_path / "gpt2")
    before = qkv.load(start, device="cpu")
    data = "text.txt" if recipe == "tune-gpt" else "pairs.tsv"
    ours = trained(tmp_path / "run", recipe, f"model.init={start}", f"data.train={tmp_path / data}")
    tokenizer, theirs = (
        hf.AutoTokenizer.from_pretrained(tmp_path / "run"),
        read_again(hf.GPT2LMHeadModel, tmp_path / "run"),
    )
    prompts = [text + ours.contents.suffix for text in SENTENCES[:2]]  # what stands between prompt and answer
    batch, ids = tokenizer(prompts, return_tensors="pt", padding=True), ours.encode(prompts).ids
    for row, wanted, old in zip(ids, ours.logits(ids), before.logits(ids), strict=True):
        torch.testing.assert_close(theirs(torch.tensor([row])).logits[0], wanted, atol=1e-4, rtol=0)
        assert not torch.allclose(wanted, old, atol=1e-2)  # something was learned
    found = theirs.generate(**batch, max_new_tokens=6, do_sample=False)  # end and pad are those of the folder
    texts = tokenizer.batch_decode(found[:, batch["input_ids"].shape[1] :], skip_special_tokens=True)
    assert texts == [one.text for one in ours.generate(SENTENCES[:2], sample=False, max_length=6)]
    assert theirs.generation_config.eos_token_id == tokenizer.eos_token_id == tokenizer.pad_token_id == 0


@torch.no_grad()
def test_t5(tmp_path: Path) -> None:
    rows = [f"{text}\t{' '.join(reversed(text.split()))}" for text in SENTENCES * 4]
    (tmp_path / "pairs.tsv").write_text("\n".join(["source\ttarget", *rows]) + "\n")
    start = t5(tmp_path / "t5")
    changes = [f"model.init={start}", f"data.train={tmp_path / 'pairs.tsv'}", "objective.prefix='turn: '"]
    ours = trained(tmp_path / "run", "text-to-text", *changes)
    kind = hf.T5ForConditionalGeneration
    tokenizer, theirs = hf.AutoTokenizer.from_pretrained(tmp_path / "run"), read_again(kind, tmp_path / "run")
    sources = [f"turn: {text}" for text in SENTENCES[:3]]
    batch, ids = tokenizer(sources, return_tensors="pt", padding=True), ours.encode(sources).ids
    assert [row[: len(mine)].tolist() for row, mine in zip(batch["input_ids"], ids, strict=True)] == ids
    wanted = ours.logits(ids, [[0, 5, 6]] * 3)
    logits = theirs(**batch, decoder_input_ids=torch.tensor([[0, 5, 6]] * 3)).logits
    torch.testing.assert_close(logits, torch.stack(wanted), atol=1e-4, rtol=0)
    found = theirs.generate(**batch, max_new_tokens=6, do_sample=False, num_beams=1)
    texts = tokenizer.batch_decode(found, skip_special_tokens=True)
    assert texts == [one.text for one in ours.generate(SENTENCES[:3], sample=False, beam=1, max_length=6)]


@pytest.mark.parametrize("kind", ["ViT", "DeiT"])
@torch.no_grad()
def test_images(tmp_path: Path, kind: str) -> None:
    from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

    start, draw = tmp_path / "start", np.random.default_rng(0)
    numbers = {"image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.3, 0.4], "resample": 3}
    ViTImageProcessorPil(size={"height": 16, "width": 16}, **numbers).save_pretrained(start)
    name = {"ViT": "ViTForImageClassification", "DeiT": "DeiTForImageClassificationWithTeacher"}[kind]
    config = getattr(hf, f"{kind}Config")(**IMAGES, num_labels=5)
    random_weights(getattr(hf, name)(config)).save_pretrained(start)
    for label in ("cat", "dog", "owl"):
        (tmp_path / "images" / label).mkdir(parents=True)
        for number in range(8):
            pixels = draw.integers(0, 256, (20, 18, 3), dtype=np.uint8)
            image.fromarray(pixels).save(tmp_path / "images" / label / f"{number}.png")
    ours = trained(tmp_path / "run", "image", f"model.init={start}", f"data.train={tmp_path / 'images'}")
    reader = ViTImageProcessorPil.from_pretrained(tmp_path / "run")
    theirs = read_again(getattr(hf, name), tmp_path / "run")
    assert theirs.config.id2label == {0: "cat", 1: "dog", 2: "owl"}
    file = tmp_path / "images" / "owl" / "3.png"
    wanted = theirs(**reader(image.open(file), return_tensors="pt")).logits[0].softmax(-1)
    torch.testing.assert_close(ours.image_chances([read_image(file)], [str(file)])[0], wanted, atol=1e-5, rtol=1e-4)
