"""Sums against torch's own losses."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from qkv.common.errors import UsageError
from qkv.common.outputs import LossOutput
from qkv.objectives import weighted
from qkv.objectives.entropy import binary_cross_entropy, cross_entropy, squared_error
from tests.objectives.shared import close


@given(st.lists(st.sampled_from([-100, 0, 1, 2, 3]), max_size=9), st.sampled_from([0.0, 0.1, 0.7]))
def test_cross_entropy_is_torchs(wanted: list[int], smoothing: float) -> None:
    targets = torch.tensor(wanted, dtype=torch.int64)
    mine = (torch.randn(len(wanted), 4, generator=torch.Generator().manual_seed(0)) * 3).requires_grad_()
    other = mine.detach().clone().requires_grad_()
    found = cross_entropy(mine, targets, smoothing=smoothing)
    expected = F.cross_entropy(other, targets, reduction="sum", ignore_index=-100, label_smoothing=smoothing)
    close(found.total, expected)
    close(found.sums["nll"], F.cross_entropy(other, targets, reduction="sum", ignore_index=-100))
    assert found.count == sum(i >= 0 for i in wanted)
    assert found.sums["correct"] == (other.argmax(-1) == targets).sum()
    assert not any(tensor.requires_grad for tensor in [found.count, *found.sums.values()])
    found.total.backward()
    expected.backward()
    close(mine.grad, other.grad)  # type: ignore[arg-type]


def test_sums_are_fp32_whatever_the_scores_are() -> None:
    """Ten thousand bf16 losses added in bf16 would stop growing at some hundred."""
    logits = torch.zeros(10_000, 8, dtype=torch.bfloat16)
    found = cross_entropy(logits, torch.zeros(10_000, dtype=torch.int64))
    assert found.total.dtype == torch.float32
    close(found.total, 10_000 * torch.tensor(8.0).log())
    assert binary_cross_entropy(logits, torch.zeros(10_000, 8)).total.dtype == torch.float32
    assert squared_error(logits[:, 0], torch.ones(10_000)).total == 10_000


def test_what_is_not_asked_for_has_no_gradient_even_where_it_is_infinite() -> None:
    logits = torch.tensor([[0.0, -torch.inf], [1.0, 2.0]], requires_grad=True)
    cross_entropy(logits, torch.tensor([-100, 1])).total.backward()
    assert logits.grad is not None
    assert logits.grad[0].tolist() == [0.0, 0.0]
    assert logits.grad[1].abs().sum() > 0


def test_yes_and_no() -> None:
    logits, wanted = torch.randn(5, 3), torch.randint(0, 2, (5, 3)).float()
    found = binary_cross_entropy(logits, wanted)
    close(found.total, F.binary_cross_entropy_with_logits(logits, wanted, reduction="sum"))
    assert found.count == 15
    assert found.sums["correct"] == ((logits.sigmoid() > 0.5) == wanted.bool()).sum()
    wanted[1] = -100
    kept = [0, 2, 3, 4]
    close(
        binary_cross_entropy(logits, wanted).total,
        F.binary_cross_entropy_with_logits(logits[kept], wanted[kept], reduction="sum"),
    )
    assert binary_cross_entropy(logits, wanted.long()).count == 12


def test_numbers() -> None:
    found = squared_error(torch.tensor([1.0, 2.0, 5.0]), torch.tensor([0.0, 4.0, -100.0]))
    assert (found.total, found.count, found.sums["absolute"]) == (5.0, 2, 3.0)


def test_parts_are_divided_by_their_own_counts() -> None:
    def part(total: float, count: int) -> LossOutput:
        return LossOutput(torch.tensor(total), torch.tensor(count))

    losses, weights = {"a": part(6.0, 3), "b": part(8.0, 2), "c": part(0.0, 0)}, {"a": 1.0, "b": 0.5, "c": 9.0}
    assert weighted(losses, weights) == 4.0
    step = {"a": torch.tensor(6), "b": torch.tensor(4), "c": torch.tensor(1)}
    assert weighted(losses, weights, step) == 2.0


def test_smoothing_has_limits() -> None:
    with pytest.raises(UsageError, match=r"got 1\.5"):
        cross_entropy(torch.zeros(1, 2), torch.zeros(1, dtype=torch.int64), smoothing=1.5)
