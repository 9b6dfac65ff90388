"""The command line in this process: a new one needs seconds to import torch."""

from __future__ import annotations

import io
import sys
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from qkv.cli.main import run


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Run `qkv` with arguments and standard input; gives the exit code and what was printed, never a traceback."""
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)

    def call(*arguments: object, stdin: bytes | str = b"") -> SimpleNamespace:
        given = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "argv", ["qkv", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(given)), "utf-8"))
        code: Any = 0
        try:
            run()
        except SystemExit as end:
            code = end.code or 0
        out, err = capfd.readouterr()
        assert "Traceback" not in out + err
        return SimpleNamespace(code=code, out=out, err=err)

    return call
