"""Image classification: soft targets, DeiT's distillation by its equations, and what validation must not see."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from qkv.common.batch import Images, Labelled
from qkv.common.errors import UsageError
from qkv.common.pixels import ImageProcessor
from qkv.models import catalogue
from qkv.nn.augment import Augment
from qkv.objectives import weighted
from qkv.objectives.distill import Distill, DistillConfig
from qkv.objectives.entropy import cross_entropy, mixed_cross_entropy
from qkv.objectives.images import ClassifyImages, ImageSettings
from qkv.objectives.teacher import ImageTeacher

SIZES = {"image_size": 12, "channels": 3, "num_labels": 4}
VIT = {**SIZES, "patch_size": 4, "dim": 16, "num_layers": 1, "num_heads": 2, "ff_dim": 24}
PIXELS = torch.randint(0, 256, (6, 3, 12, 12), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
LABELS = torch.tensor([0, 1, 2, 3, 0, 2])
PLAIN = ImageProcessor()


def model(preset: str = "vit-ti16", **changes: Any) -> Any:
    torch.manual_seed(3)
    made = catalogue.build(catalogue.preset(preset, **{**(SIZES if "convnet" in preset else VIT), **changes}))
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return made.eval()


def batch(augment: Augment | None = None, seed: int = 0) -> Labelled:
    draws = None if augment is None else augment.draw(np.random.default_rng(seed), len(PIXELS))
    return Labelled(Images(PIXELS, draws), LABELS)


def teacher(order: tuple[int, ...] = (0, 1, 2, 3), **changes: Any) -> ImageTeacher:
    made = model("convnet-mini", dim=32, num_layers=3, **changes).requires_grad_(False)
    side, channels = changes.get("image_size", 12), changes.get("channels", 3)
    numbers = ImageProcessor(mean=(0.4,), std=(0.3,))
    made.register_buffer("wanted_classes", torch.tensor(order), persistent=False)
    return ImageTeacher(made, "classify", numbers, (channels, side, side))


def test_mixed_labels_are_soft_targets() -> None:
    logits, own = torch.randn(6, 4), torch.tensor([0.0, 0.2, 0.5, 0.9, 1.0, 0.3])
    other, weights = LABELS.roll(1), torch.tensor([1.0, 2.0, 0.5, 3.0])
    soft = own[:, None] * F.one_hot(LABELS, 4) + (1 - own[:, None]) * F.one_hot(other, 4)
    found = mixed_cross_entropy(logits, LABELS, other, own)
    torch.testing.assert_close(found.total / found.count, F.cross_entropy(logits, soft))
    smooth = mixed_cross_entropy(logits, LABELS, other, own, smoothing=0.1)
    torch.testing.assert_close(smooth.total / 6, F.cross_entropy(logits, soft, label_smoothing=0.1))
    weighed = mixed_cross_entropy(logits, LABELS, other, own, class_weights=tuple(weights.tolist()))
    wanted = F.cross_entropy(logits, soft, weight=weights, reduction="none")
    torch.testing.assert_close(weighed.total, wanted.sum())
    plain = cross_entropy(logits, LABELS)
    torch.testing.assert_close(plain.total, mixed_cross_entropy(logits, LABELS, other, torch.ones(6)).total)


def test_without_augmentation_it_is_the_cross_entropy_of_the_numbers_that_the_model_reads() -> None:
    net = model()
    (loss,) = ClassifyImages(settings=ImageSettings(smoothing=0.1))(net, batch()).values()
    scores = net.logits(net(Images(PIXELS.float() / 127.5 - 1)))
    torch.testing.assert_close(loss.total / loss.count, F.cross_entropy(scores, LABELS, label_smoothing=0.1))


def test_validation_sees_the_images_as_they_are_and_no_teacher() -> None:
    augment = Augment(flip=True, rand_augment=9.0, mixup=0.8, cutmix=1.0, erase=1.0)
    objective = Distill(ClassifyImages(settings=ImageSettings(augment=augment)), teacher(), DistillConfig())
    net = model()
    assert set(objective(net, batch(augment))) == {"classify", "soft"}
    with torch.no_grad():
        found = objective(net, batch(augment))
        plain = ClassifyImages(settings=ImageSettings())(net, batch())
        assert objective.weights == {"classify": 1.0}
        assert set(objective.counts(batch(augment))) == set(found) == {"classify"}
    assert torch.equal(found["classify"].total, plain["classify"].total)


def test_training_mixes_images_and_labels_alike() -> None:
    augment, net = Augment(mixup=1.0), model()
    mixed = batch(augment)
    found = ClassifyImages(settings=ImageSettings(augment=augment))(net, mixed)["classify"]
    changed = augment(PIXELS.float(), mixed.inputs.draws, torch.zeros(1))
    scores = net.logits(net(Images(PLAIN.numbers(changed.pixels))))
    soft = changed.own[:, None] * F.one_hot(LABELS, 4) + (1 - changed.own[:, None]) * F.one_hot(LABELS.roll(1), 4)
    torch.testing.assert_close(found.total / found.count, F.cross_entropy(scores, soft))


@pytest.mark.parametrize("kind", ["hard", "soft"])
@pytest.mark.parametrize("distilled", [True, False])
def test_distillation_by_the_equations_of_deit(kind: str, distilled: bool) -> None:
    head = "distilled" if distilled else "classify"
    net, asked = model(distilled=distilled, heads=[head]), teacher()
    config = DistillConfig(targets=kind, weight=0.3, temperature=2.0)
    objective = Distill(ClassifyImages(settings=ImageSettings(head=head)), asked, config)
    losses = objective(net, batch())
    hidden = net(Images(PLAIN.numbers(PIXELS)))
    label, taught = net.head(head).both(hidden) if distilled else (net.logits(hidden, head),) * 2
    said = asked.model.logits(asked.model(Images((PIXELS / 255 - 0.4) / 0.3)), "classify")
    if kind == "hard":  # equation 3
        second = F.cross_entropy(taught, said.argmax(-1))
    else:  # equation 2: τ² KL(ψ(Z_s / τ), ψ(Z_t / τ))
        p, log_q = (said / 2).softmax(-1), (taught / 2).log_softmax(-1)
        second = 4 * (p * (p.log() - log_q)).sum(-1).mean()
    wanted = 0.7 * F.cross_entropy(label, LABELS) + 0.3 * second
    torch.testing.assert_close(weighted(losses, objective.weights), wanted, atol=1e-5, rtol=1e-5)
    for name, count in objective.counts(batch()).items():
        assert int(count) == int(losses[name].count) == 6


def test_a_teacher_learns_nothing_and_the_student_does() -> None:
    net, asked = model().train(), teacher()
    before = {name: tensor.clone() for name, tensor in asked.model.state_dict().items()}
    objective = Distill(ClassifyImages(settings=ImageSettings()), asked, DistillConfig(targets="hard"))
    weighted(objective(net, batch()), objective.weights).backward()
    assert all(parameter.grad is None for parameter in asked.model.parameters())
    assert all(torch.equal(before[name], tensor) for name, tensor in asked.model.state_dict().items())
    assert all(parameter.grad is not None for parameter in net.parameters())


def test_a_teacher_of_another_size_and_order_of_classes() -> None:
    straight, turned = teacher().scores(PIXELS.float()), teacher((2, 0, 3, 1)).scores(PIXELS.float())
    assert torch.equal(turned, straight[:, [2, 0, 3, 1]])
    large = teacher(image_size=24).scores(PIXELS.float())
    image = F.interpolate(PIXELS.float(), (24, 24), mode="bilinear", antialias=True)
    assert torch.equal(large, teacher(image_size=24).scores(image))
    grey = teacher(channels=1).scores(PIXELS.float())
    assert grey.shape == (6, 4)
    assert teacher().scores(PIXELS[:, :1].float()).shape == (6, 4)


@pytest.mark.parametrize("twice", [0.0, 1.0])
def test_r_drop_and_a_teacher_go_together(twice: float) -> None:
    net = model(dropout=0.5).train()
    augment = Augment(mixup=0.8)
    settings = ImageSettings(r_drop=twice, augment=augment)
    objective = Distill(ClassifyImages(settings=settings), teacher(), DistillConfig())
    losses, counts = objective(net, batch(augment)), objective.counts(batch(augment))
    assert set(losses) == set(counts) == set(objective.weights)
    assert {name: int(loss.count) for name, loss in losses.items()} == {name: int(n) for name, n in counts.items()}


def test_wrong_settings_are_named() -> None:
    with pytest.raises(UsageError, match=r"unknown distill\.targets 'warm'"):
        DistillConfig(targets="warm")
    with pytest.raises(UsageError, match="drop_path must be at least 0 and below 1, got 1"):
        ImageSettings(drop_path=1.0)
