"""Losses over wide rows on CUDA, against torch's own in fp32, and through the objectives."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from qkv.common.cuda import triton as building
from qkv.nn.linear import TableProduct
from qkv.objectives import fused
from qkv.objectives.entropy import cross_entropy
from qkv.objectives.r_drop import _plain, distance

pytestmark = pytest.mark.gpu
WIDTHS = (1024, 4096, 5003, 37_000)


def scores(rows: int, width: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    given = (torch.randn(rows, -(-width // 64) * 64, device="cuda") * 3).to(dtype)[:, :width]  # as of a padded product
    wanted = torch.randint(width, (2 * rows,), device="cuda")[::2]  # a view, as ELECTRA's kept masks are
    wanted[::3] = given[::3].argmax(-1)
    wanted[5] = -100
    return given.requires_grad_(), given.detach().float().requires_grad_(), wanted


def near(found: torch.Tensor, wanted: torch.Tensor, dtype: torch.dtype) -> None:
    room = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}[dtype]
    torch.testing.assert_close(found.float(), wanted, rtol=room, atol=room * wanted.abs().max().item())


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_is_torchs(width: int, dtype: torch.dtype, smoothing: float) -> None:
    mine, other, wanted = scores(33, width, dtype)
    assert fused.fits(mine)
    found = cross_entropy(mine, wanted, smoothing=smoothing)
    expected = F.cross_entropy(other, wanted, reduction="sum", label_smoothing=smoothing)
    torch.testing.assert_close(found.total, expected, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(found.sums["nll"], F.cross_entropy(other, wanted, reduction="sum"), rtol=1e-5, atol=1e-4)
    assert found.sums["correct"] == (other.argmax(-1) == wanted).sum()
    (found.total * 0.25).backward()
    (expected * 0.25).backward()
    near(mine.grad, other.grad, dtype)
    assert not mine.grad[5].any()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_distance_is_the_formulas(width: int, dtype: torch.dtype) -> None:
    mine, other, wanted = scores(34, width, dtype)
    found = distance(mine, wanted[:17])
    expected = _plain(other)[wanted[:17] >= 0].sum()
    torch.testing.assert_close(found.total, expected, rtol=1e-4, atol=1e-4)
    found.total.backward()
    expected.backward()
    near(mine.grad, other.grad, dtype)


def test_compiled_and_plain_are_the_same() -> None:
    mine, other, wanted = scores(34, 5003, torch.bfloat16)
    other = mine.detach().clone().requires_grad_()

    def work(x: torch.Tensor) -> torch.Tensor:
        return cross_entropy(x * 2, wanted, smoothing=0.1).total + distance(x * 2, wanted[:17]).total

    one, two = torch.compile(work)(mine), work(other)
    one.backward()
    two.backward()
    torch.testing.assert_close(one, two)
    near(mine.grad, other.grad.float(), torch.bfloat16)


def test_what_is_not_finite_is_seen_where_it_is_asked_for() -> None:
    mine, _, wanted = scores(6, 2000, torch.float32)
    with torch.no_grad():
        mine[5, 3] = torch.inf
    found = cross_entropy(mine, wanted)
    found.total.backward()
    assert found.total.isfinite()
    assert mine.grad.isfinite().all()
    with torch.no_grad():
        mine[1, 3] = torch.nan
    assert cross_entropy(mine, wanted).total.isnan()


def test_kernels_can_be_built_here_or_are_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    device = torch.device("cuda")
    assert building.buildable(device)
    building._works.cache_clear()
    monkeypatch.setattr(building, "_nothing", None)  # as where Triton fails
    assert not building.buildable(device)
    building._works.cache_clear()


@pytest.mark.parametrize("biased", [False, True])
def test_a_product_with_a_padded_table_is_the_product(biased: bool) -> None:
    torch.manual_seed(0)
    x, table = torch.randn(40, 32, device="cuda"), torch.randn(5003, 32, device="cuda")
    bias = torch.randn(5003, device="cuda") if biased else None
    given = [tensor.requires_grad_() for tensor in (x, table, bias) if tensor is not None]
    wanted = torch.randint(5003, (40,), device="cuda")
    found = []
    for product in (TableProduct(), torch.compile(TableProduct()), F.linear):
        loss = cross_entropy(product(x, table, bias), wanted).total
        found.append([loss.detach(), *torch.autograd.grad(loss, given)])
    assert TableProduct()(x, table, bias).stride(0) == 5056
    for other in found[:2]:
        torch.testing.assert_close(other, found[2], rtol=1e-4, atol=1e-4)
