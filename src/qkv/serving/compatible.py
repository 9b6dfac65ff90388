"""The routes of other servers: OpenAI's embeddings and completions, and those of text-embeddings-inference (TEI)."""

from __future__ import annotations

import base64
import math
import struct
import time
import uuid
from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import from_json, to_json

from qkv.serving.asking import Asking, Route, as_json, events, parse
from qkv.serving.errors import Refused
from qkv.serving.openapi import described

Texts = Annotated[list[str], Field(min_length=1)]


class _Body(BaseModel):
    """Clients of other servers send fields that mean nothing here; they are ignored."""

    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)


class Embeddings(_Body):
    """Embed texts, as OpenAI's API does."""

    model: str | None = None
    input: str | Texts
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[int, Field(ge=1)] | None = None


class Completions(_Body):
    """Continue prompts, as OpenAI's API does."""

    model: str | None = None
    prompt: str | Texts
    max_tokens: Annotated[int, Field(ge=1)] = 16
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    n: Annotated[int, Field(ge=1, le=16)] = 1
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    stop: str | list[str] | None = None
    stream: bool = False
    echo: bool = False
    logprobs: Annotated[int, Field(ge=0, le=5)] | None = None


class Embed(_Body):
    """Embed texts, as text-embeddings-inference does."""

    model: str | None = None
    inputs: str | Texts
    normalize: bool = True
    truncate: bool = False
    prompt_name: str | None = None


class Predict(_Body):
    """Classify texts or pairs, as text-embeddings-inference does.

    One input gives a list of labels, several give a list of such lists.
    """

    model: str | None = None
    inputs: str | Annotated[list[str | Annotated[list[str], Field(min_length=1, max_length=2)]], Field(min_length=1)]
    truncate: bool = False


class Rerank(_Body):
    """Order texts by how well they fit a query, as text-embeddings-inference does.

    With a model that gives pairs a number, by that number; else by the cosine of the vectors.
    """

    model: str | None = None
    query: str
    texts: Texts
    raw_scores: bool = False
    return_text: bool = False
    truncate: bool = False


def add_routes(app: FastAPI, asking: Asking) -> dict[str, Route]:
    """Add the routes, and return their handlers by path."""
    kinds: dict[str, tuple[type[BaseModel], Callable[[Asking, Request], Any], str]] = {
        "/v1/embeddings": (Embeddings, _embeddings, "OpenAI"),
        "/v1/completions": (Completions, _completions, "OpenAI"),
        "/embed": (Embed, _embed, "text-embeddings-inference"),
        "/predict": (Predict, _predict, "text-embeddings-inference"),
        "/rerank": (Rerank, _rerank, "text-embeddings-inference"),
    }
    routes = {path: _handler(asking, answer) for path, (_, answer, _) in kinds.items()}
    for path, (kind, _, tag) in kinds.items():
        app.add_api_route(path, routes[path], methods=["POST"], tags=[tag], **described(kind))
    return routes


def _handler(asking: Asking, answer: Callable[[Asking, Request], Any]) -> Route:
    async def handle(request: Request) -> Response:
        found: Response = await answer(asking, request)
        return found

    handle.__name__ = answer.__name__.strip("_")
    return handle


async def _embeddings(asking: Asking, request: Request) -> Response:
    asked = await parse(request, Embeddings)
    columns = {"texts": _list(asked.input)}
    fields, parts = await asking.ask(request, "embed", asked.model, columns, {"normalize": True}, {"usage": True})
    if asked.dimensions is not None and asked.dimensions != (size := len(from_json(parts[0]))):
        raise Refused(422, f"this model gives {size} dimensions, and no other number", param="dimensions")
    if asked.encoding_format == "base64":
        parts = [to_json(_base64(from_json(part))) for part in parts]
    rows = [b'{"object":"embedding","index":%d,"embedding":%b}' % pair for pair in enumerate(parts)]
    count = fields["extra"]["tokens"]
    end = to_json({"model": fields["model"], "usage": {"prompt_tokens": count, "total_tokens": count}})
    return as_json(b'{"object":"list","data":[%b],%b' % (b",".join(rows), end[1:]))


def _base64(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


async def _completions(asking: Asking, request: Request) -> Response:
    asked = await parse(request, Completions)
    prompts = _list(asked.prompt)
    given = {
        "max_length": asked.max_tokens,
        "temperature": asked.temperature,
        "top_p": asked.top_p,
        "seed": asked.seed,
        "stop": None if asked.stop is None else _list(asked.stop),
        "samples": asked.n if asked.n > 1 else None,
        "probabilities": asked.logprobs or None,
    }
    options = {key: value for key, value in given.items() if value is not None} | {"tokens": True}
    about = {"id": f"cmpl-{uuid.uuid4().hex}", "object": "text_completion", "created": int(time.time())}
    if asked.stream:
        if asked.n > 1 or asked.echo:
            raise Refused(422, "a stream has one text for each prompt, without the prompt: leave out n and echo")
        return await _completion_events(asking, request, asked.model, prompts, options, about)
    fields, parts = await asking.ask(request, "generate", asked.model, {"texts": prompts}, options, {"usage": True})
    choices: list[dict[str, Any]] = []
    written = 0
    for prompt, part in zip(prompts, parts, strict=True):
        answer = from_json(part)
        for one in [answer, *answer.get("others", [])]:
            written += len(one["tokens"])
            choices.append(_choice(len(choices), one, prompt if asked.echo else "", asked.logprobs is not None))
    read = fields["extra"]["tokens"]
    usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    return as_json(to_json(about | {"model": fields["model"], "choices": choices, "usage": usage}))


def _choice(index: int, one: dict[str, Any], before: str, logprobs: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"index": index, "text": before + one["generated"], "finish_reason": _reason(one["ended"])}
    if not logprobs:
        return found | {"logprobs": None}
    steps = one.get("steps") or []
    top = [{choice["word"]: math.log(max(choice["score"], 1e-45)) for choice in step["choices"]} for step in steps]
    return found | {
        "logprobs": {"tokens": one["tokens"], "token_logprobs": one["token_scores"], "top_logprobs": top or None}
    }


def _reason(ended: str) -> str:
    return "length" if ended == "length" else "stop"


async def _completion_events(
    asking: Asking,
    request: Request,
    model: str | None,
    prompts: list[str],
    options: dict[str, Any],
    about: dict[str, Any],
) -> Response:
    name, frames = asking.stream(request, model, {"texts": prompts}, options)

    def shown(fields: dict[str, Any], parts: list[bytes]) -> list[bytes]:
        if fields["kind"] == "answer":
            ends = [
                {"index": i, "text": "", "finish_reason": _reason(from_json(p)["ended"])} for i, p in enumerate(parts)
            ]
        else:
            ends = [{"index": fields["index"], "text": fields["text"], "finish_reason": None}]
        return [to_json(about | {"model": name, "choices": [one | {"logprobs": None}]}) for one in ends]

    return await events(request, frames, shown)


async def _embed(asking: Asking, request: Request) -> Response:
    asked = await parse(request, Embed)
    options: dict[str, Any] = {"normalize": asked.normalize}
    options |= {} if asked.prompt_name is None else {"prompt_name": asked.prompt_name}
    _, parts = await asking.ask(
        request, "embed", asked.model, {"texts": _list(asked.inputs)}, options, _cut(asked.truncate)
    )
    return as_json(b"[%b]" % b",".join(parts))


async def _predict(asking: Asking, request: Request) -> Response:
    asked = await parse(request, Predict)
    given = _list(asked.inputs)
    pairs = [one for one in given if isinstance(one, list) and len(one) == 2]
    if pairs and len(pairs) < len(given):
        raise Refused(422, "inputs: give texts or pairs, not both", param="inputs")
    texts = [one if isinstance(one, str) else one[0] for one in given]
    columns = {"texts": texts} | ({"pairs": [pair[1] for pair in pairs]} if pairs else {})
    verb = "pairs" if pairs else "classify"
    numbers = asking.gives_numbers(asked.model)
    options = {} if numbers else {"every": True}
    _, parts = await asking.ask(request, verb, asked.model, columns, options, _cut(asked.truncate))
    rows = [_labels(from_json(part)) for part in parts]
    return as_json(to_json(rows[0] if isinstance(asked.inputs, str) else rows))


def _labels(answer: dict[str, Any]) -> Any:
    """A number is the score of one label without a name, as in `transformers`."""
    return answer["labels"] if "labels" in answer else [{"label": "LABEL_0", "score": answer["number"]}]


async def _rerank(asking: Asking, request: Request) -> Response:
    asked = await parse(request, Rerank)
    columns = {"texts": [asked.query] * len(asked.texts), "pairs": asked.texts}
    if asking.gives_numbers(asked.model):
        _, parts = await asking.ask(request, "pairs", asked.model, columns, {}, _cut(asked.truncate))
        scores = [from_json(part)["number"] for part in parts]
        scores = scores if asked.raw_scores else [1 / (1 + math.exp(-max(-700.0, score))) for score in scores]
    else:
        _, parts = await asking.ask(request, "similar", asked.model, columns, {}, _cut(asked.truncate))
        scores = [from_json(part)["cosine"] for part in parts]
    rows = [
        {"index": number, "score": score} | ({"text": asked.texts[number]} if asked.return_text else {})
        for number, score in sorted(enumerate(scores), key=lambda pair: -pair[1])
    ]
    return as_json(to_json(rows))


def _cut(truncate: bool) -> dict[str, bool]:
    """TEI refuses texts that are too long unless a client lets them be cut."""
    return {} if truncate else {"truncate": False}


def _list(given: Any) -> list[Any]:
    return [given] if isinstance(given, str) else given
