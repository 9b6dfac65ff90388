"""The supervisor of the compute process, by itself."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from qkv.serving import supervisor
from qkv.serving.errors import Refused
from qkv.serving.limits import Limits
from qkv.serving.settings import Settings


def test_a_process_that_cannot_be_started_is_told_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    monkeypatch.setattr(supervisor, "PAUSES", (0.01,))
    heard = list[dict[str, Any]]()

    async def run() -> None:
        one = supervisor.Supervisor(Settings({"a": "a"}), Limits(), heard.append)
        one.start()
        while one.restarts < 3:
            await asyncio.sleep(0.01)
        with pytest.raises(Refused, match="the models are being loaded"):
            one.model_for(None, "embed")
        await one.stop()

    asyncio.run(asyncio.wait_for(run(), 20))
    assert [one["kind"] for one in heard[:4]] == ["unstarted", "ended"] * 2
    assert heard[0]["message"] == "No such file or directory"
