"""What the server counts: for Prometheus at /metrics, and the last seconds for people at /v1/stats."""

from __future__ import annotations

import math
import time
from collections import deque
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

WINDOW = 30.0  # seconds that /v1/stats looks back
SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)
TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Metrics:
    """Counts of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        own: dict[str, Any] = {"registry": self.registry}
        self._requests = Counter("qkv_requests", "Requests by route and status.", ["route", "status"], **own)
        self._seconds = Histogram(
            "qkv_request_seconds", "Time from the request's head to its last byte.", ["route"], buckets=SECONDS, **own
        )
        self._batch_texts = Histogram(
            "qkv_batch_texts", "Texts that were computed together.", ["verb"], buckets=TEXTS, **own
        )
        self._batch_seconds = Histogram(
            "qkv_batch_seconds", "Time to compute a batch.", ["verb"], buckets=SECONDS, **own
        )
        self._texts = Counter("qkv_texts", "Texts that were answered.", ["model", "verb"], **own)
        self._generated = Counter("qkv_generated_tokens", "Tokens that were generated.", ["model"], **own)
        self._restarts = Counter(
            "qkv_compute_restarts", "Times that the compute process ended and was started again.", **own
        )
        self._loaded = Gauge("qkv_model_loaded", "1 if the model answers, else 0.", ["model"], **own)
        self._pending = Gauge("qkv_pending_requests", "Requests that wait or are computed.", **own)
        self._begun = time.monotonic()
        self._recent: deque[tuple[float, float]] = deque()  # when requests were answered, and how long each took
        self._recent_texts: deque[tuple[float, int]] = deque()
        self._recent_tokens: deque[tuple[float, int]] = deque()
        self.answered = self.refused = self.failed = 0

    def count(self, route: str, status: int, seconds: float, *, work: bool) -> None:
        """Count a request; `work` is one for a model."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)
        if not work:
            return
        self.answered += status < 400
        self.refused += status == 429
        self.failed += status >= 500
        if status < 400:
            self._recent.append((time.monotonic(), seconds))
            self._forget()

    def watch(self, fields: dict[str, Any]) -> None:
        """Count what the compute process reports."""
        if "batch" in fields:
            batch = fields["batch"]
            self._batch_texts.labels(batch["verb"]).observe(batch["texts"])
            self._batch_seconds.labels(batch["verb"]).observe(batch["seconds"])
            self._texts.labels(batch["model"], batch["verb"]).inc(batch["texts"])
            self._recent_texts.append((time.monotonic(), batch["texts"]))
            if tokens := batch.get("generated", 0):
                self._generated.labels(batch["model"]).inc(tokens)
                self._recent_tokens.append((time.monotonic(), tokens))
            self._forget()
        elif fields["kind"] == "ended":
            self._restarts.inc()
        elif fields["kind"] in ("model", "failed"):
            self._loaded.labels(fields["name"]).set(fields["kind"] == "model")

    def page(self, pending: int) -> bytes:
        """Return what Prometheus reads."""
        self._pending.set(pending)
        return generate_latest(self.registry)

    def stats(self, pending: int) -> dict[str, Any]:
        """Return throughput and latency of the last seconds."""
        self._forget()
        uptime = time.monotonic() - self._begun
        span = max(1.0, min(WINDOW, uptime))
        taken = sorted(seconds for _, seconds in self._recent)
        return {
            "uptime_seconds": round(uptime, 1),
            "window_seconds": round(span, 1),
            "requests": {"answered": self.answered, "refused": self.refused, "failed": self.failed, "pending": pending},
            "requests_per_second": round(len(taken) / span, 2),
            "texts_per_second": round(sum(count for _, count in self._recent_texts) / span, 2),
            "generated_tokens_per_second": round(sum(count for _, count in self._recent_tokens) / span, 2),
            "latency_ms": {f"p{share}": _share(taken, share) for share in (50, 90, 99)},
        }

    def _forget(self) -> None:
        old = time.monotonic() - WINDOW
        for some in (self._recent, self._recent_texts, self._recent_tokens):
            while some and some[0][0] < old:
                some.popleft()


def _share(ordered: list[float], share: int) -> float | None:
    """Return a percentile in milliseconds, by nearest rank."""
    if not ordered:
        return None
    return round(1000 * ordered[max(0, math.ceil(len(ordered) * share / 100) - 1)], 2)
