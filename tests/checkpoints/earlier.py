"""Folders as earlier versions wrote them."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

import pytest

from qkv.checkpoints.hf.rules import Unwritable
from qkv.checkpoints.hf.table import FORMATS


def in_our_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write translators as qkv-transformer, as all were whose norms come first before there was Pegasus."""

    def refuse(_: object) -> NoReturn:
        raise Unwritable("marian applies its norms after each sublayer")

    monkeypatch.setitem(FORMATS, "transformer", replace(FORMATS["transformer"], write=refuse))
