"""The process that holds the models: `python -m qkv.serving.compute FD`, started by the supervisor.

One thread reads frames, one computes, and for a reload another one loads. The process ends when its socket does.
"""

from __future__ import annotations

import gc
import math
import os
import signal
import socket
import sys
import time
import traceback
import warnings
from threading import Lock, Thread
from typing import Any

from pydantic_core import from_json, to_json

from qkv.common.errors import QkvError, Shortened, UnknownText, UsageError
from qkv.predict import TOKENS_PER_BATCH, Model, load
from qkv.predict.generate import MORE
from qkv.serving import frames
from qkv.serving.continuous import Generations, can_join
from qkv.serving.jobs import Job, Waiting, joined, parted
from qkv.serving.limits import texts_of
from qkv.serving.settings import Settings
from qkv.serving.verbs import VERBS, WATCHED, facts_of, usual_length

PING = "ping"  # a job that waits like any other, so that its answer says that jobs are being answered


class Stopped(Exception):
    """Nobody waits for the answer any more."""


class Compute:
    """Answers the jobs that come through a socket."""

    def __init__(self, link: socket.socket) -> None:
        self._link, self._sending = link, Lock()
        self._stream = link.makefile("rb")
        self._waiting = Waiting()
        self._models: dict[str, Model] = {}
        self._jobs: dict[int, Job] = {}  # that have come and are not answered
        self._generations = Generations(lambda: MORE * self._budget())
        first = frames.read(self._stream)
        if first is None:
            raise SystemExit(1)
        self.settings = Settings(**first[0])

    def run(self) -> None:
        """Load the models, then answer until the socket ends."""
        if self.settings.threads is not None:
            import torch

            torch.set_num_threads(self.settings.threads)
        Thread(target=self._listen, daemon=True).start()
        for name in self.settings.models:
            self._load(name)
        self._send({"kind": "ready"})
        while True:
            if self._generations.idle:
                self._waiting.wait()
            self._answer([job for job in self._waiting.take(self._budget()) if self._check(job)])
            self._generate()

    def _budget(self) -> int:
        """Return the tokens of a batch."""
        kind = next((model.device.type for model in self._models.values()), "cpu")
        return TOKENS_PER_BATCH.get(kind, TOKENS_PER_BATCH["cpu"])

    def _listen(self) -> None:
        """Take jobs and orders."""
        while (frame := frames.read(self._stream)) is not None:
            fields, parts = frame
            if fields["kind"] == "job":
                job = self._jobs[fields["number"]] = _job(fields, parts)
                self._waiting.add(job)
            elif fields["kind"] == "ping":
                self._waiting.add(Job(0, PING, "", {"texts": []}, {}, math.inf))
            elif fields["kind"] == "drop":
                self._drop(fields["number"])
            elif fields["kind"] == "load":
                Thread(target=self._load, args=(fields["name"], fields["number"]), daemon=True).start()
        os._exit(0)  # the HTTP process has ended: nobody waits for what is being computed

    def _drop(self, number: int) -> None:
        if (job := self._jobs.pop(number, None)) is not None:
            job.gone = True
            self._waiting.drop(job)

    def _load(self, name: str, number: int | None = None) -> None:
        """Load a model, or load it again while the old one still answers; then swap them."""
        start = time.monotonic()
        try:
            model = load(self.settings.models[name], device=self.settings.device)
            facts = facts_of(model)
        except Exception as error:
            told = str(error) if isinstance(error, QkvError) else f"{type(error).__name__}: {error}"
            self._send({"kind": "failed", "name": name, "number": number, "message": told})
            return
        self._models[name] = model
        if number is not None:
            gc.collect()  # the parts of a model refer to each other, so the old one goes only now
        facts["load_seconds"] = round(time.monotonic() - start, 3)
        self._send({"kind": "model", "name": name, "number": number, "facts": facts})

    def _check(self, job: Job) -> bool:
        """Refuse a job that nobody waits for, that has too many tokens, or whose model is not there."""
        if job.verb == PING:
            self._send({"kind": "pong"})
            return False
        if not job.wanted:
            self._end({"kind": "late", "number": job.number})
            return False
        model = self._models.get(job.model)
        if model is None:
            self._refuse(job, 503, f"the model {job.model} is not loaded")
            return False
        try:
            job.extra |= self._counted(job, model)
        except Exception as error:
            self._fail(job, error)
            return False
        return True

    def _counted(self, job: Job, model: Model) -> dict[str, Any]:
        """Count the tokens of a job whose length comes near a limit, or whose client wants to know."""
        most = self.settings.tokens
        # a text has at most as many tokens as bytes: a cost of 1 stands for 4 characters of up to 4 bytes
        if model.tokenizer is None or (16 * job.cost <= most and "usage" not in job.extra):
            return {}
        texts = texts_of(job.columns, job.options)
        if (count := sum(map(len, model.tokenizer.encode(texts).ids))) > most:
            raise UsageError(f"the request has {count:,} tokens, and the limit is {most:,}")
        return {"tokens": count} if "usage" in job.extra else {}

    def _answer(self, jobs: list[Job]) -> None:
        """Answer jobs together; if that fails, one by one, so that one client's mistake stays its own."""
        if not jobs or self._joins(jobs):
            return
        start = time.monotonic()
        try:
            found, said = self._computed(jobs)
        except Stopped:
            for job in jobs:
                self._end({"kind": "late", "number": job.number})
        except Exception as error:
            if len(jobs) == 1:
                self._fail(jobs[0], error)
                return
            for job in jobs:
                self._answer([job])
        else:
            took = time.monotonic() - start
            batch: dict[str, Any] = {"texts": sum(job.size for job in jobs), "jobs": len(jobs), "seconds": took}
            batch |= {"cost": sum(job.cost for job in jobs), "verb": jobs[0].verb, "model": jobs[0].model}
            for number, (job, answers) in enumerate(parted(jobs, found)):
                told = said if len(jobs) == 1 else self._cut(job) if said else []
                if job.extra.get("stream"):
                    for index, one in enumerate(answers):
                        self._send({"kind": "piece", "number": job.number, "index": index, "text": one["generated"]})
                self._give(job, answers, told, batch if number == 0 else None)

    def _joins(self, jobs: list[Job]) -> bool:
        """Let requests to generate join those that are being generated, if their settings allow it."""
        model = self._models[jobs[0].model]
        if jobs[0].verb != "generate":
            return False
        for job in jobs:
            try:
                if not can_join(model, job.options):
                    return False
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # they quote the text, and nothing of it may be in the log
                    self._generations.add(model, job, self.settings.new_tokens)
            except Exception as error:
                self._fail(job, error)
        return True

    def _generate(self) -> None:
        """Generate one more token of every text."""
        try:
            for task, piece in self._generations.step():
                number = task.job.number
                if piece is not None:
                    self._send({"kind": "piece", "number": number, "index": piece.number, "text": piece.text})
                elif task.left < 0:
                    self._end({"kind": "late", "number": number})
                else:
                    self._give(task.job, task.answers(), [], task.batch())
        except Exception as error:
            for job in self._generations.clear():
                self._fail(job, error)

    def _give(self, job: Job, answers: list[Any], warned: list[str], batch: dict[str, Any] | None) -> None:
        """Send the answer to a job; `batch` tells the HTTP process how long it took, once for each batch."""
        fields = {"kind": "answer", "number": job.number, "extra": job.extra, "warnings": warned}
        fields |= {} if batch is None else {"batch": batch}
        self._end(fields, [to_json(one, inf_nan_mode="null") for one in answers])

    def _computed(self, jobs: list[Job]) -> tuple[list[Any], list[str]]:
        """Return the answers and the library's warnings."""
        first = jobs[0]

        def progress(_: int) -> None:
            if not any(job.wanted for job in jobs):
                raise Stopped

        options = self._bounded(first) | ({"progress": progress} if first.verb in WATCHED else {})
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = VERBS[first.verb](self._models[first.model], joined(jobs), options)
        said = [
            str(one.message)
            for one in caught
            if issubclass(one.category, UserWarning) and not issubclass(one.category, UnknownText)
        ]
        if first.extra.get("truncate") is False and any(issubclass(one.category, Shortened) for one in caught):
            limit = self._models[first.model].max_length
            raise UsageError(f"a text is longer than the {limit} tokens that this model reads: set truncate to cut it")
        return found, said

    def _bounded(self, job: Job) -> dict[str, Any]:
        """Return the options, with a limit where the model's own would be higher than that of the server."""
        most = self.settings.new_tokens
        if job.verb != "generate" or "max_length" in job.options or usual_length(self._models[job.model]) <= most:
            return job.options
        return job.options | {"max_length": most}

    def _cut(self, job: Job) -> list[str]:
        """Return the warning about texts of a job that was computed with others, some of which were cut."""
        model = self._models[job.model]
        limit, texts = model.max_length, job.columns["texts"]
        if limit is None or model.tokenizer is None or len(job.columns) > 1:
            return []
        count = sum(len(ids) > limit for ids in model.tokenizer.encode(texts).ids)
        return [f"{count} of {len(texts)} texts were cut to {limit} tokens"] if count else []

    def _fail(self, job: Job, error: Exception) -> None:
        if isinstance(error, QkvError):
            self._refuse(job, 422 if isinstance(error, UsageError) else 500, str(error))
            return
        # Where it failed, but not what the error says: that may quote the text.
        print(f"{type(error).__name__} in a request to {job.verb}:", file=sys.stderr)  # noqa: T201
        traceback.print_tb(error.__traceback__)
        self._refuse(job, 500, "the model failed on this request; the server's log has the reason")

    def _refuse(self, job: Job, status: int, message: str) -> None:
        self._end({"kind": "refused", "number": job.number, "status": status, "message": message})

    def _end(self, fields: dict[str, Any], parts: list[bytes] | None = None) -> None:
        """Send the last frame of a job."""
        self._jobs.pop(fields["number"], None)
        self._send(fields, parts)

    def _send(self, fields: dict[str, Any], parts: list[bytes] | None = None) -> None:
        data = frames.pack(fields, parts or ())
        try:
            with self._sending:
                self._link.sendall(data)
        except OSError:
            os._exit(0)


def _job(fields: dict[str, Any], parts: list[bytes]) -> Job:
    names = ("number", "verb", "model", "deadline", "extra")
    columns, options = (from_json(part) for part in parts)
    return Job(columns=columns, options=options, **{name: fields[name] for name in names})


def main() -> None:
    """Run on the socket that the supervisor opened."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole group: the HTTP process drains first
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Compute(socket.socket(fileno=int(sys.argv[1]))).run()


if __name__ == "__main__":
    main()
