import pytest
import torch
from torch import nn

from qkv.common.outputs import Hidden
from qkv.common.ragged import Ragged
from qkv.nn.attention import CrossAttention, PassContext, SelfAttention
from qkv.nn.block import Block, Sublayer
from qkv.nn.feedforward import FeedForward
from qkv.nn.positions import Placement
from qkv.nn.stack import Stack

DIM = 8


class Times(nn.Module):
    """A part that multiplies, by what it is told."""

    def forward(self, x, factor=2.0):
        return x * factor


def test_pre_norm_is_x_plus_part_of_norm():
    x, norm = torch.randn(3, DIM), nn.LayerNorm(DIM)
    nn.init.normal_(norm.weight)
    sublayer = Sublayer(Times(), norm, pre_norm=True)
    torch.testing.assert_close(sublayer(x), x + 2 * norm(x))
    torch.testing.assert_close(sublayer(x, 3.0), x + 3 * norm(x))  # context is passed on


def test_post_norm_is_norm_of_x_plus_part():
    x, norm = torch.randn(3, DIM), nn.LayerNorm(DIM)
    nn.init.normal_(norm.weight)
    torch.testing.assert_close(Sublayer(Times(), norm, pre_norm=False)(x), norm(3 * x))


@pytest.mark.parametrize("pre_norm", [True, False])
def test_dropout_drops_the_part_never_the_residual(pre_norm):
    x, norm = torch.randn(3, DIM), nn.LayerNorm(DIM)
    sublayer = Sublayer(Times(), norm, pre_norm=pre_norm, dropout=1.0)
    torch.testing.assert_close(sublayer(x), x if pre_norm else norm(x))


def block(pre_norm, cross):
    made = Block(
        attention=SelfAttention(DIM, 2),
        feedforward=FeedForward(DIM, 16),
        norms=[nn.LayerNorm(DIM) for _ in range(3 if cross else 2)],
        pre_norm=pre_norm,
        cross=CrossAttention(DIM, 2) if cross else None,
    )
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.3)
    return made.eval()


@pytest.mark.parametrize("pre_norm", [True, False])
@pytest.mark.parametrize("cross", [True, False])
def test_a_block_is_attention_then_cross_attention_then_feed_forward(pre_norm, cross):
    made, layout, keys = block(pre_norm, cross), Ragged.of([3, 2]), Ragged.of([1, 4])
    x = torch.randn(5, DIM)
    context = PassContext.of(layout, memory=Hidden(torch.randn(5, DIM), keys))
    parts = [(made.attention, (context, Placement(), 0))]
    parts += [(made.cross, (context, 0))] if cross else []
    parts += [(made.feedforward, ())]
    wanted = x
    for sublayer, arguments in parts:
        if pre_norm:
            wanted = wanted + sublayer.part(sublayer.norm(wanted), *arguments)
        else:
            wanted = sublayer.norm(wanted + sublayer.part(wanted, *arguments))
    torch.testing.assert_close(made(x, context, Placement(), 0), wanted)


def test_each_sublayer_has_its_own_norm():
    made = block(True, True)
    norms = {id(sublayer.norm) for sublayer in (made.attention, made.cross, made.feedforward)}
    assert len(norms) == 3


class Noted(nn.Module):
    """A block that notes which of them ran, and for which layer."""

    def __init__(self, name, log):
        super().__init__()
        self.name, self.log = name, log

    def forward(self, x, context, placement, layer):
        self.log.append((self.name, layer))
        return x + 1


@pytest.mark.parametrize(
    ("blocks", "depth", "order"),
    [("abc", None, "abc"), ("a", 3, "aaa"), ("ab", 4, "aabb"), ("ab", 5, "aaabb")],
)
def test_a_stack_runs_its_blocks_in_turn_and_shares_them_over_more_layers(blocks, depth, order):
    log = []
    stack = Stack([Noted(name, log) for name in blocks], depth=depth)
    out = stack(torch.zeros(2, DIM), PassContext.of(Ragged.of([2])))
    assert log == [(name, layer) for layer, name in enumerate(order)]
    assert torch.equal(out, torch.full((2, DIM), float(len(order))))


def test_a_stack_ends_in_its_norm():
    norm = nn.LayerNorm(DIM)
    nn.init.normal_(norm.weight)
    x = torch.randn(2, DIM)
    torch.testing.assert_close(Stack([Noted("a", [])], norm=norm)(x, PassContext.of(Ragged.of([2]))), norm(x + 1))
