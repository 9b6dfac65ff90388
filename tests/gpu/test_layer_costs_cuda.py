"""`qkv compare layers` on CUDA: every kind of layer runs in bf16 and is timed by events."""

from __future__ import annotations

import pytest
import torch

from qkv.insight.layer_costs import SMALL, measure, measured
from qkv.insight.layer_kinds import KINDS

pytestmark = pytest.mark.gpu


def test_every_kind_is_measured() -> None:
    found = measure(torch.device("cuda"), SMALL)
    assert [layer.name for layer in found.layers] == [kind.name for kind in KINDS]
    for layer in found.layers:
        assert all(cost > 0 for _, cost in (*layer.seconds_n, *layer.seconds_d, *layer.bytes_n, *layer.bytes_d))


def test_attention_does_not_store_its_weights() -> None:
    """At 8,192 tokens they would take 128 MiB a head in bf16."""
    _, peak = measured(KINDS[0], 8192, 64, torch.device("cuda"))
    assert peak < 64 * 2**20
