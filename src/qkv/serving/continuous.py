"""Texts that are generated together although they were asked for at different times."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from qkv.common.batch import Tokens
from qkv.common.protocols import PromptStepper
from qkv.decoding.config import DecodingConfig
from qkv.decoding.continuous import ContinuousSearch, Row
from qkv.models.skeleton import EncoderDecoder
from qkv.predict import Model
from qkv.predict.finite import finite
from qkv.predict.generate import gathered, prepared, search_config
from qkv.predict.writing import Job as Text
from qkv.predict.writing import Writer
from qkv.serving.jobs import Job

ROUND = 0  # the number of a text's only round: without a window there are no others
SHAPED = ("samples", "max_length", "stop", "prefix", "window", "probabilities", "tokens")  # not settings of the search


@dataclass(eq=False)
class Piece:
    """A part of a text, for a client that streams it.

    Attributes:
        number: of the text in its request.
        text: what is new.
    """

    number: int
    text: str


@dataclass(eq=False)
class _Running:
    """A text that is being generated."""

    task: Task
    number: int
    text: Text
    row: Row


@dataclass(eq=False)
class Task:
    """A request to generate.

    Attributes:
        job: the request.
        writer: makes texts of its tokens.
        texts: its texts.
        left: how many of them have not ended.
        seconds: its share of the time that was computed.
        written: its tokens.
    """

    job: Job
    writer: Writer
    texts: list[Text]
    left: int = 0
    seconds: float = 0.0
    written: int = 0
    waiting: deque[int] = field(default_factory=deque)

    def batch(self) -> dict[str, Any]:
        """Return its figures for the metrics."""
        job = self.job
        took = {"texts": job.size, "jobs": 1, "seconds": self.seconds, "cost": job.cost, "generated": self.written}
        return took | {"verb": job.verb, "model": job.model}

    def answers(self) -> list[dict[str, Any]]:
        """Return the answers, when all texts have ended."""
        steps = self.writer.top > 0
        found = gathered(self.texts, self.job.size, steps=steps)
        return [one.to_dict(tokens=bool(self.job.options.get("tokens"))) for one in found]


def can_join(model: Model, options: Mapping[str, Any]) -> bool:
    """Whether texts can join others at any step: of a model that continues a text, token by token, in one context."""
    if isinstance(model.module, EncoderDecoder) or model.searches_only or options.get("window"):
        return False
    config = search_config(model, options.get("samples", 1), {k: v for k, v in options.items() if k not in SHAPED})
    return config.beam == 1 and not config.min_length


class Generation:
    """The texts of one model with the same settings.

    Args:
        model: continues texts.
        config: the settings of the search; the seeds are those of the requests.
        end_id: the token that ends a text.
        room: tokens of prompts and texts that run at a time.
    """

    def __init__(self, model: Model, config: DecodingConfig, end_id: int, room: int) -> None:
        module: Any = model.module

        def tokens(prompts: Sequence[Sequence[int]]) -> Tokens:
            return Tokens.of(prompts, device=model.device)

        def join(stepper: PromptStepper, prompts: Sequence[Sequence[int]]) -> None:
            stepper.join(tokens(prompts))

        self._search = ContinuousSearch(lambda prompts: module.start(tokens(prompts)), join, config, end_id)
        self._room, self._used = room, 0
        self._tasks: deque[Task] = deque()  # with texts that wait for room
        self._running: list[_Running] = []

    @property
    def idle(self) -> bool:
        """Whether there is nothing to generate."""
        return not self._tasks and not self._running

    def add(self, task: Task) -> None:
        """Let a request wait for room."""
        task.left = len(task.texts)
        task.waiting.extend(range(len(task.texts)))
        self._tasks.append(task)

    def step(self) -> Iterator[tuple[Task, Piece | None]]:
        """Generate a token of each text. Yields new pieces, and None for a request that has ended or been dropped."""
        start = time.monotonic()
        self._join()
        got = set(map(id, self._search.step()))
        share = (time.monotonic() - start) / max(1, len(got))
        stay = []
        for one in self._running:
            if id(one.row) not in got:
                stay.append(one)
                continue
            one.task.seconds += share
            if piece := self._heard(one):
                yield one.task, piece
            if not one.row.answer.over:
                stay.append(one)
                continue
            self._used -= _size(one.text)
            one.task.left -= 1
            if one.task.left == 0:
                yield one.task, None
        self._running = stay

    def drop(self, task: Task) -> None:
        """Forget a request."""
        task.left = -1
        for one in self._running:
            if one.task is task:
                one.row.answer.over = True
                self._used -= _size(one.text)
        self._running = [one for one in self._running if one.task is not task]
        self._tasks = deque(other for other in self._tasks if other is not task)

    def tasks(self) -> set[Task]:
        """Return the requests that wait or run."""
        return {*self._tasks, *(one.task for one in self._running)}

    def _join(self) -> None:
        """Let texts join while there is room; an empty batch takes any text."""
        joining = list[_Running]()
        while self._tasks:
            task = self._tasks[0]
            text = task.texts[task.waiting[0]]
            if (self._running or joining) and self._used + _size(text) > self._room:
                break
            number = task.waiting.popleft()
            if not task.waiting:
                self._tasks.popleft()
            self._used += _size(text)
            text.drafts = [task.writer.draft(text)]
            text.begin(None)
            row = Row(text.ids, text.most, text.seed(task.writer.config.seed, ROUND))
            joining.append(_Running(task, number, text, row))
        self._running += joining
        self._search.add([one.row for one in joining])

    def _heard(self, one: _Running) -> Piece | None:
        """Turn the newest token into text."""
        row, draft, task = one.row, one.text.text, one.task
        shown = ""
        if _needs_text(task) and len(row.answer.ids) > len(draft.ids) and not draft.ended:
            shown = draft.hear(row.answer.ids[-1])
            row.answer.over = row.answer.over or bool(draft.ended)
        if row.answer.over:
            found = row.hypothesis()
            finite([found.score])
            task.writer.take(one.text, [found], 0)
            shown += draft.close()
            task.written += len(found.scores)
        return Piece(one.number, shown) if shown and task.job.extra.get("stream") else None


def _needs_text(task: Task) -> bool:
    """Whether each token must become text at once: for a stream, or because the text may end the sequence."""
    writer = task.writer
    return bool(task.job.extra.get("stream") or writer.stops or len(writer.ends) > 1)


def _size(text: Text) -> int:
    return len(text.ids) + text.most


class Generations:
    """All texts that are being generated."""

    def __init__(self, room: Callable[[], int]) -> None:
        self._room = room
        self._by_kind: dict[tuple[Any, ...], Generation] = {}

    @property
    def idle(self) -> bool:
        """Whether there is nothing to generate."""
        return not self._by_kind

    def add(self, model: Model, job: Job, most: int) -> None:
        """Let a request join those of the same model and settings.

        Args:
            model: continues its texts.
            job: the request.
            most: the most tokens of a text.
        """
        options = {key: value for key, value in job.options.items() if key != "tokens"}
        writer, texts = prepared(model, job.columns["texts"], **options)
        for text in texts:
            text.most = min(text.most, most)
        config = replace(writer.config, seed=0)
        key = (id(model), config, writer.end_id)
        if key not in self._by_kind:
            self._by_kind[key] = Generation(model, config, writer.end_id, self._room())
        self._by_kind[key].add(Task(job, writer, texts))

    def step(self) -> Iterator[tuple[Task, Piece | None]]:
        """Generate one more token of every text. Requests that nobody waits for any more are dropped, and yielded."""
        for key, generation in list(self._by_kind.items()):
            for task in generation.tasks():
                if not task.job.wanted:
                    generation.drop(task)
                    yield task, None
            yield from generation.step()
            if generation.idle:
                del self._by_kind[key]

    def clear(self) -> list[Job]:
        """Forget everything; return the requests that are lost."""
        lost = [task.job for generation in self._by_kind.values() for task in generation.tasks()]
        self._by_kind.clear()
        return lost
