"""Generation over HTTP: streams, continuous batching, and the same texts as alone."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.predict.writers import writer
from tests.serving.server import Server, served
from tests.serving.test_verbs import same

PROMPTS = ["The small cat", "Two dogs", "She", "a", "It is cold and the sun"]
LONG = {"model": "slow", "texts": ["The cat"] * 8, "max_length": 1000, "temperature": 1.0, "stream": True}
SETTINGS: list[dict[str, Any]] = [
    {},
    {"temperature": 1.2, "seed": 5},
    {"temperature": 0.8, "top_p": 0.9, "stop": ["e", "?"], "seed": 2},
    {"repetition_penalty": 1.3, "no_repeat_ngram": 3},
    {"samples": 3, "seed": 9, "top_k": 20},
    {"beam": 3, "samples": 2},
    {"probabilities": 4, "temperature": 1.5},
    {"window": True},
    {"min_length": 5},
]


def oracle(model: Any, prompts: list[str], options: dict[str, Any]) -> list[Any]:
    return [one.to_dict(tokens=True) for one in model.generate(prompts, **options)]


def events(response: httpx.Response) -> list[Any]:
    """Return the data of server-sent events; the last must be [DONE]."""
    found = [line.removeprefix("data: ") for line in response.iter_lines() if line]
    assert found[-1] == "[DONE]"
    return [json.loads(one) for one in found[:-1]]


@pytest.fixture(scope="module")
def slow(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a language model that needs some milliseconds for a step."""
    place = tmp_path_factory.mktemp("slow")
    writer("char", dim=256, num_layers=6, num_heads=4, ff_dim=1024, max_length=1024).save(place / "slow")
    with served(place, place / "slow", folders["reviews"]) as found:
        yield found


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_texts_are_those_of_python_whatever_runs_beside_them(
    server: Server, models: dict[str, Any], settings: dict[str, Any]
) -> None:
    wanted = oracle(models["writer"], PROMPTS, settings | {"max_length": 20})
    body = settings | {"model": "writer", "max_length": 20, "tokens": True}
    assert same(server.ask("/v1/generate", texts=PROMPTS, **body)["answers"], wanted)

    def ask(number: int) -> Any:
        time.sleep(number % 7 / 200)  # so that they join what is being generated
        return server.ask("/v1/generate", texts=[PROMPTS[number % 5]], **body)["answers"][0]

    with ThreadPoolExecutor(10) as pool:
        found = list(pool.map(ask, range(20)))
    assert all(same(one, wanted[number % 5]) for number, one in enumerate(found))


@pytest.mark.parametrize("settings", [SETTINGS[0], SETTINGS[2], SETTINGS[4], SETTINGS[5]], ids=str)
def test_pieces_of_a_stream_make_the_texts(server: Server, settings: dict[str, Any]) -> None:
    body = settings | {"model": "writer", "texts": PROMPTS[:2], "max_length": 20}
    whole = server.ask("/v1/generate", **body)["answers"]
    with server.client.stream("POST", "/v1/generate", json=body | {"stream": True}) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        *pieces, last = events(response)
    assert same(last["answers"], whole)
    each = [[one, *one.get("others", [])] for one in whole]
    flat = [one["generated"] for several in each for one in several]
    texts = [""] * len(flat)
    for piece in pieces:
        texts[piece["index"]] += piece["text"]
    if "beam" in settings:
        assert texts[:2] == [several[0]["generated"] for several in each]
    else:
        assert texts == flat
        assert len(pieces) > len(flat)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/generate", {"model": "slow", "texts": ["The cat"], "max_length": 2, "temperature": 1.0}),
        ("/v1/classify", {"texts": ["the cat"]}),
    ],
)
def test_short_requests_are_answered_while_long_ones_are_generated(
    slow: Server, path: str, body: dict[str, Any]
) -> None:
    """A text that has ended makes room at once, and other verbs have their turn between two steps."""

    def overtaken() -> bool:
        with slow.client.stream("POST", "/v1/generate", json=LONG) as response:
            lines = response.iter_lines()
            next(lines)  # it has begun
            slow.ask(path, **body)
            return bool(slow.client.get("/v1/stats").json()["requests"]["pending"])

    slow.wait_ready()
    assert any(overtaken() for _ in range(10))  # on a busy machine, the long one may end before the other is asked


def test_what_a_client_that_has_gone_asked_for_is_dropped(slow: Server) -> None:
    slow.wait_ready()
    with slow.client.stream("POST", "/v1/generate", json=LONG) as response:
        next(response.iter_lines())
        response.close()
    start = time.monotonic()
    while slow.client.get("/v1/stats").json()["requests"]["pending"]:
        assert time.monotonic() - start < 2
        time.sleep(0.01)


def test_errors_come_before_the_stream_as_ordinary_responses(server: Server) -> None:
    told = server.refused("/v1/generate", 422, model="writer", texts=["a"], stream=True, top_p=0.5, sample=False)
    assert "top_p changes nothing without sample" in told
    told = server.refused("/v1/generate", 422, model="writer", texts=["a " * 500], stream=True)
    assert "the context of this model is 128" in told
