"""Augmentation: Pillow and hand-written loops as oracles, and what it must never do."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from qkv.common.errors import UsageError
from qkv.nn.augment import Augment, colour, geometry, mixing, rand_augment
from qkv.nn.augment.draws import COLUMNS, Draws, among

BLACK = torch.zeros(1)
EVERYTHING = Augment(crop=2, scale=0.5, flip=True, rand_augment=9.0, mixup=0.8, cutmix=1.0, erase=0.5)


def pixels(count: int = 6, channels: int = 3, side: int = 12, seed: int = 0) -> torch.Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (count, channels, side, side), generator=draw).float()


def rows(count: int, **given: float | list[float]) -> Draws:
    """Draws of one half, but for the named columns."""
    found = torch.full((count, len(COLUMNS)), 0.5)
    for name, value in given.items():
        found[:, COLUMNS.index(name)] = torch.tensor(value)
    return Draws(found)


def drawn(augment: Augment, count: int, seed: int = 0) -> torch.Tensor:
    return augment.draw(np.random.default_rng(seed), count)


def operation(name: str) -> float:
    """The draw that gives an operation on colour images."""
    every = [*rand_augment.GEOMETRIC, *rand_augment.COLOURS]
    return (every.index(name) + 0.5) / len(every)


def test_nothing_is_asked_for_and_nothing_changes() -> None:
    augment = Augment()
    found = augment(pixels(), drawn(augment, 6), BLACK)
    assert torch.equal(found.pixels, pixels())
    assert found.own is None


def test_the_same_draws_give_the_same_images_and_others_do_not() -> None:
    first, again, other = (EVERYTHING(pixels(), drawn(EVERYTHING, 6, seed), BLACK) for seed in (1, 1, 2))
    assert torch.equal(first.pixels, again.pixels)
    assert first.own is not None
    assert torch.equal(first.own, again.own)
    assert not torch.equal(first.pixels, other.pixels)


@pytest.mark.parametrize("channels", [1, 3])
def test_an_image_does_not_depend_on_the_others_unless_they_are_mixed(channels: int) -> None:
    augment = Augment(crop=2, scale=0.5, flip=True, rand_augment=9.0, erase=0.5)
    x, draws = pixels(16, channels), drawn(augment, 16)
    together = augment(x, draws, BLACK).pixels
    for number in range(16):
        alone = augment(x[number : number + 1], draws[number : number + 1], BLACK).pixels
        torch.testing.assert_close(alone[0], together[number], atol=1e-3, rtol=1e-5)


def test_all_at_once_as_on_cuda_equals_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    x, draws = pixels(40), drawn(EVERYTHING, 40)
    chosen = EVERYTHING(x, draws, BLACK).pixels
    monkeypatch.setattr(
        rand_augment,
        "_where",
        lambda mine, x, change, factor: torch.where(mine.view(-1, 1, 1, 1), change(x, factor), x),
    )
    torch.testing.assert_close(EVERYTHING(x, draws, BLACK).pixels, chosen, atol=1e-3, rtol=1e-5)


def test_a_flip_mirrors_half_of_the_images() -> None:
    x = pixels(2)
    found = Augment(flip=True)(x, rows(2, flip=[0.4, 0.6]).rows, BLACK).pixels
    torch.testing.assert_close(found, torch.stack([x[0].flip(-1), x[1]]), atol=1e-3, rtol=0)


def test_a_crop_is_a_window_of_the_image_padded_with_its_edge() -> None:
    x = pixels(25)
    shifts = torch.cartesian_prod(torch.arange(5), torch.arange(5))
    found = Augment(crop=2)(
        x,
        rows(25, shift_x=((shifts[:, 0] + 0.5) / 5).tolist(), shift_y=((shifts[:, 1] + 0.5) / 5).tolist()).rows,
        BLACK,
    ).pixels
    padded = torch.nn.functional.pad(x, (2, 2, 2, 2), mode="replicate")
    for number, (right, down) in enumerate(shifts.tolist()):
        wanted = padded[number, :, down : down + 12, right : right + 12]
        torch.testing.assert_close(found[number], wanted, atol=1e-2, rtol=0)


@given(st.floats(0.05, 1.0), st.lists(st.floats(0, 0.999), min_size=4, max_size=4))
@settings(max_examples=50, deadline=None)
def test_a_resized_crop_lies_within_the_image_and_has_the_asked_area(least: float, draws: list[float]) -> None:
    names = ("crop_area", "crop_ratio", "crop_x", "crop_y")
    (place,) = geometry.resized_crop(rows(1, **dict(zip(names, draws, strict=True))), least)
    width, height, x, y = (float(place[i, j]) for i, j in ((0, 0), (1, 1), (0, 2), (1, 2)))
    assert abs(x) + width <= 1 + 1e-5
    assert abs(y) + height <= 1 + 1e-5
    area = least + (1 - least) * draws[0]
    assert width * height <= area + 1e-4
    if max(width, height) < 1:
        assert width * height == pytest.approx(area, abs=1e-4)
        assert 3 / 4 - 1e-4 <= width / height <= 4 / 3 + 1e-4


def test_geometric_operations_have_the_strengths_of_the_paper() -> None:
    def place(name: str, sign: float, magnitude: float) -> np.ndarray:
        draws = rows(1, first=operation(name), first_sign=sign, second=operation("identity"))
        return rand_augment.placed(draws, magnitude, 3)[0].numpy()

    angle = np.deg2rad(30 * 0.5)
    turned = [[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]]
    np.testing.assert_allclose(place("rotate", 0.9, 5), turned, atol=1e-6)
    np.testing.assert_allclose(place("shear_x", 0.9, 10), [[1, 0.3, 0], [0, 1, 0], [0, 0, 1]], atol=1e-6)
    np.testing.assert_allclose(place("shear_y", 0.1, 10), [[1, 0, 0], [-0.3, 1, 0], [0, 0, 1]], atol=1e-6)
    # 0.45 of the side, which is 2 in these coordinates
    np.testing.assert_allclose(place("translate_x", 0.9, 10), [[1, 0, 0.9], [0, 1, 0], [0, 0, 1]], atol=1e-6)
    np.testing.assert_allclose(place("identity", 0.9, 10), np.eye(3), atol=1e-6)


def test_colours_are_those_of_pillow() -> None:
    image, ops = pytest.importorskip("PIL.Image"), pytest.importorskip("PIL.ImageOps")
    enhance = pytest.importorskip("PIL.ImageEnhance")
    x = pixels(1, side=20) * 0.6 + 30
    x = x.floor()
    x[:, :, :, :7] = 100.0  # values that repeat
    theirs = image.fromarray(x[0].permute(1, 2, 0).byte().numpy())

    def near(found: torch.Tensor, wanted: object, off: float = 1.01) -> None:
        numbers = torch.from_numpy(np.array(wanted)).permute(2, 0, 1).float()
        assert float((found[0] - numbers).abs().max()) <= off

    near(colour.autocontrast(x), ops.autocontrast(theirs))
    near(colour.equalize(x), ops.equalize(theirs), 0)
    near(colour.solarize(x, 128), ops.solarize(theirs, 128), 0)
    near(colour.posterize(x, 4), ops.posterize(theirs, 4), 0)
    for factor in (0.1, 0.7, 1.9):
        strength = torch.full((1, 1, 1, 1), factor)
        near(colour.brightness(x, strength), enhance.Brightness(theirs).enhance(factor))
        near(colour.contrast(x, strength), enhance.Contrast(theirs).enhance(factor), 2)
        near(colour.saturation(x, strength), enhance.Color(theirs).enhance(factor), 2)
        near(colour.sharpness(x, strength), enhance.Sharpness(theirs).enhance(factor), 2)


def test_images_of_one_colour_stay_what_they_are() -> None:
    x = torch.full((2, 3, 6, 6), 77.0)
    for change in (colour.autocontrast, colour.equalize):
        assert torch.equal(change(x), x)


@pytest.mark.parametrize("name", rand_augment.COLOURS)
def test_each_image_gets_the_operation_that_it_has_drawn(name: str) -> None:
    x = pixels(3, side=24)  # with fewer pixels than 255, Pillow does not equalise either
    draws = rows(3, first=[operation("identity"), operation(name), operation("rotate")], second=operation("identity"))
    found = rand_augment.coloured(x, draws, 9.0)
    assert torch.equal(found[0], x[0])
    assert torch.equal(found[2], x[2])  # turned elsewhere, with the other geometric operations
    assert not torch.equal(found[1], x[1])
    assert 0 <= float(found.min()) <= float(found.max()) <= 255


def test_grey_images_keep_their_colours() -> None:
    x, draws = pixels(64, channels=1), drawn(EVERYTHING, 64)
    assert torch.equal(rand_augment.coloured(x, Draws(draws), 9.0), x)
    assert {int(n) for n in rand_augment.chosen(Draws(draws), "first", 1)} == set(range(6))


def test_mixup_blends_each_image_with_the_one_before_it() -> None:
    x, shares = pixels(4), [0.25, 0.5, 0.9, 1.0]
    found, own = mixing.mixed(x, rows(4, mixup_share=shares), mixup=True, cutmix=False, share=1.0)
    for number, share in enumerate(shares):
        torch.testing.assert_close(found[number], share * x[number] + (1 - share) * x[number - 1])
    torch.testing.assert_close(own, torch.tensor(shares))
    assert mixing.partner(torch.tensor([5, 6, 7, 8])).tolist() == [8, 5, 6, 7]


@given(st.floats(0, 1), st.floats(0, 0.999), st.floats(0, 0.999))
@settings(max_examples=50, deadline=None)
def test_cutmix_pastes_a_box_and_counts_what_is_left(share: float, x_: float, y_: float) -> None:
    x = pixels(2, side=10)
    found, own = mixing.mixed(x, rows(2, cutmix_share=share, cut_x=x_, cut_y=y_), mixup=False, cutmix=True, share=1.0)
    side = int(10 * np.sqrt(np.float32(1) - np.float32(share)))  # by hand, as in the authors' code
    left, top = int(x_ * 10) - side // 2, int(y_ * 10) - side // 2
    wanted = x[0].clone()
    box = (slice(None), slice(max(top, 0), max(top + side, 0)), slice(max(left, 0), max(left + side, 0)))
    wanted[box] = x[1][box]
    assert torch.equal(found[0], wanted)
    assert float(own[0]) == pytest.approx(1 - wanted[box].shape[1] * wanted[box].shape[2] / 100, abs=1e-6)


def test_only_a_share_of_the_images_is_mixed_and_both_kinds_occur() -> None:
    augment = Augment(mixup=1.0, cutmix=1.0, mixed=0.5)
    x, draws = pixels(400, side=8), drawn(augment, 400)
    found, own = augment(x, draws, BLACK)
    assert own is not None
    same = torch.tensor([torch.equal(a, b) for a, b in zip(found, x, strict=True)])
    assert 150 <= int(same.sum()) <= 260
    assert float(own[Draws(draws)["mixed"] >= 0.5].min()) == 1
    pasted = torch.tensor([not a.frac().any() for a in found]) & ~same
    assert 60 <= int(pasted.sum()) <= 140


def test_shares_come_from_a_beta_distribution() -> None:
    found = Draws(Augment(mixup=0.4, cutmix=2.0).draw(np.random.default_rng(0), 20_000))
    for name, alpha in (("mixup_share", 0.4), ("cutmix_share", 2.0)):
        assert float(found[name].mean()) == pytest.approx(0.5, abs=0.02)
        assert float(found[name].var()) == pytest.approx(1 / (4 * (2 * alpha + 1)), abs=0.01)


def test_erased_boxes_have_the_asked_size_place_and_colour() -> None:
    x = pixels(300, side=24) + 1
    draws = drawn(Augment(erase=0.6), 300)
    found = mixing.erased(x, Draws(draws), 0.6, torch.tensor([0.0, -1.0, -2.0]))
    gone = found[:, 1] == -1
    assert torch.equal(gone, found[:, 0] == 0)
    assert torch.equal(found[~gone.unsqueeze(1).expand_as(found)], x[~gone.unsqueeze(1).expand_as(x)])
    areas = gone.float().mean((1, 2))
    assert torch.equal(areas > 0, Draws(draws)["erased"] < 0.6)
    assert 0.3 < float((areas > 0).float().mean()) < 0.9
    assert float(areas.max()) <= 1 / 3 + 0.05
    for box in gone[areas > 0]:
        down, right = box.any(1).sum(), box.any(0).sum()
        assert int(box.sum()) == int(down * right)  # one whole rectangle


@given(st.integers(1, 50), st.floats(0, 0.99999994))
def test_draws_become_every_whole_number_and_no_other(count: int, draw: float) -> None:
    assert 0 <= int(among(torch.tensor([draw]), count)) <= count - 1


@pytest.mark.parametrize(
    "change", [{"rand_augment": 11.0}, {"scale": 0.0}, {"erase": 1.5}, {"mixup": -1.0}, {"crop": -1}]
)
def test_values_out_of_range_are_named(change: dict[str, float]) -> None:
    name = next(iter(change))
    with pytest.raises(UsageError, match=rf"augment\.{name} must be from .* got {change[name]:g}"):
        Augment(**change)  # type: ignore[arg-type]
