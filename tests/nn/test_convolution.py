import pytest
import torch
import torch.nn.functional as F

from qkv.common.ragged import Ragged
from qkv.nn.convolution import CausalConvolution


@pytest.mark.parametrize("width", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2, 4])
def test_it_is_torch_s_convolution_over_each_sequence_padded_on_the_left(width, dilation):
    part = CausalConvolution(3, 5, width=width, dilation=dilation)
    layout = Ragged.of([4, 1, 7, 2])
    x = torch.randn(14, 3)
    # torch's kernel runs forward in time: its last tap is our tap 0, the token itself.
    kernel = part.linear.weight.view(5, width, 3).flip(1).transpose(1, 2)
    for row, found in zip(layout.split(x), layout.split(part(x, layout)), strict=True):
        padded = F.pad(row.t().unsqueeze(0), ((width - 1) * dilation, 0))
        wanted = F.conv1d(padded, kernel, part.linear.bias, dilation=dilation)[0].t()
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_a_later_token_changes_nothing_before_it():
    part, layout = CausalConvolution(3, 3, width=3), Ragged.of([6])
    x = torch.randn(6, 3)
    y = x.clone()
    y[4] += 1
    assert torch.equal(part(x, layout)[:4], part(y, layout)[:4])
    assert not torch.allclose(part(x, layout)[4:], part(y, layout)[4:])
