"""`qkv latency` on CUDA: PyTorch in float32 and in bfloat16, and why the engines of the CPU are not there."""

from __future__ import annotations

from pathlib import Path

import pytest

import qkv
from tests.predict.conftest import make_translator
from tests.predict.readers import make_reader
from tests.predict.writers import writer

pytestmark = pytest.mark.gpu
KINDS = {
    "classify": lambda: make_reader("classify", labels=("good", "bad")),
    "generate": writer,
    "translate": lambda: make_translator("transformer-tiny"),
}


@pytest.mark.parametrize("verb", KINDS)
def test_float32_and_bfloat16_are_measured(verb: str, tmp_path: Path) -> None:
    KINDS[verb]().save(tmp_path / verb)
    found = qkv.latency(tmp_path / verb, device="cuda", batches=[1, 4], lengths=[8], rounds=2, seconds=0.01)
    assert [side.name for side in found.engines] == ["torch", "torch-bf16"]
    assert found.engines[0].agreement == pytest.approx(1)
    assert not found.engines[1].exact
    assert {found.missing[name] for name in ("native", "native-int8", "onnxruntime")} == {
        "it runs on the CPU: --device cpu"
    }
    assert found.default == found.recommendation.alone == "torch"
    assert all(0 < one.p50_ms <= one.p99_ms for one in found.timings)
