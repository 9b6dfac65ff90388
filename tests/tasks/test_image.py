"""Image classification from files to a folder: sizes, numbers, rules, resuming, starting points and teachers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import qkv
from qkv.checkpoints.folder import Folder, read_folder, write_folder
from qkv.checkpoints.preprocessor import FILE
from qkv.common.errors import QkvError, UsageError
from qkv.common.pixels import ImageProcessor
from qkv.exams.evaluate import evaluate
from qkv.models import catalogue
from qkv.nn.grid import resized_table
from qkv.recipes.schema import read_recipe
from qkv.runs.run import prepare, run_recipe
from qkv.tasks.facts import Facts
from qkv.tasks.image_rules import RULES
from qkv.tasks.pixel_facts import PixelFacts
from tests.runs.killing import cut_off

TINY = ["model.set.dim=16", "model.set.num_layers=2", "model.set.num_heads=2", "model.set.ff_dim=24", "train.tokens=8"]
TINY += ["train.workers=1", "train.steps=4", "data.held_out=0.3"]
NETWORK = ["model.preset=convnet-mini", "model.set.num_heads=auto", "model.set.ff_dim=auto"]
NETWORK += ["model.set.num_layers=3", "model.set.dim=32"]
TABLE = "embeddings.position.table.weight"


def arrays(folder: Path, *shape: int, count: int = 30, classes: int = 3) -> str:
    """Images whose brightness tells their class."""
    random = np.random.default_rng(0)
    labels = np.arange(count) % classes
    images = random.integers(0, 80, (count, *shape)) + 60 * labels.reshape(-1, *[1] * len(shape))
    np.savez(folder / "images.npz", images=images.astype(np.uint8), labels=labels)
    return str(folder / "images.npz")


def photos(folder: Path, sizes: list[tuple[int, int]], grey: int = 0) -> str:
    image = pytest.importorskip("PIL.Image")
    random = np.random.default_rng(0)
    for number, (height, width) in enumerate(sizes):
        place = folder / "photos" / ("cat", "dog")[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        found = image.fromarray(random.integers(0, 256, (height, width, 3), dtype=np.uint8))
        (found.convert("L") if number < grey else found).save(place / f"{number}.png")
    return str(folder / "photos")


def train(out: Path, data: str, *changes: str, resume: bool = False, said: list[str] | None = None) -> Any:
    asked = [f"out={out}", f"data.train={json.dumps(data)}", *TINY, *changes]
    said = [] if said is None else said
    return run_recipe(read_recipe("image", asked), resume=resume, device="cpu", say=said.append, report=False)


def test_sizes_channels_and_numbers_come_from_the_images(tmp_path: Path) -> None:
    said: list[str] = []
    data = arrays(tmp_path, 14, 14)
    train(tmp_path / "run", data, said=said)
    model = qkv.load(tmp_path / "run", device="cpu")
    assert (model.config.image_size, model.config.patch_size, model.config.channels) == (16, 4, 1)
    assert "24 images were brought to 16 x 16 pixels and 1 channels" in "\n".join(said)
    pixels = np.load(data)["images"] / 255
    assert model.processor is not None
    assert model.processor.mean == pytest.approx([pixels.mean()], abs=1e-4)
    assert model.processor.std == pytest.approx([pixels.std()], abs=1e-4)
    raw = json.loads((tmp_path / "run" / FILE).read_text())
    assert raw["size"] == {"height": 16, "width": 16}
    assert [score.count for score in evaluate(model, [data])] == [30, 30]
    assert read_folder(tmp_path / "run" / "best").processor == model.processor


def test_photos_of_many_sizes_some_of_them_grey(tmp_path: Path) -> None:
    sizes = [(30 + n, 40 - n) for n in range(20)]
    train(tmp_path / "run", photos(tmp_path, sizes, grey=5), "model.set.patches.stem=plain")
    model = qkv.load(tmp_path / "run", device="cpu")
    assert (model.config.image_size, model.config.channels) == (36, 3)
    assert model.processor is not None
    assert len(model.processor.mean) == 3
    assert model.describe()["stored_as"] == "vit"
    assert len(model.classify([tmp_path / "photos" / "cat" / "0.png"], every=True)[0]) == 2


def test_a_size_that_the_patches_do_not_divide_is_an_error_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="image_size 14 is not a multiple of patch_size 4"):
        train(tmp_path / "run", arrays(tmp_path, 14, 14), "model.set.image_size=14")
    assert not (tmp_path / "run").exists()


FULL = ["objective.augment.crop=2", "objective.augment.scale=0.6", "objective.augment.flip=true"]
FULL += ["objective.augment.rand_augment=9", "objective.augment.mixup=0.8", "objective.augment.cutmix=1"]
FULL += ["objective.augment.erase=0.5", "objective.drop_path=0.2", "model.set.dropout=0.1"]


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A convolutional network that is trained a little, with more classes than its student has."""
    folder = tmp_path_factory.mktemp("teacher")
    data = arrays(folder, 8, 8, 3, classes=4)
    train(folder / "run", data, *NETWORK)
    return folder / "run"


def test_resuming_with_everything_on_is_bit_for_bit(tmp_path: Path, teacher: Path) -> None:
    data = arrays(tmp_path, 12, 12, 3)
    changes = [*FULL, "train.steps=8", "train.save_every=2", "train.keep=100", "train.keep_checkpoints=true"]
    changes += [f"distill.teacher={teacher}", "train.keep_best=false"]
    train(tmp_path / "whole", data, *changes)
    train(tmp_path / "cut", data, *changes)
    cut_off(tmp_path / "cut", 4, 8)
    train(tmp_path / "cut", data, *changes, resume=True)
    a, b = (read_folder(tmp_path / name).model.state_dict() for name in ("whole", "cut"))
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_a_student_gets_a_distillation_token_and_its_teacher_stays_out_of_the_folder(
    tmp_path: Path, teacher: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(teacher.parent)
    train(tmp_path / "run", arrays(tmp_path, 12, 12, 3), "distill.teacher=run", "model.set.patches.stem=plain")
    model = qkv.load(tmp_path / "run", device="cpu")
    assert model.config.heads == ("distilled",)
    assert model.describe()["stored_as"] == "deit"
    assert not [name for name in model.module.state_dict() if "block" in name and "first" in name]
    recipe = (tmp_path / "run" / "recipe.toml").read_text()
    assert f'teacher = "{teacher}"' in recipe  # absolute, so that the run resumes from anywhere
    assert '"run/model.safetensors"' in (tmp_path / "run" / "inputs.json").read_text()
    metrics = (tmp_path / "run" / "metrics.jsonl").read_text()
    assert '"soft"' in metrics
    assert '"valid_soft"' not in metrics


def test_teachers_that_do_not_fit_are_named(tmp_path: Path, teacher: Path) -> None:
    data = arrays(tmp_path, 12, 12, 3, classes=5)
    with pytest.raises(
        UsageError, match=r"distill\.teacher: .*run does not know the label '4' \(it knows 0, 1, 2, 3\)"
    ):
        train(tmp_path / "run", data, f"distill.teacher={teacher}")
    with pytest.raises(UsageError, match=r"distill\.teacher: nowhere is not a folder"):
        train(tmp_path / "run", data, "distill.teacher=nowhere")
    config = catalogue.preset("bert-tiny", vocab_size=20, dim=16, num_layers=1, num_heads=2, ff_dim=16)
    write_folder(Folder(config, catalogue.build(config).eval()), tmp_path / "bert")
    with pytest.raises(UsageError, match=r"bert does not classify images"):
        train(tmp_path / "run", data, f"distill.teacher={tmp_path / 'bert'}")
    assert not (tmp_path / "run").exists()


def start_folder(folder: Path, processor: ImageProcessor | None, **changes: Any) -> Path:
    torch.manual_seed(1)
    sizes = {"image_size": 16, "patch_size": 4, "dim": 16, "num_layers": 2, "num_heads": 2, "ff_dim": 24}
    config = catalogue.preset("vit-ti16", **{**sizes, "num_labels": 7, **changes})
    model = catalogue.build(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    write_folder(Folder(config, model, processor=processor), folder)
    return folder


def test_fine_tuning_keeps_the_sizes_and_the_numbers_of_the_model(tmp_path: Path) -> None:
    numbers = ImageProcessor(mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4), resample=3).resized_to(16)
    start = start_folder(tmp_path / "start", numbers)
    out = tmp_path / "run"
    recipe = read_recipe(
        "image", [f"out={out}", f"data.train={arrays(tmp_path, 9, 9)}", f"model.init={start}", *TINY[4:]]
    )
    assert recipe.model.preset == ""  # one replaces the other
    run_recipe(recipe, device="cpu", say=lambda _: None, report=False)
    model = qkv.load(out, device="cpu")
    assert (model.config.image_size, model.config.channels, model.config.dim) == (16, 3, 16)
    assert (model.processor, model.labels) == (numbers, ("0", "1", "2"))
    assert model.describe()["stored_as"] == "vit"


def test_another_image_size_interpolates_the_positions(tmp_path: Path) -> None:
    start = start_folder(tmp_path / "start", None)
    out = tmp_path / "run"
    asked = [
        f"out={out}",
        f"data.train={arrays(tmp_path, 24, 24, 3)}",
        f"model.init={start}",
        "model.set.image_size=24",
    ]
    recipe = read_recipe("image", [*asked, "train.steps=1", "data.held_out=0.3", "objective.normalize=true"])
    from qkv.runs.own import Own
    from qkv.runs.resolve import resolve

    out.mkdir()
    recipe = resolve(recipe, out / "recipe.toml", Own(), lambda _: None)
    found = prepare(recipe, out, lambda _: None)
    old, new = read_folder(start).model.state_dict(), found.model.state_dict()
    assert torch.equal(new[TABLE], resized_table(old[TABLE], 1, 6))
    assert new[TABLE].shape == (37, 16)
    assert torch.equal(new["stack.norm.weight"], old["stack.norm.weight"])
    # a folder without preprocessor_config.json was trained on -1 … 1, whatever the recipe says
    assert found.task.processor(found.context) == ImageProcessor().resized_to(24)  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match=r"patches of 4 pixels: leave out model\.set\.patch_size 8"):
        prepare(read_recipe("image", [*asked, "model.set.patch_size=8"]), out, lambda _: None)


def test_pixels_are_added_up_image_by_image() -> None:
    random = np.random.default_rng(0)
    images = [random.integers(0, 256, (c, 5 + n, 4), dtype=np.uint8) for n, c in enumerate((3, 1, 3))]
    facts = PixelFacts()
    for pixels in images:
        facts.add(pixels)
    values = [np.repeat(p, 3, 0) / 255 if len(p) == 1 else p / 255 for p in images]
    mean = np.mean([v.mean((1, 2)) for v in values], 0)
    square = np.mean([(v**2).mean((1, 2)) for v in values], 0)
    assert facts.result()["mean"] == pytest.approx(mean, abs=1e-4)
    assert facts.result()["std"] == pytest.approx(np.sqrt(square - mean**2), abs=1e-4)
    flat = PixelFacts()
    flat.add(np.full((1, 4, 4), 9, np.uint8))
    assert flat.result()["std"] == (pytest.approx(1 / 255, abs=1e-4),)


def facts(shape: tuple[int, ...], examples: int, preset: str = "vit-mini", *, pretrained: bool = False) -> Facts:
    config = catalogue.preset(preset)
    return Facts(
        examples=examples, length=0, classes={}, config=config, pretrained=pretrained, shapes={shape: examples}
    )


def values(of: Facts) -> dict[str, Any]:
    return {key.removeprefix("objective.augment.").removeprefix("model.set."): rule(of) for key, rule in RULES.items()}


def test_rules_for_digits_and_for_photos() -> None:
    digits, tiny, photos = (
        values(facts(*of)) for of in (((1, 28, 28), 57_000), ((3, 32, 32), 47_500), ((3, 375, 500), 3000))
    )
    assert (digits["image_size"], digits["patch_size"], digits["channels"], digits["dim"]) == (28, 4, 1, 128)
    assert (digits["flip"], digits["mixup"], digits["cutmix"], digits["erase"], digits["crop"]) == (False, 0, 0, 0, 2)
    assert (tiny["image_size"], tiny["patch_size"], tiny["dim"], tiny["num_layers"]) == (32, 4, 256, 9)
    assert (tiny["flip"], tiny["crop"], tiny["scale"], tiny["objective.drop_path"]) == (True, 4, 1, 0.1)
    assert min(tiny["mixup"], tiny["cutmix"], tiny["erase"]) > 0
    assert (photos["image_size"], photos["patch_size"], photos["scale"], photos["crop"]) == (224, 16, 0.3, 0)
    assert (photos["mixup"], photos["cutmix"]) == (0, 0)


def test_every_rule_gives_a_model_that_can_be_built() -> None:
    for side in (5, 8, 28, 30, 32, 41, 64, 79, 80, 81, 100, 224, 3000):
        for channels in (1, 3):
            found = values(facts((channels, side, side), 500))
            assert found["image_size"] % found["patch_size"] == 0
            assert 2 * found["patch_size"] <= found["image_size"] <= 224


def test_other_presets_and_trained_models_keep_their_own_numbers() -> None:
    large = values(facts((3, 300, 300), 9000, "vit-s16"))
    assert [large[key] for key in ("dim", "num_layers", "num_heads", "ff_dim", "patches.stem")] == [None] * 5
    network = values(facts((3, 32, 32), 9000, "convnet-small"))
    assert network["patch_size"] is None
    assert network["objective.drop_path"] == 0
    tuned = values(facts((1, 28, 28), 9000, "vit-b16", pretrained=True))
    assert (tuned["image_size"], tuned["patch_size"], tuned["channels"], tuned["mixup"]) == (224, 16, 3, 0)
    assert tuned["optim.lr"] == pytest.approx(5e-5)
    assert not tuned["flip"]  # the images are grey, whatever the model takes


def test_a_text_model_and_a_convnet_with_stochastic_depth_are_refused(tmp_path: Path) -> None:
    data = arrays(tmp_path, 8, 8)
    asked = [f"out={tmp_path / 'run'}", f"data.train={data}", "model.preset=bert-tiny", "train.steps=1"]
    with pytest.raises(UsageError, match="needs a model of images: a preset of vit or convnet, or a folder of one"):
        run_recipe(read_recipe("image", asked), device="cpu", say=lambda _: None)
    with pytest.raises(UsageError, match=r"objective\.drop_path is for models with attention"):
        train(tmp_path / "run", data, *NETWORK, "objective.drop_path=0.1")


def test_bad_files_stop_the_run_or_are_skipped_and_counted(tmp_path: Path) -> None:
    data = photos(tmp_path, [(16, 16)] * 20)
    (tmp_path / "photos" / "cat" / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing")
    with pytest.raises(QkvError, match=r"photos/cat/bad.png: not an image that can be read"):
        train(tmp_path / "run", data)
    said: list[str] = []
    train(tmp_path / "run", data, "data.skip_bad=true", said=said)
    assert any("1 row left out" in line and "bad.png" in line for line in said)
