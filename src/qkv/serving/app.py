"""The routes: the verbs, the models, the state of the server, and the page."""

from __future__ import annotations

import mimetypes
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse, JSONResponse, RedirectResponse
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from qkv.serving import compatible, schema
from qkv.serving.asking import Asking, Route
from qkv.serving.docs import page
from qkv.serving.errors import Refused
from qkv.serving.guard import App, Guard, Message, Receive, Send, log
from qkv.serving.limits import Limits
from qkv.serving.metrics import Metrics
from qkv.serving.openapi import described, responses
from qkv.serving.settings import Settings
from qkv.serving.supervisor import ServedModel, Supervisor
from qkv.version import __version__

WEB = Path(__file__).parent / "web"
DOCS_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
FRAME = "frame.html"  # the page writes the pages of looks into it: their own policy lets only their own script run
FRAME_HEADERS = {
    "content-security-policy": "sandbox allow-scripts; default-src 'none'; script-src 'self' 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
    "x-frame-options": "SAMEORIGIN",
}
DESCRIPTION = "Every verb of qkv over HTTP. Answers are what `--json` prints and `to_dict()` returns in Python."


@dataclass(frozen=True)
class Served:
    """The application, and the compute process behind it."""

    app: App
    compute: Supervisor

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request."""
        await self.app(scope, receive, send)


def create_app(
    settings: Settings,
    limits: Limits | None = None,
    *,
    key: str | None = None,
    origins: Sequence[str] = (),
    log_text: bool = False,
) -> Served:
    """Make the server's application.

    Args:
        settings: of the compute process.
        limits: of requests.
        key: what clients must send; None for servers that only this machine reaches.
        origins: the other servers whose web pages may send requests.
        log_text: whether to write what users send into the log.
    """
    limits, metrics = limits or Limits(), Metrics()

    def watch(fields: dict[str, Any]) -> None:
        metrics.watch(fields)
        _tell(fields)

    compute = Supervisor(settings, limits, watch)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        compute.start()
        yield
        await compute.stop()

    app = FastAPI(
        title="qkv", version=__version__, description=DESCRIPTION, lifespan=lifespan, docs_url=None, redoc_url=None
    )
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(HTTPException, _http_error)
    asking = Asking(compute, limits, log_text=log_text)
    works = _add_verbs(app, asking) | compatible.add_routes(app, asking)
    _add_models(app, compute)
    _add_facts(app, compute, metrics)
    _add_page(app)
    guarded: App = Guard(
        _Shortcut(app, works),
        limits=limits,
        metrics=metrics,
        key=key,
        works=frozenset(works),
        check_room=compute.check_room,
    )
    return Served(_with_cors(guarded, origins) if origins else guarded, compute)


def _with_cors(app: App, origins: Sequence[str]) -> App:
    """Let the web pages of other servers send requests."""
    methods, headers = ["GET", "POST"], ["authorization", "content-type"]
    return CORSMiddleware(app, allow_origins=list(origins), allow_methods=methods, allow_headers=headers)


def _tell(fields: dict[str, Any]) -> None:
    """Log what happens in the compute process."""
    if fields["kind"] == "model":
        log("model loaded", model=fields["name"], seconds=fields["facts"]["load_seconds"])
    elif fields["kind"] == "failed":
        log("model failed to load", level=40, model=fields["name"], message=fields["message"])
    elif fields["kind"] == "unstarted":
        log("compute process failed to start", level=40, message=fields["message"])
    elif fields["kind"] == "ended":
        log("compute process ended; starting it again", level=40)
    elif fields["kind"] == "ready":
        log("ready")


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return JSONResponse(error.to_dict(), error.status, error.headers)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    said = {404: "there is no such route; /docs lists them", 405: f"this route does not take {request.method}"}
    refused = Refused(error.status_code, said.get(error.status_code, str(error.detail)), headers=error.headers)
    return await _refused(request, refused)


@dataclass(frozen=True)
class _Shortcut:
    """Calls the handlers of the routes that ask a model without FastAPI, which describes them and answers the rest.

    They read their bodies themselves, so there is nothing to inject. Looking for the route and injecting nothing took a
    quarter of what this process does for a request with one text (benchmarks/serve.py has such requests).
    """

    app: App
    works: Mapping[str, Route]

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request; the guard answers what is refused."""
        if scope["type"] != "http" or scope["method"] != "POST" or (route := self.works.get(scope["path"])) is None:
            await self.app(scope, receive, send)
            return
        response = await route(Request(scope, receive))
        await response(scope, receive, send)


def _add_verbs(app: FastAPI, asking: Asking) -> dict[str, Route]:
    """Add a route for each verb."""
    routes = {f"/v1/{verb}": asking.route(verb, kind) for verb, kind in schema.VERBS.items()}
    for (path, route), kind in zip(routes.items(), schema.VERBS.values(), strict=True):
        app.add_api_route(path, route, methods=["POST"], tags=["verbs"], **described(kind))
    return routes


def _add_models(app: FastAPI, compute: Supervisor) -> None:
    """Add the routes about models."""

    @app.get("/v1/models", tags=["models"], responses=responses(401, 403))
    async def models() -> dict[str, Any]:
        """List the models, and what each can do."""
        return {"object": "list", "data": [_about(one) for one in compute.models.values()]}

    @app.get("/v1/models/{name}", tags=["models"], responses=responses(401, 403, 404))
    async def model(name: str) -> dict[str, Any]:
        """Describe a model."""
        return _about(compute.find(name))

    @app.post("/v1/models/{name}/reload", tags=["models"], responses=responses(401, 403, 404, 409, 429, 503))
    async def reload(name: str) -> dict[str, Any]:
        """Load a model again from its folder. The old one answers until the new one is loaded."""
        return _about(await compute.reload(name))


def _about(model: ServedModel) -> dict[str, Any]:
    state = "loaded" if model.facts else "failed" if model.failure else "loading"
    common = {"id": model.name, "object": "model", "created": model.loaded, "owned_by": "qkv", "state": state}
    return common | {"verbs": [], "task": None, "family": None, "error": model.failure} | model.facts


def _add_facts(app: FastAPI, compute: Supervisor, metrics: Metrics) -> None:
    """Add the routes about the server."""

    @app.get("/health", tags=["server"])
    async def health() -> dict[str, str]:
        """Check that the HTTP process is running. Needs no API key."""
        return {"status": "ok"}

    @app.get("/ready", tags=["server"], responses=responses(401, 403, 503))
    async def ready() -> dict[str, Any]:
        """Check that the server can answer: loading is done, and at least one model is loaded."""
        loaded = [model.name for model in compute.models.values() if model.facts]
        if not compute.ready or not loaded:
            raise Refused(503, "the models are being loaded" if not compute.ready else "no model could be loaded")
        return {"status": "ready", "models": loaded}

    @app.get("/v1/stats", tags=["server"], responses=responses(401, 403))
    async def stats() -> dict[str, Any]:
        """Return throughput and latency over the last seconds."""
        return metrics.stats(compute.pending) | {"restarts": compute.restarts, "limits": compute.limits.to_dict()}

    @app.get("/metrics", tags=["server"], response_class=Response, responses=responses(401, 403))
    async def prometheus() -> Response:
        """Return all metrics in the format of Prometheus."""
        return Response(metrics.page(compute.pending), media_type="text/plain; version=0.0.4")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return Response(page(app.openapi()), media_type="text/html", headers={"content-security-policy": DOCS_POLICY})


def _add_page(app: FastAPI) -> None:
    """Add a route for each file of the page. Without a page, / leads to the list of routes."""
    files = [file for file in sorted(WEB.rglob("*")) if file.is_file()] if WEB.is_dir() else []
    for file in files:
        name = file.relative_to(WEB).as_posix()
        _add_file(app, "/" if name == "index.html" else f"/{name}", file)
    if not any(file.name == "index.html" for file in files):
        app.add_api_route("/", lambda: RedirectResponse("/docs"), include_in_schema=False, response_model=None)


def _add_file(app: FastAPI, path: str, file: Path) -> None:
    kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"

    # The frame has an origin of its own, so its script comes from another one.
    headers = {"cache-control": "no-cache", "cross-origin-resource-policy": "cross-origin"}
    headers |= FRAME_HEADERS if file.name == FRAME else {}

    async def send() -> Response:
        return FileResponse(file, media_type=kind, headers=headers)

    app.add_api_route(path, send, methods=["GET", "HEAD"], include_in_schema=False)
