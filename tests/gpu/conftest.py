"""The runs of recipes start with the session and are looked at last."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

RECIPES = "test_recipes_cuda"


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Put the tests that wait for other processes behind all others."""
    items.sort(key=lambda item: RECIPES in item.nodeid)


@pytest.fixture(scope="session", autouse=True)
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Every run that a selected test is about."""
    selected: list[Any] = [item for item in request.session.items if RECIPES in item.nodeid]
    if not selected:
        yield {}
        return
    from tests.gpu.recipe_pool import needed, started

    asked = set().union(*(needed(item.callspec.params) for item in selected))
    with started(asked, tmp_path_factory.mktemp("recipes")) as found:
        yield found
