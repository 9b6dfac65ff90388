"""Costs of layers: exponents, counted paths and steps, and the picture."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest
import torch

from qkv.cli.layer_tables import layer_table
from qkv.insight.layer_costs import SMALL, LayerCosts, exponent, measure, measured
from qkv.insight.layer_kinds import KINDS, WINDOW, Kind
from qkv.insight.layer_picture import draw, save
from qkv.insight.layer_reach import path_length, sequential_steps

BY_NAME = {kind.name.split(",")[0] if "projected" not in kind.name else "projected": kind for kind in KINDS}


@pytest.fixture(scope="module")
def found() -> LayerCosts:
    return measure(torch.device("cpu"), SMALL)


@pytest.mark.parametrize("power", [0.0, 1.0, 1.5, 2.0])
def test_the_exponent_of_synthetic_timings(power: float) -> None:
    points = [(n, 3e-4 * n**power) for n in (64, 128, 512, 4096)]
    assert exponent(points) == pytest.approx(power)
    noisy = [(n, cost * (1.1 if i % 2 else 1 / 1.1)) for i, (n, cost) in enumerate(points)]
    x, y = torch.tensor(noisy, dtype=torch.float64).log().T
    slope = torch.linalg.lstsq(torch.stack([x, torch.ones_like(x)], 1), y.unsqueeze(1)).solution[0].item()
    assert exponent(noisy) == pytest.approx(slope)  # the least squares of another implementation


def test_an_exponent_needs_two_costs_above_zero() -> None:
    assert math.isnan(exponent([(64, 1.0)]))
    assert math.isnan(exponent([(64, 0.0), (128, 1.0)]))
    assert math.isnan(exponent([(64, 1.0), (64, 2.0)]))


@pytest.mark.parametrize("length", [5, 64, 129])
def test_paths_are_those_of_the_formulas(length: int) -> None:
    """A convolution of width 3 reaches 2 tokens further with each layer; dilated by 1, 3, 9, it reaches 3^m in all."""
    counted = {name: path_length(kind, length) for name, kind in BY_NAME.items()}
    assert counted["self-attention"] == counted["projected"] == 1
    assert counted["local attention"] == math.ceil((length - 1) / WINDOW)
    assert counted["recurrent"] == length - 1
    assert counted["convolution"] == math.ceil((length - 1) / 2)
    assert counted["dilated convolution"] == next(m for m in range(99) if 3**m >= length)


def test_only_recurrence_takes_a_step_a_token() -> None:
    steps = {name: sequential_steps(kind, 40) for name, kind in BY_NAME.items()}
    assert steps.pop("recurrent") == 40
    assert set(steps.values()) == {1}


class Known(torch.nn.Module):
    """Holds two results of the size of its input at a time, then four."""

    def forward(self, x: torch.Tensor, layout: object) -> torch.Tensor:
        doubled = x * 2
        wide = torch.cat([doubled, doubled, doubled])
        del doubled
        return wide[: len(x)] + 1


def test_the_peak_of_a_known_layer() -> None:
    kind = Kind("known", "", "", "", (1, 1), lambda _d, _m: Known())
    _, peak = measured(kind, 100, 64, torch.device("cpu"))
    # the three copies beside the doubled input, and a scalar
    assert peak == pytest.approx(4 * 100 * 64 * 4, abs=64)


def test_every_kind_is_measured(found: LayerCosts) -> None:
    for layer in found.layers:
        assert [n for n, _ in layer.seconds_n] == [n for n, _ in layer.bytes_n] == list(SMALL.lengths)
        assert all(cost > 0 for _, cost in (*layer.seconds_n, *layer.seconds_d, *layer.bytes_n, *layer.bytes_d))
    by_name = {layer.name: layer for layer in found.layers}
    grown = by_name["convolution, k=3"].exponents
    assert grown["memory_n"] == pytest.approx(1.0, abs=0.05)
    assert grown["memory_d"] == pytest.approx(1.0, abs=0.05)
    assert torch.get_num_threads() >= 1


def test_the_table_and_the_picture(found: LayerCosts, tmp_path) -> None:
    table = layer_table(found)
    assert "n²·d" in table
    assert "k·n·d²" in table
    assert "O(log_k n)" in table
    file = save(found, str(tmp_path / "layers"))
    root = ElementTree.parse(file).getroot()
    drawn = "".join(root.itertext())
    assert all(kind.name in drawn for kind in KINDS)
    points = [node for node in root.iter() if node.tag.endswith("circle")]
    measured_points = len(KINDS) * 2 * (len(SMALL.lengths) + len(SMALL.dims))
    assert len(points) == measured_points + len(KINDS)  # and one in each key of the legend
    assert "href" not in draw(found)
