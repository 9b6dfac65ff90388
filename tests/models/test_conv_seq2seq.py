"""The convolutional family beside the contracts: torch's own convolution, and steps that see what a whole pass sees."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from qkv.common.batch import Pairs, Tokens
from qkv.common.errors import UsageError
from qkv.common.ragged import Ragged
from qkv.models import catalogue
from qkv.models.skeleton import EncoderDecoder
from qkv.nn.attention import PassContext
from qkv.nn.convolution_mixer import ConvolutionMixer
from qkv.nn.positions import Placement


def model() -> EncoderDecoder:
    torch.manual_seed(0)
    sizes = {"vocab_size": 30, "dim": 16, "ff_dim": 24, "num_heads": 2}
    found = catalogue.build(catalogue.preset("convs2s-tiny", **sizes)).eval()
    assert isinstance(found, EncoderDecoder)
    return found


@pytest.mark.parametrize(("width", "causal"), [(1, False), (3, False), (5, False), (3, True), (4, True)])
def test_it_is_a_gated_convolution(width: int, causal: bool) -> None:
    """The oracle pads each sequence by itself and runs torch's conv1d."""
    torch.manual_seed(0)
    lengths = [7, 1, 4]
    mixer = ConvolutionMixer(6, width=width, causal=causal)
    x = torch.randn(sum(lengths), 6)
    found = mixer(x, PassContext.of(Ragged.of(lengths)), Placement(), 0)
    weight = mixer.linear.weight.view(12, width, 6).transpose(1, 2)
    before = width - 1 if causal else width // 2
    wanted: list[Tensor] = []
    for part in x.split(lengths):
        padded = F.pad(part.t(), (before, width - 1 - before))
        value, gate = F.conv1d(padded.unsqueeze(0), weight, mixer.linear.bias)[0].t().chunk(2, dim=-1)
        wanted.append(value * torch.sigmoid(gate))
    torch.testing.assert_close(found, torch.cat(wanted))


def test_steps_see_what_a_whole_pass_sees_also_after_beams_move() -> None:
    net, source, target = model(), [[3, 4, 5, 6], [7, 8]], [[0, 9, 10, 11, 12], [0, 13, 14, 15, 16]]
    with torch.no_grad():
        whole = net(Pairs(Tokens.of(source), Tokens.of(target)))
        wanted = [net.logits(whole, "lm").view(2, 5, -1)[:, place] for place in range(5)]
        stepper = net.start(Tokens.of(source))
        rows = torch.tensor(target)
        for place in range(3):
            torch.testing.assert_close(stepper.step(rows[:, place]), wanted[place], rtol=1e-4, atol=1e-5)
        stepper.reorder(torch.tensor([0, 0, 1]))  # the first source gets a second row
        found = stepper.step(rows[[0, 0, 1], 3])
        torch.testing.assert_close(found, wanted[3][[0, 0, 1]], rtol=1e-4, atol=1e-5)
        stepper.reorder(torch.tensor([1, 2]))
        torch.testing.assert_close(stepper.step(rows[:, 4]), wanted[4], rtol=1e-4, atol=1e-5)


def test_a_layer_sees_its_width_and_no_more() -> None:
    mixer, layout = ConvolutionMixer(4, width=5), PassContext.of(Ragged.of([20]))
    x = torch.randn(20, 4, requires_grad=True)
    mixer(x, layout, Placement(), 0)[10].sum().backward()
    assert x.grad is not None
    assert x.grad.abs().sum(-1).nonzero().flatten().tolist() == [8, 9, 10, 11, 12]


def test_an_even_width_has_no_middle() -> None:
    with pytest.raises(UsageError, match="width must be an odd number from 1 on, got 4"):
        catalogue.build(catalogue.preset("convs2s-tiny", width=4))
