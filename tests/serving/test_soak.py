"""The memory of the server stays the same under load, of good requests and of malformed ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.serving.server import served, tell
from tests.serving.soak import BRIEF, Soak, soak
from tests.serving.traffic import cases


@pytest.mark.slow
def test_memory_is_flat(
    folders: dict[str, Path], models: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(tmp_path, *folders.values(), "en-de", "--patience", "60") as server:
        found = soak(server, cases(models, seed=0, each=3), seconds=60)
        assert server.pending() == 0
    tell(capsys, "\n".join(found.lines()))
    assert found.result.wrong == []
    assert found.worst < 500
    assert found.flat(BRIEF)
    assert min(found.result.statuses.total(), found.bad) > 100


def test_growth_is_seen() -> None:
    steady, rising = [10**8] * 100, [10**8 + number * 10**6 for number in range(100)]
    assert Soak(memory={"HTTP": steady, "compute": steady}).flat()
    assert not Soak(memory={"HTTP": steady, "compute": rising}).flat(BRIEF)
