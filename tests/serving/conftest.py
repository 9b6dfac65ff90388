from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import qkv
from tests.cli.conftest import shell as shell
from tests.serving.server import Server, served, write_models


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_models(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="module")
def server(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("server"), *folders.values(), "en-de") as found:
        yield found


@pytest.fixture(scope="session")
def models(folders: dict[str, Path]) -> dict[str, Any]:
    """The same models in this process, as the oracle."""
    return {name: qkv.load(folder, device="cpu") for name, folder in [*folders.items(), ("en-de", "en-de")]}
