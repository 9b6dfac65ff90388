"""`preprocessor_config.json`: read and written as `transformers` has it, and old folders mean what they meant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import qkv
from qkv.checkpoints.folder import Folder, read_folder, write_folder
from qkv.checkpoints.preprocessor import FILE, processor_json, read_processor
from qkv.common.errors import QkvError
from qkv.common.pixels import ImageProcessor
from qkv.data.resize import fitted, with_channels
from qkv.models import catalogue

SIZES = {"image_size": 8, "patch_size": 4, "dim": 8, "num_layers": 1, "num_heads": 2, "ff_dim": 8, "num_labels": 3}
RANDOM = np.random.default_rng(0)


def written(folder: Path, **raw: Any) -> ImageProcessor:
    (folder / FILE).write_text(json.dumps(raw))
    found = read_processor(folder, 3)
    assert found is not None
    return found


def image(*shape: int) -> np.ndarray[Any, Any]:
    return RANDOM.integers(0, 256, shape, dtype=np.uint8)


def saved(folder: Path, processor: ImageProcessor | None, **changes: Any) -> Path:
    torch.manual_seed(0)
    config = catalogue.preset("vit-ti16", **SIZES, **changes)
    write_folder(Folder(config, catalogue.build(config).eval(), processor=processor), folder, mode="update")
    return folder


@pytest.mark.parametrize(
    "processor",
    [
        ImageProcessor(),
        ImageProcessor(mean=(0.1, 0.2, 0.3), std=(0.5, 0.6, 0.7), rescale=1.0, size=(8, 9), resample=3),
        ImageProcessor(size=(32,), crop=(8, 8)),
    ],
)
def test_what_is_written_is_read(tmp_path: Path, processor: ImageProcessor) -> None:
    assert written(tmp_path, **processor_json(processor)) == processor


def test_a_folder_keeps_its_processor_and_loses_that_of_another_model(tmp_path: Path) -> None:
    processor = ImageProcessor(mean=(0.2,), std=(0.3,)).resized_to(8)
    folder = saved(tmp_path / "model", processor)
    assert read_folder(folder).processor == processor
    assert qkv.load(folder, device="cpu").processor == processor
    assert read_folder(saved(folder, None)).processor is None
    assert not (folder / FILE).exists()


def test_what_a_file_leaves_out_is_what_its_class_says(tmp_path: Path) -> None:
    assert written(tmp_path, image_processor_type="ViTImageProcessor") == ImageProcessor(size=(224, 224))
    deit = written(tmp_path, image_processor_type="DeiTImageProcessor")
    assert deit == ImageProcessor(size=(256, 256), crop=(224, 224), resample=3)
    old = written(tmp_path, feature_extractor_type="ViTFeatureExtractor", size=96, resample=2)
    assert old.size == (96, 96)
    raw = written(tmp_path, do_resize=False, do_rescale=False, do_normalize=False)
    assert raw == ImageProcessor(mean=(0.0,), std=(1.0,), rescale=1.0)


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        ({"image_std": [0.5, 0.0, 0.5]}, "image_std must be above 0, got 0"),
        ({"image_mean": [0.5, 0.5]}, "image_mean has 2 numbers and image_std 1|must have 1 or 3 numbers"),
        ({"image_mean": []}, "image_mean is empty"),
        ({"image_mean": ["a"]}, "image_mean takes finite numbers, got 'a'"),
        ({"size": {"height": 8}}, "'shortest_edge'"),
        ({"size": {"height": 10**9, "width": 8}}, "size must be whole numbers from 1 to 8192"),
        ({"size": 0}, "size must be whole numbers from 1 to 8192"),
        ({"resample": "bilinear"}, "resample must be one of Pillow's numbers"),
        ({"rescale_factor": None}, "rescale_factor takes finite numbers"),
    ],
)
def test_nonsense_is_named_with_its_file(tmp_path: Path, raw: dict[str, Any], why: str) -> None:
    with pytest.raises(QkvError, match=rf"{FILE} is invalid: .*({why})"):
        written(tmp_path, **raw)
    saved(tmp_path / "model", None)
    (tmp_path / "model" / FILE).write_text(json.dumps(raw))
    with pytest.raises(QkvError, match=FILE):
        read_folder(tmp_path / "model")


def test_numbers_are_those_of_the_formula_and_of_old_folders() -> None:
    pixels = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16)
    torch.testing.assert_close(ImageProcessor().numbers(pixels), pixels.float() / 127.5 - 1, atol=1e-6, rtol=1e-6)
    colour = pixels.expand(1, 3, 16, 16)
    found = ImageProcessor(mean=(0.1, 0.2, 0.3), std=(0.5, 1.0, 2.0)).numbers(colour)
    torch.testing.assert_close(found[0, 2], (pixels[0, 0] / 255 - 0.3) / 2)


def test_an_old_folder_reads_its_own_size_and_refuses_others(tmp_path: Path) -> None:
    model = qkv.load(saved(tmp_path / "model", None), device="cpu")
    pixels = image(3, 8, 8)
    wanted = model.logits(torch.from_numpy(pixels[None] / np.float32(127.5) - 1))[0].softmax(-1)
    (labels,) = model.classify([pixels], every=True)
    torch.testing.assert_close(torch.tensor([one.score for one in labels]), wanted.sort(descending=True).values)
    with pytest.raises(QkvError, match=r"image 0: .* \(3, 9, 8\), but the model takes \(3, 8, 8\); its folder has no"):
        model.classify([image(3, 9, 8)])


def test_grey_and_colour_become_each_other_as_in_pillow() -> None:
    pillow = pytest.importorskip("PIL.Image")
    pixels = image(3, 5, 7)
    theirs = np.asarray(pillow.fromarray(pixels.transpose(1, 2, 0)).convert("L"))
    np.testing.assert_array_equal(with_channels(pixels, 1)[0], theirs)
    np.testing.assert_array_equal(with_channels(pixels[:1], 3), np.repeat(pixels[:1], 3, axis=0))


@pytest.mark.parametrize("size", [(24, 40), (40, 24), (31, 31)])
def test_the_shorter_edge_and_the_crop_are_those_of_transformers(size: tuple[int, int]) -> None:
    pytest.importorskip("PIL.Image")
    from transformers.models.deit.image_processing_pil_deit import DeiTImageProcessorPil

    theirs = DeiTImageProcessorPil(
        size={"shortest_edge": 20}, crop_size={"height": 16, "width": 16}, do_normalize=False
    )
    pixels = image(3, *size)
    wanted = theirs(pixels, return_tensors="np", input_data_format="channels_first")["pixel_values"][0] * 255
    ours = ImageProcessor(size=(20,), crop=(16, 16), resample=3)
    np.testing.assert_allclose(fitted(pixels, (3, 16, 16), ours, "x"), wanted, atol=1e-3)
    with pytest.raises(QkvError, match=r"x: an image of \d+ x \d+ pixels is smaller than its crop of 30 x 30"):
        fitted(pixels, (3, 30, 30), ImageProcessor(size=(20,), crop=(30, 30)), "x")
