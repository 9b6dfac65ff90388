"""Model folders behind links, and those whose replacement was cut off."""

from __future__ import annotations

import os
from pathlib import Path

import qkv

SMALL = {"dim": 16, "ff_dim": 16, "num_layers": 1, "num_heads": 2, "vocab_size": 20}


def test_a_model_is_saved_through_a_link_each_time(tmp_path: Path) -> None:
    model = qkv.build("bert-tiny", device="cpu", **SMALL)
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    for _ in range(2):
        model.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "config.json").is_file()
    assert sorted(os.listdir(tmp_path)) == ["link", "real"]


def test_a_folder_whose_replacement_was_cut_off_is_loaded(tmp_path: Path) -> None:
    qkv.build("bert-tiny", device="cpu", **SMALL).save(tmp_path / ".model.old")
    assert qkv.load(tmp_path / "model", device="cpu").config.dim == 16
    assert os.listdir(tmp_path) == ["model"]
