"""Requests over every route whose answers are known, sent by many clients at once, and the counts that must come out.

The answers come from the library in this process, one request at a time, so an answer that is lost, swapped or
changed by its neighbours in a batch differs from them.
"""

from __future__ import annotations

import base64
import http.client
import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from qkv.predict.classify import to_dict
from tests.serving.server import Server
from tests.serving.test_verbs import CASES, png, same

WORDS = [
    "the",
    "a",
    "cat",
    "dog",
    "mat",
    "sat",
    "run",
    "on",
    "[MASK]",
    ".",
    ",",
    "!",
    "two",
    "cats",
    "dogs",
    "she",
    "is",
]
LOOKS = {  # paths that ask no model, and what their answers must hold
    "/health": '"ok"', "/ready": '"ready"', "/v1/models": '"reviews"', "/v1/models/words": '"[MASK]"',
    "/v1/stats": "uptime_seconds", "/metrics": "qkv_requests_total", "/docs": "/v1/embed", "/openapi.json": "paths",
    "/": "<!doctype html",
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A request, and what must come back.

    Attributes:
        path: of the route.
        body: what is sent; None for GET.
        wanted: the answer.
        read: takes the part of a response that is compared.
        model: the model that answers; None if none does.
        verb: what the model is asked for.
        texts: how many texts it answers.
    """

    path: str
    body: dict[str, Any] | None
    wanted: Any
    read: Callable[[str], Any]
    model: str | None = None
    verb: str = ""
    texts: int = 0


@dataclass
class Result:
    """What came back.

    Attributes:
        statuses: how many answers had each status.
        wrong: requests whose answer is not the one they must get.
    """

    statuses: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def cases(models: dict[str, Any], seed: int, each: int) -> list[Case]:
    """Make requests to every route, `each` for each verb."""
    rng = random.Random(seed)
    found = [Case(path, None, [True], lambda text, told=told: [told in text]) for path, told in LOOKS.items()]
    found.append(Case("/v1/models/words/reload", {}, ["words", "loaded"], _reloaded))
    for _ in range(each):
        for make in (_verbs, _images, _search, _streams, _openai, _tei):
            found += make(models, rng)
    return found


def _text(rng: random.Random, most: int = 6) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(1, most)))


def _texts(rng: random.Random) -> list[str]:
    return [_text(rng) for _ in range(rng.randint(1, 3))]


def _answers(text: str) -> Any:
    return [_unnamed(one) for one in json.loads(text)["answers"]]


def _unnamed(answer: Any) -> Any:
    """A look tells the model's name in Python and its family over HTTP."""
    return {key: value for key, value in answer.items() if key != "model"} if isinstance(answer, dict) else answer


def _reloaded(text: str) -> Any:
    found = json.loads(text)
    return [found["id"], found["state"]]


def _verbs(models: dict[str, Any], rng: random.Random) -> Iterator[Case]:
    """The verbs of `test_verbs`, with other texts."""
    for verb, (name, body, oracle) in CASES.items():
        texts = _texts(rng)[: 1 if verb in ("look", "explain") else 3]
        asked = body | {"texts": [f"{text} [MASK]" for text in texts] if verb == "fill" else texts}
        if verb in ("pairs", "similar"):
            asked["pairs"] = [_text(rng) for _ in texts]
        if verb == "answer":
            asked["contexts"] = _text(rng, 30)
        wanted = [_unnamed(one) for one in _plain(oracle(models[name], asked))]
        yield Case(f"/v1/{verb}", asked | {"model": name}, wanted, _answers, name, verb, len(texts))


def _images(models: dict[str, Any], rng: random.Random) -> Iterator[Case]:
    images = [png(rng.randrange(256)) for _ in range(rng.randint(1, 3))]
    with TemporaryDirectory() as place:
        files = [Path(place, f"{number}.png") for number in range(len(images))]
        for file, image in zip(files, images, strict=True):
            file.write_bytes(base64.b64decode(image))
        wanted = [to_dict(one) for one in models["pictures"].classify(files, every=True)]
    yield Case("/v1/image", {"texts": images, "every": True}, _plain(wanted), _answers, "pictures", "image", len(files))


def _search(models: dict[str, Any], rng: random.Random) -> Iterator[Case]:
    texts, lines = _texts(rng), [f"{number} {_text(rng)}" for number in range(6)]
    near = models["words"].embed(texts, normalize=True) @ models["words"].embed(lines, normalize=True).T
    wanted = [sorted(row, reverse=True)[:3] for row in near.tolist()]

    def read(text: str) -> Any:
        return [[hit["cosine"] for hit in one["hits"]] for one in _answers(text)]

    body = {"model": "words", "texts": texts, "lines": lines, "top": 3}
    yield Case("/v1/search", body, wanted, read, "words", "search", len(texts))


def _streams(models: dict[str, Any], rng: random.Random) -> Iterator[Case]:
    """A stream of each kind: the pieces must make the text."""
    prompt, seed = _text(rng, 4).replace("[MASK]", "x"), rng.randrange(1000)
    options = {"max_length": rng.randint(2, 10), "temperature": 0.8, "seed": seed}
    (wanted,) = models["writer"].generate([prompt], **options)

    def pieces(text: str) -> Any:
        found = _events(text)
        return ["".join(one["text"] for one in found if "text" in one), found[-1]["answers"][0]["generated"]]

    body = {"model": "writer", "texts": [prompt], "stream": True} | options
    yield Case("/v1/generate", body, [wanted.text] * 2, pieces, "writer", "generate", 1)
    body = {"model": "writer", "prompt": prompt, "stream": True, "max_tokens": options["max_length"], "seed": seed}
    yield Case(
        "/v1/completions",
        body | {"temperature": 0.8},
        wanted.text,
        lambda text: "".join(one["choices"][0]["text"] for one in _events(text)),
        "writer",
        "generate",
        1,
    )


def _events(text: str) -> list[Any]:
    found = [line.removeprefix("data: ") for line in text.splitlines() if line]
    assert found.pop() == "[DONE]"
    return [json.loads(one) for one in found]


def _openai(models: dict[str, Any], rng: random.Random) -> Iterator[Case]:
    texts = _texts(rng)
    wanted = models["words"].embed(texts, normalize=True).tolist()
    yield Case(
        "/v1/embeddings",
        {"model": "words", "input": texts},
        wanted,
        lambda text: [one["embedding"] for one in json.loads(text)["data"]],
        "words",
        "embed",
        len(texts),
    )
    options = {"temperature": 0.9, "seed": rng.randrange(1000)}
    prompts = [text.replace("[MASK]", "x") for text in texts]
    yield Case(
        "/v1/completions",
        {"model": "writer", "prompt": prompts, "max_tokens": 6} | options,
        [one.text for one in models["writer"].generate(prompts, max_length=6, **options)],
        lambda text: [one["text"] for one in json.loads(text)["choices"]],
        "writer",
        "generate",
        len(texts),
    )


def _tei(models: dict[str, Any], rng: random.Random) -> Iterator[Case]:
    texts, query = _texts(rng), _text(rng)
    unit = models["words"].embed(texts, normalize=True).tolist()
    yield Case("/embed", {"model": "words", "inputs": texts}, unit, json.loads, "words", "embed", len(texts))
    labels = [[one.to_dict() for one in row] for row in models["reviews"].classify(texts, every=True)]
    body = {"model": "reviews", "inputs": texts}
    yield Case("/predict", body, _plain(labels), json.loads, "reviews", "classify", len(texts))
    numbers = sorted(models["scores"].classify([query] * len(texts), texts), reverse=True)
    yield Case(
        "/rerank",
        {"model": "scores", "query": query, "texts": texts, "raw_scores": True},
        [float(one) for one in numbers],
        lambda text: [one["score"] for one in json.loads(text)],
        "scores",
        "pairs",
        len(texts),
    )


def _plain(answer: Any) -> Any:
    """Return the answer as JSON has it."""
    return json.loads(json.dumps(answer))


def ask(link: http.client.HTTPConnection, case: Case) -> tuple[int, str]:
    """Send a request; return status and body."""
    body = None if case.body is None else json.dumps(case.body)
    link.request("GET" if body is None else "POST", case.path, body, {"content-type": "application/json"})
    response = link.getresponse()
    return response.status, response.read().decode()


def wrong(case: Case, status: int, text: str) -> str | None:
    """Say how that is not the answer to this request."""
    if status != 200:
        return f"{case.path} {case.body}: {status} {text}"[:900]
    found = case.read(text)
    if same(found, case.wanted):
        return None
    return f"{case.path} {case.body}"[:400] + " ".join(difference(found, case.wanted))[:500]


def difference(a: Any, b: Any) -> Iterator[str]:
    """Yield the way to the first place where two answers differ, and what is there."""
    if isinstance(a, dict) and isinstance(b, dict) and list(a) == list(b):
        places: Any = a
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        places = range(len(a))
    else:
        yield f"{a} != {b}"
        return
    place = next(place for place in places if not same(a[place], b[place]))
    yield str(place)
    yield from difference(a[place], b[place])


def drive(address: tuple[str, int], order: Iterable[Case], clients: int) -> Result:
    """Let many clients send the requests, each over one connection."""
    result, lock, waiting = Result(), threading.Lock(), iter(order)

    def client(_: int) -> None:
        link = http.client.HTTPConnection(*address, timeout=120)
        while True:
            with lock:
                case = next(waiting, None)
            if case is None:
                link.close()
                return
            status, text = ask(link, case)
            with lock:
                result.statuses[status] += 1
                if (told := wrong(case, status, text)) is not None:
                    result.wrong.append(told)

    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(client, range(clients)))
    return result


def counted(server: Server) -> Counter[str]:
    """Return what the server has counted: answers of each route but this one, and texts of each model and verb."""
    found: Counter[str] = Counter()
    for line in server.client.get("/metrics").text.splitlines():
        name, _, value = line.rpartition(" ")
        if name.startswith(("qkv_requests_total{", "qkv_texts_total{")) and "/metrics" not in name:
            found[name] = int(float(value))
    return found


def expected(order: Sequence[Case]) -> Counter[str]:
    """Return what it should count for these requests: each of them once, and each of their texts once."""
    found: Counter[str] = Counter()
    for case in order:
        if case.path == "/metrics":
            continue
        path = case.path.replace("models/words", "models/{name}").replace("/openapi.json", "other")  # FastAPI's own
        found[f'qkv_requests_total{{route="{path}",status="200"}}'] += 1
        if case.model is not None:
            found[f'qkv_texts_total{{model="{case.model}",verb="{case.verb}"}}'] += case.texts
    return found


def mixed(found: Sequence[Case], count: int, seed: int) -> list[Case]:
    """Take requests in any order, every one of them about as often; reloads one at a time, so among few others."""
    rng = random.Random(seed)
    usual = [case for case in found if not case.path.endswith("/reload")]
    order = [usual[number % len(usual)] for number in range(count)]
    rng.shuffle(order)
    reload = next(case for case in found if case.path.endswith("/reload"))
    for place in range(0, count, max(100, count // 20)):
        order[place] = reload
    return order
