"""Processes that die, stop or load again: what clients see, and how soon the server is back."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
import torch

import qkv
from tests.serving.server import Server, children, served

TEXT = "the cat sat"


@pytest.fixture(scope="module")
def place(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copies of two models, which tests may break and change."""
    place = tmp_path_factory.mktemp("faults")
    for name in ("words", "writer"):
        shutil.copytree(folders[name], place / name)
    return place


@pytest.fixture(scope="module")
def frail(place: Path) -> Iterator[Server]:
    with served(place, place / "words", place / "writer") as found:
        yield found


def asking(server: Server, count: int) -> tuple[ThreadPoolExecutor, list[Future[httpx.Response]]]:
    """Ask at once and do not wait for the answers."""
    pool = ThreadPoolExecutor(count)
    body = {"model": "words", "texts": [TEXT]}
    return pool, [pool.submit(httpx.post, f"{server.url}/v1/embed", json=body, timeout=60) for _ in range(count)]


def until(true: Callable[[], bool], seconds: float) -> float:
    """Wait for something; return how long that took."""
    start = time.monotonic()
    while not true():
        assert time.monotonic() - start < seconds, f"not within {seconds} s"
        time.sleep(0.01)
    return time.monotonic() - start


def gone(pid: int) -> bool:
    """Whether a process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def vector(server: Server) -> list[float]:
    found: list[float] = server.ask("/v1/embed", model="words", texts=[TEXT])["answers"][0]["embedding"]
    return found


def test_a_killed_process_refuses_at_once_and_is_back(frail: Server) -> None:
    before = vector(frail)
    with frail.paused() as number:
        pool, waiting = asking(frail, 5)
        frail.wait_pending(5)
        os.kill(number, signal.SIGKILL)
        killed = time.monotonic()
        answers = [one.result(timeout=10) for one in waiting]
        assert time.monotonic() - killed < 1
        pool.shutdown()
    for answer in answers:
        assert answer.status_code == 503
        assert answer.headers["retry-after"]
        assert "started again" in answer.json()["error"]["message"]
    late = frail.client.post("/v1/embed", json={"model": "words", "texts": [TEXT]})
    assert late.status_code == 503
    assert late.elapsed.total_seconds() < 1
    assert time.monotonic() - killed < 1.5
    assert frail.client.get("/health").status_code == 200
    assert frail.client.get("/ready").status_code == 503
    assert frail.wait_ready(5) < 5
    assert vector(frail) == before
    assert frail.client.get("/v1/stats").json()["restarts"] == 1
    assert any(line["event"].startswith("compute process ended") for line in frail.lines())


def test_a_stream_whose_process_is_killed_ends_with_an_error(frail: Server) -> None:
    body = {"model": "writer", "texts": ["The cat"] * 40, "max_length": 110, "temperature": 1.0, "stream": True}
    with frail.client.stream("POST", "/v1/generate", json=body) as response:
        lines = response.iter_lines()
        next(lines)
        os.kill(frail.compute(), signal.SIGKILL)
        found = [line.removeprefix("data: ") for line in lines if line]
    assert found[-1] == "[DONE]"
    assert "started again" in json.loads(found[-2])["error"]["message"]
    frail.wait_ready()


def test_a_model_that_is_lost_at_a_restart_is_told_and_can_come_back(frail: Server, place: Path) -> None:
    (place / "writer").rename(place / "away")
    os.kill(frail.compute(), signal.SIGKILL)
    until(lambda: frail.client.get("/ready").status_code == 503, 5)
    frail.wait_ready()
    assert frail.client.get("/ready").json()["models"] == ["words"]
    assert frail.client.get("/v1/models/writer").json()["state"] == "failed"
    assert "could not be loaded" in frail.refused("/v1/generate", 503, model="writer", texts=["a"])
    assert frail.refused("/v1/models/writer/reload", 409).startswith("the model writer could not be loaded")
    vector(frail)
    (place / "away").rename(place / "writer")
    assert frail.ask("/v1/models/writer/reload")["state"] == "loaded"
    assert frail.ask("/v1/generate", model="writer", texts=["a"], max_length=2)["answers"]


def test_reload_swaps_a_model_and_loses_no_request(frail: Server, place: Path) -> None:
    """Clients ask all the time; every answer is that of the old model or of the new one, and in that order."""
    models = [qkv.load(place / "words", device="cpu") for _ in range(2)]
    with torch.no_grad():
        for weights in models[0].module.parameters():
            weights.add_(torch.randn_like(weights))
    vectors = [list(model.embed([TEXT])[0].tolist()) for model in models]
    assert not near(*vectors)
    done, seen = threading.Event(), list[int]()

    def ask() -> list[int]:
        found = []
        with httpx.Client(base_url=frail.url, timeout=60) as client:
            while not done.is_set():
                response = client.post("/v1/embed", json={"model": "words", "texts": [TEXT]})
                assert response.status_code == 200, response.text
                one = response.json()["answers"][0]["embedding"]
                found.append(next(number for number, vector in enumerate(vectors) if near(one, vector)))
        return found

    with ThreadPoolExecutor(4) as pool:
        clients = [pool.submit(ask) for _ in range(4)]
        try:
            for number in range(6):
                models[number % 2].save(place / "words")
                assert frail.ask("/v1/models/words/reload")["state"] == "loaded"
                assert near(vector(frail), vectors[number % 2])
                time.sleep(0.1)
        finally:
            done.set()
        for client in clients:
            seen += client.result()
            changes = sum(a != b for a, b in zip(client.result(), client.result()[1:], strict=False))
            assert changes <= 6
    assert set(seen) == {0, 1}
    assert len(seen) > 50


def near(a: list[float], b: list[float]) -> bool:
    return max(abs(x - y) for x, y in zip(a, b, strict=True)) < 1e-5


def test_a_reload_that_fails_leaves_the_old_model(frail: Server, place: Path) -> None:
    before = vector(frail)
    good = (place / "words" / "config.json").read_text()
    (place / "words" / "config.json").write_text("{")
    assert "stays as it was" in frail.refused("/v1/models/words/reload", 409)
    assert near(vector(frail), before)
    assert frail.client.get("/v1/models/words").json()["error"]
    (place / "words" / "config.json").write_text(good)
    assert frail.ask("/v1/models/words/reload")["error"] is None
    assert frail.refused("/v1/models/nothing/reload", 404).startswith("there is no model 'nothing'")


def test_a_model_is_reloaded_once_at_a_time(frail: Server) -> None:
    with frail.paused(), ThreadPoolExecutor(1) as pool:
        first = pool.submit(frail.ask, "/v1/models/words/reload")
        frail.wait_pending(1)
        told = httpx.post(f"{frail.url}/v1/models/words/reload").json()["error"]["message"]
        assert told == "the model words is being loaded again already"
        os.kill(frail.compute(), signal.SIGCONT)
        assert first.result()["state"] == "loaded"


def test_sigterm_answers_what_has_begun_and_nothing_new(folders: dict[str, Path], tmp_path: Path) -> None:
    with served(tmp_path, folders["words"]) as server:
        idle = httpx.Client(base_url=server.url)
        idle.get("/health")
        with server.paused() as number:
            pool, waiting = asking(server, 3)
            server.wait_pending(3)
            server.process.send_signal(signal.SIGTERM)
            until(lambda: refuses(server.url), 5)
            with pytest.raises(httpx.TransportError):
                idle.get("/health")
            assert server.process.poll() is None
        assert [one.result(timeout=20).status_code for one in waiting] == [200] * 3
        pool.shutdown()
        assert server.process.wait(10) == 0
        until(lambda: gone(number), 5)
        assert [line["signal"] for line in server.lines() if line["event"] == "draining"] == ["SIGTERM"]


def refuses(url: str) -> bool:
    """Whether new connections are refused."""
    try:
        httpx.get(f"{url}/health")
    except httpx.ConnectError:
        return True
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_models_are_loaded(folders: dict[str, Path], tmp_path: Path, number: int) -> None:
    with served(tmp_path, folders["words"], ready=False) as server:
        assert server.refused("/v1/embed", 503, model="words", texts=["a"]) == "the models are being loaded"
        compute = server.compute()
        server.process.send_signal(number)
        assert server.process.wait(10) == 0
        until(lambda: gone(compute), 5)


def test_no_process_stays_when_the_http_process_is_killed(folders: dict[str, Path], tmp_path: Path) -> None:
    with served(tmp_path, folders["words"]) as server:
        (number,) = children(server.process.pid)
        server.process.kill()
        server.process.wait()
        until(lambda: gone(number), 5)
