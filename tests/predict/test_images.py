"""`classify` on images: files, arrays, Pillow images, several labels, and what cannot be classified."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import qkv
from qkv.checkpoints.folder import Folder, write_folder
from qkv.common.errors import QkvError, UsageError
from qkv.common.pixels import ImageProcessor
from qkv.models import catalogue

image = pytest.importorskip("PIL.Image")
LABELS = ("ant", "bee", "cat")


def make(folder: Path, preset: str = "vit-ti16", **changes: Any) -> Path:
    torch.manual_seed(5)
    sizes: dict[str, Any] = {"image_size": 8, "dim": 16, "num_layers": 2, "num_labels": 3}
    sizes |= {"num_stages": 2} if "convnet" in preset else {"patch_size": 4, "num_heads": 2, "ff_dim": 24}
    config = catalogue.preset(preset, **sizes, **changes)
    module = catalogue.build(config).eval()
    for parameter in module.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    processor = ImageProcessor(mean=(0.4,), std=(0.3,)).resized_to(8)
    write_folder(Folder(config, module, labels=LABELS, processor=processor), folder)
    return folder


def pixels(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).integers(0, 256, shape, dtype=np.uint8)


@pytest.mark.parametrize("preset", ["vit-ti16", "deit-ti16", "convnet-mini"])
def test_one_image_in_every_form(tmp_path: Path, preset: str) -> None:
    model = qkv.load(make(tmp_path / "model", preset), device="cpu")
    assert model.verbs == ["classify"]
    array = pixels(11, 9, 3)
    picture = image.fromarray(array)
    picture.save(tmp_path / "a.png")
    forms = [
        tmp_path / "a.png",
        str(tmp_path / "a.png"),
        picture,
        array,
        np.ascontiguousarray(array.transpose(2, 0, 1)),
    ]
    found = model.classify(forms, every=True)
    scores = torch.tensor([[label.score for label in one] for one in found])
    torch.testing.assert_close(scores, scores[:1].expand_as(scores))
    assert {tuple(label.label for label in one) for one in found} == {tuple(label.label for label in found[0])}
    assert sorted(label.label for label in found[0]) == list(LABELS)
    assert sum(label.score for label in found[0]) == pytest.approx(1)
    (every,), (two,), (best,) = (model.classify([array], **how) for how in ({"every": True}, {"top": 2}, {}))
    assert (two, best) == (every[:2], every[0])
    assert model.classify([]) == []


def test_many_images_are_the_same_as_one_by_one(tmp_path: Path) -> None:
    model = qkv.load(make(tmp_path / "model"), device="cpu")
    images = [pixels(8 + n % 5, 9) if n % 2 else pixels(8 + n % 5, 9, 3) for n in range(130)]
    together = model.classify(images, every=True)
    for one in (0, 63, 64, 129):
        (alone,) = model.classify([images[one]], every=True)
        assert [label.label for label in alone] == [label.label for label in together[one]]
        assert [label.score for label in alone] == pytest.approx([label.score for label in together[one]], abs=1e-5)


def test_what_is_no_image_is_named(tmp_path: Path) -> None:
    model = qkv.load(make(tmp_path / "model"), device="cpu")
    (tmp_path / "bad.png").write_bytes(b"no image")
    with pytest.raises(QkvError, match=r"bad\.png: not an image that can be read"):
        model.classify([pixels(8, 8), tmp_path / "bad.png"])
    with pytest.raises(QkvError, match=r"gone\.png: there is no such file"):
        model.classify([tmp_path / "gone.png"])
    with pytest.raises(QkvError, match=r"image 0: an array of an image is uint8 .* got float64 \[8, 8\]"):
        model.classify([pixels(8, 8) / 255])
    with pytest.raises(QkvError, match="image 1: an image is a path, a Pillow image or an array of bytes, got 3"):
        model.classify([pixels(8, 8), 3])
    with pytest.raises(QkvError, match=r"image 0: an image of shape \[8, 8, 5\] has no axis of 1 or 3 channels"):
        model.classify([pixels(8, 8, 5)])
    with pytest.raises(UsageError, match="classify takes a list of images; put a single one in a list"):
        model.classify(str(tmp_path / "bad.png"))
    with pytest.raises(UsageError, match="one label for each image: leave out pairs and the threshold"):
        model.classify([pixels(8, 8)], threshold=0.5)
    with pytest.raises(UsageError, match="top must be at least 1, got 0"):
        model.classify([pixels(8, 8)], top=0)
    with pytest.raises(UsageError, match="give the number of labels or ask for all, not both"):
        model.classify([pixels(8, 8)], top=1, every=True)


def test_a_model_without_a_head_cannot_classify(tmp_path: Path) -> None:
    model = qkv.load(make(tmp_path / "model", heads=["pool"]), device="cpu")
    assert model.verbs == []
    with pytest.raises(UsageError, match="this vit cannot classify: it has no head for that"):
        model.classify([pixels(8, 8)])


def test_bytes_are_refused_where_numbers_are_meant(tmp_path: Path) -> None:
    model = qkv.load(make(tmp_path / "model"), device="cpu")
    with pytest.raises(UsageError, match="images must be numbers, not bytes"):
        model.logits(torch.zeros(1, 3, 8, 8, dtype=torch.uint8))
