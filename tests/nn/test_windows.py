"""Attention within windows, 2-D positions and convolutional stems."""

from __future__ import annotations

import math

import pytest
import torch

from qkv.common.batch import Images
from qkv.common.errors import UsageError
from qkv.models import catalogue
from qkv.nn.grid import GridPosition, resized_table
from qkv.nn.image_convolution import ConvolutionalStem
from qkv.nn.kernels import Call
from qkv.nn.windows import windows_of

SIZES = {"image_size": 20, "patch_size": 4, "dim": 16, "num_layers": 3, "num_heads": 2, "ff_dim": 24, "num_labels": 3}


def test_windows_cover_every_patch_once_and_are_smaller_at_the_edge() -> None:
    order, lengths = windows_of(5, 2, 1)
    assert lengths == [1, 4, 4, 2, 4, 4, 2, 2, 2, 1]
    assert sorted(order) == list(range(26))
    assert order[1:5] == [1, 2, 6, 7]  # the first window: two patches of each of the first two rows
    assert windows_of(4, 9, 2)[1] == [2, 16]


@pytest.mark.parametrize("distilled", [False, True])
def test_a_patch_is_reached_by_its_window_only_until_a_layer_sees_all(distilled: bool) -> None:
    torch.manual_seed(0)
    heads = ["distilled"] if distilled else ["classify"]
    model = catalogue.build(
        catalogue.preset("vit-ti16", **SIZES, patches={"window": 2}, distilled=distilled, heads=heads)
    ).eval()
    blocks, seen = model.stack.blocks, list[Call]()
    for block in blocks:
        block.attention.part.tap.register_forward_hook(lambda module, given, result: seen.append(given[0]))
    lead = 2 if distilled else 1
    model(Images(torch.randn(2, 3, 20, 20)))
    assert [call.queries.host_lengths for call in seen] == [
        [lead, 4, 4, 2, 4, 4, 2, 2, 2, 1] * 2,
        [lead + 25] * 2,
        [lead + 25] * 2,  # the last layer sees all
    ]


def test_windows_equal_attention_with_everything_else_masked_out() -> None:
    torch.manual_seed(0)
    model = catalogue.build(catalogue.preset("vit-ti16", **SIZES, patches={"window": 2})).eval()
    x = torch.randn(26, 16)
    block = model.stack.blocks[0]
    from qkv.common.ragged import Ragged
    from qkv.nn.attention import PassContext
    from qkv.nn.positions import Placement

    found = model.stack.layer(0, x, PassContext.of(Ragged.of([26])), Placement())
    order, lengths = windows_of(5, 2, 1)
    for rows in torch.tensor(order).split(lengths):
        alone = block(x[rows], PassContext.of(Ragged.of([len(rows)])), Placement(), 0)
        torch.testing.assert_close(found[rows], alone, atol=1e-5, rtol=1e-5)


def test_windows_refuse_positions_inside_attention() -> None:
    with pytest.raises(UsageError, match="windows need positions that are added to the patches, not rotary"):
        catalogue.build(catalogue.preset("vit-ti16", **SIZES, patches={"window": 2}, position="rotary"))
    with pytest.raises(UsageError, match="at least 1 patch on a side, got -2"):
        catalogue.build(catalogue.preset("vit-ti16", **SIZES, patches={"window": -2}))


def test_positions_of_rows_and_columns_by_the_formula() -> None:
    position = GridPosition(8, grid=3, leading=2)
    found = position(torch.arange(11), 11)
    assert not found[:2].any()
    row, column = divmod(7 - 2, 3)
    wanted = [f(n / 10000 ** (i / 4)) for n in (row, column) for f in (math.sin, math.cos) for i in (0, 2)]
    torch.testing.assert_close(found[7], torch.tensor(wanted))
    twice = position(torch.arange(11).repeat(2), 11)
    assert torch.equal(twice[11:], found)
    with pytest.raises(UsageError, match="multiple of 4, got 6"):
        GridPosition(6, grid=3, leading=1)


def test_learned_positions_are_interpolated_as_in_transformers() -> None:
    hf = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = hf.ViTConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, image_size=16, patch_size=4
    )
    theirs = hf.ViTModel(config).embeddings
    with torch.no_grad():
        theirs.position_embeddings.normal_()
        wanted = theirs.interpolate_pos_encoding(torch.zeros(1, 1 + 49, 8), 28, 28)[0]
        found = resized_table(theirs.position_embeddings[0], 1, 7)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)
    assert resized_table(found, 1, 7) is found


@pytest.mark.parametrize(("patch", "steps"), [(2, 1), (4, 2), (16, 4)])
def test_a_stem_gives_one_row_for_each_patch(patch: int, steps: int) -> None:
    stem = ConvolutionalStem(3, 32, patch)
    assert stem(torch.zeros(2, 3, 48, 48)).shape == (2, 32, 48 // patch, 48 // patch)
    strides = [layer.stride[0] for layer in stem if isinstance(layer, torch.nn.Conv2d)]
    assert strides == [2] * steps + [1]


def test_a_stem_needs_a_power_of_two() -> None:
    with pytest.raises(UsageError, match="power of 2, got 7"):
        ConvolutionalStem(1, 32, 7)
    with pytest.raises(UsageError, match="unknown stem 'cnv'"):
        catalogue.build(catalogue.preset("vit-ti16", **SIZES, patches="cnv"))


def test_the_size_must_be_a_multiple_of_the_patch() -> None:
    with pytest.raises(UsageError, match="image_size 20 is not a multiple of patch_size 8"):
        catalogue.build(catalogue.preset("vit-ti16", **{**SIZES, "patch_size": 8}))


def test_stochastic_depth_skips_whole_images_and_keeps_the_mean() -> None:
    from qkv.common.ragged import Ragged
    from qkv.nn.dropout import kept_sequences

    torch.manual_seed(0)
    layout = Ragged.of([3] * 4000)
    shares = kept_sequences(layout, 0.25, torch.zeros(1))
    assert shares.shape == (12_000, 1)
    by_image = shares.view(4000, 3)
    assert torch.equal(by_image, by_image[:, :1].expand(-1, 3))
    assert sorted(set(by_image[:, 0].tolist())) == pytest.approx([0, 4 / 3])
    assert float(shares.mean()) == pytest.approx(1, abs=0.03)


def test_higher_layers_are_skipped_more_often_and_only_in_training() -> None:
    from qkv.nn.block import stochastic_depth

    torch.manual_seed(0)
    model = catalogue.build(catalogue.preset("vit-ti16", **SIZES))
    stochastic_depth(model.stack.blocks, 0.5)
    assert [block.drop_path for block in model.stack.blocks] == [0.0, 0.25, 0.5]
    images = Images(torch.randn(8, 3, 20, 20))
    model.train()
    assert not torch.equal(model(images).states, model(images).states)
    model.eval()
    assert torch.equal(model(images).states, model(images).states)
