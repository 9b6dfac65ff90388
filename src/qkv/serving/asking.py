"""From a request's body to a job, and from its answer to a response."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, TypeVar

from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from qkv.serving import schema
from qkv.serving.errors import Refused, too_many
from qkv.serving.frames import Frame
from qkv.serving.limits import PICTURE_CHARACTERS, Limits
from qkv.serving.supervisor import Supervisor

T = TypeVar("T")
Body = TypeVar("Body", bound=BaseModel)
Route = Callable[[Request], Awaitable[Response]]
CLOSED = 499  # what the log says of a client that did not wait


class Asking:
    """Answers requests with the models.

    Args:
        compute: has the models.
        limits: of a request.
        log_text: whether to put the texts into the log.
    """

    def __init__(self, compute: Supervisor, limits: Limits, *, log_text: bool = False) -> None:
        self.compute, self.limits, self._log_text = compute, limits, log_text

    def route(self, verb: str, kind: type[schema.Request]) -> Route:
        """Return the handler of a verb."""

        async def handle(request: Request) -> Response:
            asked = await parse(request, kind)
            if isinstance(asked, schema.Generate) and asked.stream:
                return await self._streamed(request, asked)
            fields, parts = await self.ask(request, verb, asked.model, asked.columns(), asked.options())
            if verb == "embed":
                parts = [b'{"embedding":%b}' % part for part in parts]
            told = b',"warnings":%b' % to_json(fields["warnings"]) if fields["warnings"] else b""
            return as_json(b'{"model":%b,"answers":[%b]%b}' % (to_json(fields["model"]), b",".join(parts), told))

        handle.__name__ = verb
        return handle

    async def ask(
        self,
        request: Request,
        verb: str,
        model: str | None,
        columns: Mapping[str, list[Any]],
        options: Mapping[str, Any],
        extra: Mapping[str, Any] | None = None,
    ) -> Frame:
        """Check a job against the limits and the models, and return its answer; `fields` then also has the model."""
        name = self._admit(request, verb, model, columns, options)
        work = self.compute.ask(verb, name, dict(columns), dict(options), dict(extra or {}))
        fields, parts = await _unless_gone(request, work)
        return fields | {"model": name}, parts

    def _admit(
        self,
        request: Request,
        verb: str,
        model: str | None,
        columns: Mapping[str, list[Any]],
        options: Mapping[str, Any],
    ) -> str:
        """Return the name of the model, if the request may have it."""
        about: dict[str, Any] = {"verb": verb, "texts": len(columns["texts"])}
        request.scope["qkv"] = about
        name = self.compute.model_for(model, verb)
        check_limits(self.limits, verb, columns, options, images=self.compute.models[name].facts["images"])
        about |= {"model": name} | ({"text": columns["texts"]} if self._log_text else {})
        return name

    def stream(
        self, request: Request, model: str | None, columns: dict[str, list[Any]], options: dict[str, Any]
    ) -> tuple[str, AsyncGenerator[Frame]]:
        """Return the name of the model, and the frames of a text as it is generated."""
        name = self._admit(request, "generate", model, columns, options)
        return name, self.compute.stream("generate", name, columns, options, {"stream": True})

    def gives_numbers(self, model: str | None) -> bool:
        """Whether a model, or the first that takes pairs, gives each of them a number."""
        models = self.compute.models
        able = [one for one in models.values() if "pairs" in one.facts.get("verbs", ())]
        found = models.get(model) if model is not None else next(iter(able), None)
        return found is not None and bool(found.facts.get("number"))

    async def _streamed(self, request: Request, asked: schema.Generate) -> Response:
        """Answer with server-sent events."""
        name, frames = self.stream(request, asked.model, asked.columns(), asked.options())
        return await events(request, frames, lambda fields, parts: _event(name, fields, parts))


def _event(name: str, fields: dict[str, Any], parts: list[bytes]) -> list[bytes]:
    """Return the events of a frame: a piece of a text, or the answers at the end."""
    if fields["kind"] != "answer":
        return [to_json({key: value for key, value in fields.items() if key not in ("kind", "number")})]
    return [b'{"model":%b,"answers":[%b]}' % (to_json(name), b",".join(parts))]


async def events(
    request: Request, frames: AsyncGenerator[Frame], shown: Callable[[dict[str, Any], list[bytes]], list[bytes]]
) -> Response:
    """Send the frames of a job as server-sent events; errors before the first one are ordinary responses."""
    first = await _unless_gone(request, anext(frames))

    async def lines() -> AsyncIterator[bytes]:
        async with aclosing(frames):
            try:
                for data in shown(*first):
                    yield b"data: %b\n\n" % data
                async for fields, parts in frames:
                    for data in shown(fields, parts):
                        yield b"data: %b\n\n" % data
            except Refused as refused:
                yield b"data: %b\n\n" % to_json(refused.to_dict())
        yield b"data: [DONE]\n\n"

    return StreamingResponse(lines(), media_type="text/event-stream")


async def parse(request: Request, kind: type[Body]) -> Body:
    """Read the body as a schema; what is wrong with it is one sentence."""
    try:
        return kind.model_validate_json(await request.body())
    except ValidationError as error:
        raise _wrong(error) from None


def _wrong(error: ValidationError) -> Refused:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"])[:200]
    message = first["msg"][0].lower() + first["msg"][1:]
    where = f"{place}: " if place else "the body: "
    return Refused(422, (where + message).encode("utf-8", "replace").decode(), param=place or None, code=first["type"])


def as_json(body: bytes) -> Response:
    """Return a response of JSON."""
    return Response(body, media_type="application/json")


def check_limits(
    limits: Limits, verb: str, columns: Mapping[str, list[Any]], options: Mapping[str, Any], *, images: bool
) -> None:
    """Refuse a request that is over a limit, before any work. Images are limited by the size of the body."""
    texts = columns["texts"]
    if len(texts) > limits.texts:
        raise too_many("texts", len(texts), limits.texts)
    for name, values in columns.items():
        if len(values) != len(texts):
            raise Refused(422, f"there are {len(texts)} texts and {len(values)} {name}: give as many", param=name)
    given = [value for values in columns.values() for value in values]
    given += [value for values in options.values() for value in _texts(values)]
    characters = sum(map(len, given))
    if not images and characters > limits.characters:
        raise too_many("characters", characters, limits.characters, 413)
    if verb in ("look", "explain") and not images:
        check_picture(verb, columns)
    if len(options.get("lines", ())) > limits.texts * 4:
        raise too_many("lines", len(options["lines"]), limits.texts * 4, param="lines")
    if (asked := options.get("max_length") or 0) > limits.new_tokens and verb in ("generate", "translate"):
        raise Refused(
            422,
            f"max_length is {asked:,}, and this server generates at most {limits.new_tokens:,} tokens",
            param="max_length",
            code="over_limit",
        )


def check_picture(verb: str, columns: Mapping[str, list[Any]]) -> None:
    """Refuse long texts where every attention matrix, or every word's effect, is computed."""
    longest = max(len(text) for values in columns.values() for text in values)
    if longest > PICTURE_CHARACTERS:
        raise too_many(f"characters in one text for {verb}", longest, PICTURE_CHARACTERS, 413)


def _texts(option: Any) -> list[str]:
    """Return the texts in the value of an option."""
    values = option if isinstance(option, list) else [option]
    return [value for value in values if isinstance(value, str)]


async def _unless_gone(request: Request, work: Awaitable[T]) -> T:
    """Do the work; if the client goes before it is done, cancel it."""
    me = asyncio.current_task()
    assert me is not None
    gone = False

    async def listen() -> None:
        nonlocal gone
        while (await request.receive())["type"] != "http.disconnect":
            pass
        gone = True
        me.cancel()

    listener = asyncio.create_task(listen())
    try:
        return await work
    except asyncio.CancelledError:
        if not gone:
            raise
        me.uncancel()
        raise Refused(CLOSED, "the client has gone") from None
    finally:
        listener.cancel()
