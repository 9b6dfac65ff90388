"""Starts the compute process, sends it requests, and starts it again if it ends or hangs.

Every request is one `Ticket`. If the compute process ends, all tickets are refused at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import math
import socket
import sys
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import to_json

from qkv.common.errors import reason_of
from qkv.serving import frames
from qkv.serving.errors import Refused
from qkv.serving.limits import Limits, cost_of
from qkv.serving.settings import Settings

STUCK = 30.0  # seconds after which a compute process that does not answer a ping is killed
PAUSES = (0.0, 0.5, 1.0, 2.0, 5.0)  # seconds before it is started again, if it keeps ending
STEADY = 30.0  # seconds of work after which it counts as steady again
FORGET = 0.2  # weight of the newest measurement of a model's speed
ENDS = ("answer", "refused", "late")  # frames after which nothing comes
Watch = Callable[[dict[str, Any]], None]


@dataclass(eq=False)
class Ticket:
    """A request that waits for its answer.

    Attributes:
        key: what its speed depends on.
        seconds: an estimate of how long it takes.
        events: frames that have come.
    """

    key: tuple[str, str]
    seconds: float
    events: asyncio.Queue[frames.Frame] = field(default_factory=asyncio.Queue)


@dataclass(eq=False)
class ServedModel:
    """What is known of a model.

    Attributes:
        name: its name, after its folder.
        facts: what it is; empty until it is loaded.
        failure: why it could not be loaded.
        loaded: when it was loaded, in seconds since 1970.
        reloading: whether it is being loaded again.
    """

    name: str
    facts: dict[str, Any] = field(default_factory=dict)
    failure: str | None = None
    loaded: int = 0
    reloading: bool = False


class Supervisor:
    """Starts the compute process and asks it.

    Args:
        settings: what it is started with.
        limits: of requests.
        watch: called for every batch, every load and every end of the process.
    """

    def __init__(self, settings: Settings, limits: Limits, watch: Watch = lambda _: None) -> None:
        self.settings, self.limits, self._watch = settings, limits, watch
        self.models = {name: ServedModel(name) for name in settings.models}
        self.ready = False
        self.hopeless: Callable[[], None] = lambda: None  # called if no model could be loaded at the start
        self.restarts = 0
        self._numbers = itertools.count(1)
        self._tickets: dict[int, Ticket] = {}
        self._speed: dict[tuple[str, str], float] = {}  # seconds for each token
        self._backlog = 0.0  # seconds of work, estimated
        self._writer: asyncio.StreamWriter | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._heard = time.monotonic()
        self._task: asyncio.Task[None] | None = None

    @property
    def pending(self) -> int:
        """Requests that wait or run."""
        return len(self._tickets)

    def start(self) -> None:
        """Start the compute process, and keep it running."""
        self._task = asyncio.create_task(self._keep())

    async def stop(self) -> None:
        """End the compute process."""
        self.ready = False
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def check_room(self) -> None:
        """Refuse if the queue is full, by count or by the time that its work takes."""
        if self.pending >= self.limits.queue or (
            self._backlog > self.limits.patience and self.pending >= self.limits.spare
        ):
            wait = str(max(1, math.ceil(self._backlog)))
            raise Refused(
                429,
                f"{self.pending} requests are waiting, which is all that this server takes: try again in {wait} s",
                code="overloaded",
                headers={"Retry-After": wait},
            )

    def model_for(self, name: str | None, verb: str) -> str:
        """Return the model for a verb: the one that was named, or the first that has the verb."""
        if name is None:
            able = [one for one in self.models.values() if verb in one.facts.get("verbs", ())]
            # A translator can embed, too; a model that was made for the verb, or for texts as such, does it better.
            able.sort(key=lambda one: (one.facts["task"] != verb, one.facts["task"] == "translate"))
            name = next((one.name for one in able), None)
            if name is None:
                self._check_loading()
                raise Refused(422, f"no model here can {verb}; /v1/models lists what each model can do", param="model")
            return name
        found = self.find(name, "model")
        if found.failure is not None and not found.facts:
            raise Refused(503, f"the model {name} could not be loaded: {found.failure}", param="model")
        if not found.facts:
            self._check_loading()
        if verb not in found.facts.get("verbs", ()):
            can = ", ".join(found.facts.get("verbs", ()))
            raise Refused(422, f"the model {name} cannot {verb} (it can {can})", param="model")
        return name

    def find(self, name: str, param: str = "name") -> ServedModel:
        """Return a model by its name, which is the field `param` of the request."""
        if name in self.models:
            return self.models[name]
        message = f"there is no model {name[:200]!r} here (there are: {', '.join(self.models)})"
        raise Refused(404, message, param=param, code="model_not_found")

    def _check_loading(self) -> None:
        if not self.ready:
            raise Refused(503, "the models are being loaded", code="loading", headers={"Retry-After": "1"})

    async def ask(
        self,
        verb: str,
        model: str,
        columns: dict[str, list[Any]],
        options: dict[str, Any],
        extra: dict[str, Any] | None = None,
    ) -> frames.Frame:
        """Return the answer: its fields, and the JSON of each text's answer."""
        async with contextlib.aclosing(self.stream(verb, model, columns, options, extra)) as events:
            async for fields, parts in events:
                if fields["kind"] == "answer":
                    return fields, parts
        raise AssertionError("a stream ends with its answer")

    async def stream(
        self,
        verb: str,
        model: str,
        columns: dict[str, list[Any]],
        options: dict[str, Any],
        extra: dict[str, Any] | None = None,
    ) -> AsyncGenerator[frames.Frame]:
        """Yield the frames of a request as they come; the last is the answer. Closing it drops the work."""
        self.check_room()
        if self._writer is None:
            raise _gone()
        self._check_loading()
        number, deadline = next(self._numbers), time.monotonic() + self.limits.deadline
        ticket = Ticket((model, verb), cost_of(columns, options) * self._speed.get((model, verb), 0.0))
        head = {"kind": "job", "number": number, "verb": verb, "model": model}
        head |= {"deadline": deadline, "extra": extra or {}}
        self._tickets[number] = ticket
        self._backlog += ticket.seconds
        ended = False
        try:
            self._writer.write(frames.pack(head, [to_json(columns), to_json(options)]))
            while not ended:
                async with asyncio.timeout(deadline - time.monotonic()):
                    fields, parts = await ticket.events.get()
                ended = fields["kind"] in ENDS
                _check(fields)
                yield fields, parts
        except TimeoutError:
            raise Refused(
                504, f"no answer within {self.limits.deadline:g} s, the deadline of this server", code="deadline"
            ) from None
        finally:
            del self._tickets[number]
            self._backlog = max(0.0, self._backlog - ticket.seconds)
            if not ended and self._writer is not None:
                self._writer.write(frames.pack({"kind": "drop", "number": number}))

    async def reload(self, name: str) -> ServedModel:
        """Load a model again from its folder; until then, and if that fails, the old one answers."""
        model = self.find(name)
        if self._writer is None:
            raise _gone()
        self._check_loading()
        if model.reloading:
            raise Refused(409, f"the model {name} is being loaded again already", code="reloading")
        number, model.reloading = next(self._numbers), True
        ticket = self._tickets[number] = Ticket((name, "reload"), 0.0)
        try:
            self._writer.write(frames.pack({"kind": "load", "name": name, "number": number}))
            fields, _ = await ticket.events.get()
        finally:
            self._tickets.pop(number, None)
            model.reloading = False
        _check(fields)
        if fields["kind"] == "failed":
            raise Refused(409, f"the model {name} could not be loaded, and stays as it was: {fields['message']}")
        return model

    async def _keep(self) -> None:
        """Run the compute process; if it ends, refuse what waits and start it again."""
        failed = 0
        while True:
            begun = time.monotonic()
            try:
                await self._run_once()
            except OSError as error:  # no memory for a process, or no permission
                self._watch({"kind": "unstarted", "message": reason_of(error)})
            finally:
                self._lose()
            self.restarts += 1
            failed = 0 if time.monotonic() - begun > STEADY else failed + 1
            self._watch({"kind": "ended"})
            await asyncio.sleep(PAUSES[min(failed, len(PAUSES)) - 1] if failed else 0.0)

    async def _run_once(self) -> None:
        mine, theirs = socket.socketpair()
        with theirs:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "qkv.serving.compute", str(theirs.fileno()), pass_fds=[theirs.fileno()]
            )
        reader, self._writer = await asyncio.open_connection(sock=mine)
        self._writer.write(frames.pack(dataclasses.asdict(self.settings)))
        watchdog = asyncio.create_task(self._watch_over(self._process))
        self._heard = time.monotonic()
        try:
            while (frame := await frames.receive(reader)) is not None:
                self._heard = time.monotonic()
                self._take(*frame)
        finally:
            watchdog.cancel()
            self._writer.close()
            self._writer = None
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    async def _watch_over(self, process: asyncio.subprocess.Process) -> None:
        """Ask a process that has said nothing for as long as the deadline; kill it if it still says nothing."""
        asked = math.inf
        while True:
            await asyncio.sleep(1)
            now = time.monotonic()
            if not self.ready or self._writer is None or now - self._heard < self.limits.deadline:
                asked = math.inf
            elif asked == math.inf:
                asked = now
                self._writer.write(frames.pack({"kind": "ping"}))
            elif now - asked > STUCK:
                process.kill()

    def _lose(self) -> None:
        self.ready = False
        for ticket in self._tickets.values():
            ticket.events.put_nowait(({"kind": "refused", "status": 503}, []))

    def _take(self, fields: dict[str, Any], parts: list[bytes]) -> None:
        """Take a frame of the compute process."""
        kind = fields["kind"]
        if kind == "ready":
            self.ready = True
            if not self.restarts and not any(model.facts for model in self.models.values()):
                self.hopeless()
        elif kind == "model":
            model = self.models[fields["name"]]
            model.facts, model.failure, model.loaded = fields["facts"], None, int(time.time())
        elif kind == "failed":
            model = self.models[fields["name"]]
            model.failure = fields["message"]
            if fields["number"] is None:
                model.facts = {}  # the process was started again, so there is no old one that answers
        if kind in ("ready", "model", "failed"):
            self._watch(fields)
        ticket = self._tickets.get(fields.get("number") or 0)
        if "batch" in fields:
            self._watch(fields)
            self._learn(fields["batch"], ticket)
        if ticket is not None:
            ticket.events.put_nowait((fields, parts))

    def _learn(self, batch: dict[str, Any], ticket: Ticket | None) -> None:
        """Measure how long a token takes, from a batch and one of its requests."""
        if ticket is None:
            return
        each = batch["seconds"] / batch["cost"]
        old = self._speed.get(ticket.key, each)
        self._speed[ticket.key] = old + FORGET * (each - old)


def _check(fields: dict[str, Any]) -> None:
    """Raise the refusal that came instead of an answer."""
    if fields["kind"] == "late":
        raise Refused(504, "the deadline of this server has passed", code="deadline")
    if fields["kind"] == "refused":
        if "message" not in fields:
            raise _gone()
        raise Refused(fields["status"], fields["message"], code=None)


def _gone() -> Refused:
    return Refused(
        503, "the process with the models is being started again", code="restarting", headers={"Retry-After": "2"}
    )
