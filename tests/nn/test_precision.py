"""Precisions are tried in a child process, which may die."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
import torch

from qkv.nn import precision


@pytest.fixture(autouse=True)
def _forgetful() -> Any:
    precision.cpu_multiplies.cache_clear()
    yield
    precision.cpu_multiplies.cache_clear()


@pytest.mark.parametrize(
    ("product", "able"),
    [
        ("assert '{name}' == 'bfloat16'", True),
        ("import os, signal; os.kill(os.getpid(), signal.SIGILL)", False),  # what a missing instruction does
        ("assert 1 == 2, '{name}'", False),  # wrong numbers
    ],
)
def test_a_child_process_tries_the_product_once(monkeypatch: pytest.MonkeyPatch, product: str, able: bool) -> None:
    calls = []
    run = subprocess.run

    def counted(*given: Any, **options: Any) -> Any:
        calls.append(given)
        return run(*given, **options)

    monkeypatch.setattr(precision, "PRODUCT", product)
    monkeypatch.setattr(precision.subprocess, "run", counted)
    assert [precision.cpu_multiplies(torch.bfloat16) for _ in range(3)] == [able] * 3
    assert len(calls) == 1


def test_float32_needs_no_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision.subprocess, "run", lambda *_, **__: pytest.fail("a child process was started"))
    assert precision.cpu_multiplies(torch.float32)


def test_this_process_survives_the_real_product() -> None:
    assert precision.cpu_multiplies(torch.bfloat16) in (True, False)
