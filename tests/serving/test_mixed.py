"""Many clients at once over all routes: no answer is lost, doubled, swapped or changed by its neighbours."""

from __future__ import annotations

import http.client
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.serving.server import Server, served, tell
from tests.serving.test_faults import until
from tests.serving.traffic import ask, cases, counted, drive, expected, mixed, wrong

CLIENTS = 16


@pytest.fixture(scope="module")
def patient(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that lets all clients of these tests wait, so that every request must be answered."""
    with served(tmp_path_factory.mktemp("patient"), *folders.values(), "en-de", "--patience", "60") as found:
        yield found


def moved(server: Server, before: Counter[str]) -> Counter[str]:
    """Return what the server has counted since then."""
    return counted(server) - before


@pytest.mark.parametrize("count", [400, pytest.param(20_000, marks=pytest.mark.slow)])
def test_mixed_requests_are_answered_once_and_as_if_alone(
    patient: Server, models: dict[str, Any], count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    known = cases(models, seed=count, each=3 if count < 1000 else 20)
    link = http.client.HTTPConnection(*patient.address, timeout=120)
    for case in known:
        assert wrong(case, *ask(link, case)) is None
    order = mixed(known, count, seed=count)
    before = counted(patient)
    result = drive(patient.address, order, CLIENTS)
    assert result.wrong == []
    assert dict(result.statuses) == {200: count}
    wanted = expected(order)
    until(lambda: moved(patient, before).total() >= wanted.total(), 10)  # a stream is counted just after its last byte
    time.sleep(0.1)
    assert moved(patient, before) == wanted
    routes = len({case.path for case in order})
    tell(capsys, f"{count:,} mixed requests over {routes} routes, {CLIENTS} clients: all answered once, as if alone")


def test_every_route_is_among_them(patient: Server, models: dict[str, Any]) -> None:
    paths = {case.path.replace("models/words", "models/{name}") for case in cases(models, seed=1, each=1)}
    assert paths >= set(patient.client.get("/openapi.json").json()["paths"])
