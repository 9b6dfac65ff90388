"""From the words of `qkv serve` to a running server. Nothing here imports torch: only the compute process does."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from qkv.common.errors import QkvError, UsageError
from qkv.data.hub import is_hub
from qkv.data.optional import need
from qkv.serving.limits import Limits
from qkv.serving.settings import Settings

PACKAGES = ("fastapi", "httptools", "prometheus_client", "pydantic", "uvicorn", "uvloop")
STARTS = "_start_asgi_task"  # of uvicorn's protocol, since 0.45
BUILT_IN = Path(__file__).parents[1] / "pretrained"
SHORTEST_KEY = 8
ORIGIN = re.compile(r"https?://[^/\s]+")  # what a browser sends: without a path, and without a slash at the end


@dataclass(frozen=True)
class Order:
    """What the command line asks for; see `qkv serve --help`."""

    models: Sequence[str] = ()
    host: str = "127.0.0.1"
    port: int = 8000
    api_key: str | None = None
    origins: Sequence[str] = ()
    device: str | None = None
    threads: int | None = None
    limits: Limits = field(default_factory=Limits)
    log_text: bool = False


def start(order: Order, say: Callable[[str], None]) -> None:
    """Serve until a signal stops it."""
    for package in PACKAGES:
        need(package, "qkv serve", "'qkv[serve]'")
    _check_uvicorn()
    from qkv.serving.app import create_app
    from qkv.serving.run import bind, serve

    models = named(order.models or built_in())
    _check_key(order)
    _check_origins(order.origins)
    place = bind(order.host, order.port)
    settings = Settings(models, order.device, order.limits.tokens, order.limits.new_tokens, order.threads)
    app = create_app(settings, order.limits, key=order.api_key, origins=order.origins, log_text=order.log_text)
    url = _url(order.host, place.getsockname()[1])
    told = f"serving {', '.join(models)} on {url} (open it in a browser; Ctrl-C stops)"
    with place:
        if not serve(app, order.limits, place, lambda: say(told)):
            raise QkvError("no model could be loaded; the lines above say why")


def _check_uvicorn() -> None:
    """Refuse a uvicorn without the method in which `Connection` learns which request runs."""
    from uvicorn import __version__
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    if not hasattr(HttpToolsProtocol, STARTS):
        raise QkvError(f"qkv serve does not know uvicorn {__version__}: pip install 'qkv[serve]' 'uvicorn>=0.45'")


def _url(host: str, port: int) -> str:
    """Return an address that a browser on this machine can open."""
    if host in ("0.0.0.0", "::"):
        return f"http://127.0.0.1:{port} and every other address of this machine"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def built_in() -> list[str]:
    """List the built-in models."""
    found = sorted(file.parent.name for file in BUILT_IN.glob("*/config.json"))
    if not found:
        raise UsageError("no model is built in here: name a model folder")
    return found


def named(models: Sequence[str]) -> dict[str, str]:
    """Name each model after its folder; the built-in ones and those of the Hub after themselves."""
    found: dict[str, str] = {}
    for model in models:
        if not (is_hub(model) or os.path.exists(model) or (BUILT_IN / model / "config.json").is_file()):
            raise UsageError(
                f"{model} is not a folder (built-in models: {', '.join(built_in())}); if it is a model on the Hugging "
                f"Face Hub, write hf:{model}"
            )
        last = model.rpartition("/")[2].partition("@")[0] if is_hub(model) else Path(os.path.abspath(model)).name
        name = last.removeprefix("hf:") or "model"
        if name in found:
            if found[name] == model:
                raise UsageError(f"{model} is named twice")
            raise UsageError(f"{found[name]} and {model} have the same name, {name}: rename one of the folders")
        found[name] = model
    return found


def _check_key(order: Order) -> None:
    if order.api_key is None and not _is_loopback(order.host):
        raise UsageError(
            f"{order.host} can be reached from other machines: set an API key in QKV_API_KEY, or leave out --host"
        )
    if order.api_key is not None and (len(order.api_key) < SHORTEST_KEY or not order.api_key.isascii()):
        raise UsageError(f"an API key must have at least {SHORTEST_KEY} characters, all of them ASCII")


def _check_origins(origins: Sequence[str]) -> None:
    for origin in origins:
        if origin != "*" and not ORIGIN.fullmatch(origin):
            raise UsageError(
                f"--cors takes an origin such as https://example.org or http://localhost:3000, not {origin!r}"
            )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
