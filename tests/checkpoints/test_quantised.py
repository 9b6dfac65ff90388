"""Weights in int8: what is stored, what comes back, and what a damaged file says."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

import qkv
from qkv.checkpoints.quantised import LEAST, SCALE, quantise, restore
from qkv.common.errors import QkvError, UsageError


def test_each_row_is_rounded_to_its_own_scale() -> None:
    torch.manual_seed(0)
    weights = {"big": torch.randn(64, 300) * torch.logspace(-3, 2, 64).unsqueeze(1), "small": torch.randn(3, 4)}
    weights["big"][7] = 0
    stored = quantise(weights)
    assert stored["big"].dtype == torch.int8
    assert torch.equal(stored["small"], weights["small"])
    back = restore(stored)
    step = weights["big"].abs().amax(1) / 127
    assert ((back["big"] - weights["big"]).abs() <= step.unsqueeze(1) * 0.5001).all()
    assert torch.equal(quantise(back)["big"], stored["big"])  # packing what was read gives the stored numbers


def test_a_folder_is_a_quarter_and_every_verb_takes_it(tmp_path) -> None:
    model = qkv.build("bert-tiny", vocab_size=2000, heads=["mlm"], max_length=64)
    model.save(tmp_path / "small", dtype="int8")
    model.save(tmp_path / "plain")
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("small", "plain")]
    assert 3.5 < sizes[1] / sizes[0] < 4
    assert json.loads((tmp_path / "small/config.json").read_text())["model_type"] == "qkv-bert"  # not for transformers
    found = qkv.load(tmp_path / "small", device="cpu")
    assert found.contents.int8
    ids = [[2, 17, 430, 3], [2, 99, 3]]
    for mine, theirs in zip(found.logits(ids, head="mlm"), model.logits(ids, head="mlm"), strict=True):
        assert torch.nn.functional.cosine_similarity(mine, theirs).min() > 0.99
    found.save(tmp_path / "again")
    assert not qkv.load(tmp_path / "again", device="cpu").contents.int8


def test_quantize_writes_once_and_says_what_it_did(tmp_path) -> None:
    from qkv.predict.quantize import quantize

    assert LEAST > 100
    qkv.build("bert-tiny", vocab_size=2000).save(tmp_path / "plain")
    found = quantize(tmp_path / "plain", tmp_path / "small")
    assert found.megabytes < found.megabytes_before / 3.5
    with pytest.raises(UsageError, match="int8 already"):
        quantize(tmp_path / "small", tmp_path / "smaller")
    assert not (tmp_path / "smaller").exists()
    assert ("int8" in found.engine) == (found.note == "")
    with pytest.raises(UsageError, match="unknown precision 'int4'"):
        quantize(tmp_path / "plain", tmp_path / "smaller", to="int4")
    assert not (tmp_path / "smaller").exists()


@pytest.mark.parametrize(("able", "note"), [(True, "unless you ask for"), (False, "kill the process")])
def test_bfloat16_folders_say_what_the_cpu_makes_of_them(tmp_path, monkeypatch, able, note) -> None:
    from qkv.predict.quantize import quantize

    monkeypatch.setattr("qkv.predict.quantize.cpu_multiplies", lambda dtype: able)
    model = qkv.build("bert-tiny", vocab_size=2000, device="cpu")
    model.save(tmp_path / "plain")
    found = quantize(tmp_path / "plain", tmp_path / "half", to="bfloat16")
    assert note in found.note
    assert found.megabytes == pytest.approx(found.megabytes_before / 2, rel=0.01)
    loaded = qkv.load(tmp_path / "half", device="cpu")
    assert (loaded.engine, loaded.module.table.dtype) == (model.engine, torch.float32)
    assert torch.equal(loaded.module.table, model.module.table.bfloat16().float())


def test_missing_scales_are_named(tmp_path) -> None:
    qkv.build("bert-tiny", vocab_size=2000).save(tmp_path / "m", dtype="int8")
    file = tmp_path / "m" / "model.safetensors"
    tensors = load_file(file)
    name = next(name for name in tensors if name.endswith(SCALE))
    save_file({key: value for key, value in tensors.items() if key != name}, file)
    with pytest.raises(QkvError, match=name.removesuffix(SCALE)):
        qkv.load(tmp_path / "m", device="cpu", verify=False)
