"""The same PNG gives the same logits as the image processor and the model of `transformers`, both ways."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf

import qkv
from qkv.checkpoints.folder import Folder, write_folder
from qkv.common.errors import UsageError
from qkv.common.pixels import ImageProcessor
from qkv.data.images import read_image
from qkv.models import catalogue

image = pytest.importorskip("PIL.Image")
SIZES = {
    "image_size": 16, "patch_size": 8, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
    "intermediate_size": 24, "num_labels": 5,
}  # fmt: skip


def png(folder: Path, *shape: int) -> Path:
    pixels = np.random.default_rng(sum(shape)).integers(0, 256, (*shape, 3), dtype=np.uint8)
    image.fromarray(pixels).resize(shape[::-1]).save(folder / "a.png")
    return folder / "a.png"


def processors() -> dict[str, Any]:
    from transformers.models.deit.image_processing_pil_deit import DeiTImageProcessorPil
    from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

    side, imagenet = (
        {"height": 16, "width": 16},
        {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]},
    )
    return {
        "vit": ViTImageProcessorPil(size=side),
        "imagenet": ViTImageProcessorPil(size=side, resample=3, **imagenet),
        "deit": DeiTImageProcessorPil(size={"height": 20, "width": 20}, crop_size=side, **imagenet),
        "raw": ViTImageProcessorPil(size=side, do_rescale=False, image_mean=[127.5] * 3, image_std=[127.5] * 3),
    }


@pytest.mark.parametrize("kind", ["vit", "imagenet", "deit", "raw"])
@pytest.mark.parametrize("shape", [(16, 16), (37, 23)], ids=str)
def test_a_folder_of_transformers(tmp_path: Path, kind: str, shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    theirs = hf.ViTForImageClassification(hf.ViTConfig(**SIZES)).eval()
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    reader = processors()[kind]
    theirs.save_pretrained(tmp_path / "model")
    reader.save_pretrained(tmp_path / "model")
    file = png(tmp_path, *shape)
    with torch.no_grad():
        wanted = theirs(**reader(image.open(file), return_tensors="pt")).logits[0]
    model = qkv.load(tmp_path / "model", device="cpu")
    found = model.image_chances([read_image(file)], [str(file)])[0]
    torch.testing.assert_close(found, wanted.softmax(-1), atol=1e-5, rtol=1e-4)
    best = model.classify([file])[0]
    assert best.label == theirs.config.id2label[int(wanted.argmax())]


def test_a_folder_of_ours(tmp_path: Path) -> None:
    from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

    torch.manual_seed(0)
    sizes = {
        "image_size": 16,
        "patch_size": 8,
        "dim": 16,
        "num_layers": 1,
        "num_heads": 2,
        "ff_dim": 24,
        "num_labels": 5,
    }
    config = catalogue.preset("vit-ti16", **sizes)
    module = catalogue.build(config).eval()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    processor = ImageProcessor(mean=(0.1, 0.5, 0.9), std=(0.2, 0.3, 0.4)).resized_to(16)
    write_folder(Folder(config, module, processor=processor), tmp_path / "model")
    theirs = hf.AutoModelForImageClassification.from_pretrained(tmp_path / "model").eval()
    reader = ViTImageProcessorPil.from_pretrained(tmp_path / "model")
    file = png(tmp_path, 37, 23)
    with torch.no_grad():
        wanted = theirs(**reader(image.open(file), return_tensors="pt")).logits[0].softmax(-1)
    model = qkv.load(tmp_path / "model", device="cpu")
    torch.testing.assert_close(model.image_chances([read_image(file)], ["a"])[0], wanted, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", ["ViTForImageClassification", "DeiTForImageClassificationWithTeacher"])
def test_another_image_size_as_in_transformers(tmp_path: Path, kind: str) -> None:
    torch.manual_seed(0)
    theirs = getattr(hf, kind)((hf.DeiTConfig if "DeiT" in kind else hf.ViTConfig)(**SIZES)).eval()
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    theirs.save_pretrained(tmp_path / "model")
    pixels = torch.randn(2, 3, 40, 40)
    with torch.no_grad():
        wanted = theirs(pixels, interpolate_pos_encoding=True).logits
    model = qkv.load(tmp_path / "model", device="cpu", image_size=40)
    torch.testing.assert_close(torch.stack(model.logits(pixels)), wanted, atol=1e-4, rtol=1e-4)
    model.save(tmp_path / "larger")
    again = qkv.load(tmp_path / "larger", device="cpu")
    torch.testing.assert_close(torch.stack(again.logits(pixels)), wanted, atol=1e-4, rtol=1e-4)
    with pytest.raises(UsageError, match="image_size 20 is not a multiple of patch_size 8"):
        qkv.load(tmp_path / "model", device="cpu", image_size=20)
