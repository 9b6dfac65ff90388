from __future__ import annotations

import torch

from qkv.common.batch import Tokens
from qkv.models import catalogue
from qkv.training.peak import PEAKS, peak_of
from qkv.training.running_means import RunningMeans
from tests.contracts.entries import make, shrink


def test_the_bar_says_loss_speed_and_share_of_the_peak() -> None:
    tally = RunningMeans(work=1e-9)
    tally.add({"a": 1.0, "b": 2.0}, 0.5, 1000, "tok")
    tally.start -= 10.0
    assert tally.facts() == "loss 3.000  100 tok/s  0% of peak"
    means = tally.take()
    assert means["loss"] == 3.0
    assert 95 < means["tokens_per_second"] < 100.1
    assert 95e-9 < means["share_of_peak"] < 100.1e-9
    assert tally.work == 1e-9
    assert "share_of_peak" not in RunningMeans().take()


def test_gpus_are_known_by_the_longest_name_that_fits() -> None:
    assert peak_of("NVIDIA H200") == PEAKS["H200"]
    assert peak_of("NVIDIA H100 PCIe") == PEAKS["H100 PCIe"]
    assert peak_of("NVIDIA L40S") == PEAKS["L40S"]
    assert peak_of("GeForce 256") is None


def test_counted_products_are_those_of_the_matrices() -> None:
    """2 · rows · inputs · outputs for each linear layer, attention's own products aside."""
    from torch.utils.flop_counter import FlopCounterMode

    model = make(shrink(catalogue.preset("bert-base"), num_layers=1))
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(Tokens.of([[5, 6, 7]]))
    linear = sum(2 * 3 * m.weight.numel() for m in model.stack.modules() if isinstance(m, torch.nn.Linear))
    assert linear <= counter.get_total_flops() <= 1.2 * linear


def test_the_bar_never_falls_back_to_nothing() -> None:
    tally = RunningMeans()
    assert tally.facts() == ""
    tally.add({"a": 2.0}, 1.0, 100, "tok")
    tally.take()
    assert tally.facts().startswith("loss 2.000  ")
    tally.add({"a": 1.0}, 1.0, 100, "tok")
    assert tally.facts().startswith("loss 1.000  ")
