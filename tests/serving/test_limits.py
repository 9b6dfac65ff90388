"""What is refused, with which status, and what the message says."""

from __future__ import annotations

import base64
import io
import json
import random
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from qkv.common.errors import QkvError
from qkv.serving import start
from qkv.serving.app import WEB
from qkv.serving.run import bind
from tests.serving.server import Server, served

KEY = "a-key-of-the-tests"
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def small(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with small limits and a key; one of its models cannot be loaded."""
    broken = tmp_path_factory.mktemp("broken") / "broken"
    broken.mkdir()
    (broken / "config.json").write_text("{}")
    limits = {"body": 4000, "texts": 4, "characters": 500, "tokens": 60, "new-tokens": 20}
    options = [word for name, value in limits.items() for word in (f"--max-{name}", value)]
    place = tmp_path_factory.mktemp("small")
    with served(place, folders["words"], folders["writer"], broken, "--host", "0.0.0.0", *options, key=KEY) as found:
        yield found


def post(server: Server, path: str, body: bytes | str, **headers: str) -> httpx.Response:
    data = body.encode() if isinstance(body, str) else body
    return server.client.post(path, content=data, headers=JSON | headers)


@pytest.mark.parametrize(
    ("path", "status", "body", "told"),
    [
        ("embed", 422, {"texts": ["a"] * 5}, "the request has 5 texts, and the limit is 4"),
        ("embed", 413, {"texts": ["a" * 501]}, "the request has 501 characters, and the limit is 500"),
        ("embed", 413, {"texts": ["a" * 4000]}, "the body is larger than 4,000 bytes, the limit"),
        ("embed", 422, {"texts": ["a " * 100]}, "the request has 102 tokens, and the limit is 60"),
        ("search", 422, {"texts": ["a"], "lines": ["a " * 100]}, "tokens, and the limit is 60"),
        ("generate", 422, {"texts": ["a"], "max_length": 21}, "max_length is 21, and this server generates at most 20"),
        ("embed", 422, {"texts": []}, "texts: list should have at least 1 item"),
        ("embed", 422, {"texts": "a"}, "texts: input should be a valid"),
        ("embed", 422, {"texts": ["a", None]}, "texts.1: input should be a valid string"),
        ("embed", 422, {"texts": ["a"], "oops": 1}, "oops: extra inputs are not permitted"),
        ("embed", 422, {"texts": ["a"], "pooling": "x"}, "pooling"),
        ("embed", 422, {}, "texts: field required"),
        ("fill", 422, {"texts": ["a [MASK]"], "top": 10**400}, "top: "),
        ("fill", 422, {"texts": ["a [MASK]"], "top": 0}, "top: input should be greater than or equal to 1"),
        ("fill", 422, {"texts": ["a"], "model": "writer"}, "the model writer cannot fill (it can generate"),
        ("embed", 404, {"texts": ["a"], "model": "x"}, "there is no model 'x' here (there are: words, writer, broken)"),
        ("embed", 503, {"texts": ["a"], "model": "broken"}, "the model broken could not be loaded"),
        ("similar", 422, {"texts": ["a"], "pairs": []}, "there are 1 texts and 0 pairs"),
        ("translate", 422, {"texts": ["a"]}, "no model here can translate"),
        ("generate", 422, {"texts": ["a"], "temperature": 2, "beam": 2}, "temperature changes nothing without sample"),
    ],
)
def test_a_message_names_the_limit(small: Server, path: str, status: int, body: dict[str, Any], told: str) -> None:
    response = post(small, f"/v1/{path}", json.dumps(body))
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert told.lower() in error["message"].lower()
    assert set(error) == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"{", 422),
        (b"[]", 422),
        (b"null", 422),
        (b'{"texts": ["\\ud800"]}', 422),
        (b'{"texts": ["\xff\xfe"]}', 422),
        (b'{"texts": ["a"], "normalize": NaN}', 422),
        (b'{"texts": [' + b"[" * 1500 + b"]" * 1500 + b"]}", 422),
        (b'{"texts": ["\\u0000 \\u202e a"]}', 200),
        (b'{"texts": ["a"], "model": "' + b"x" * 1000 + b'"}', 404),
        (b'{"texts": ["a"], "texts": ["b"]}', 200),
    ],
)
def test_strange_json_is_never_a_server_error(small: Server, body: bytes, status: int) -> None:
    assert post(small, "/v1/embed", body).status_code == status


def test_every_route_but_health_needs_the_key(small: Server) -> None:
    with httpx.Client(base_url=small.url) as stranger:
        assert stranger.get("/health").json() == {"status": "ok"}
        paths = set(small.client.get("/openapi.json").json()["paths"]) - {"/health"} | {"/docs", "/openapi.json"}
        paths |= {"/", "/nothing", *(f"/{file.relative_to(WEB)}" for file in WEB.rglob("*") if file.is_file())}
        for path in paths:
            answer = stranger.post(path, json={}) if path.startswith("/v1") else stranger.get(path)
            assert answer.status_code == 401, path
            assert answer.json()["error"]["code"] == "invalid_api_key"
        for wrong in ("Bearer x", f"Bearer {KEY}x", "Basic !", f"bearer{KEY}", "", KEY):
            assert stranger.get("/v1/models", headers={"authorization": wrong}).status_code == 401
        basic = base64.b64encode(f"me:{KEY}".encode()).decode()
        assert stranger.get("/v1/models", headers={"authorization": f"Basic {basic}"}).status_code == 200


def test_a_model_that_cannot_be_loaded_is_reported_and_the_others_serve(small: Server) -> None:
    states = {one["id"]: (one["state"], one["error"]) for one in small.client.get("/v1/models").json()["data"]}
    assert states["words"] == ("loaded", None)
    assert states["broken"][0] == "failed"
    assert states["broken"][1]
    assert any(line["event"] == "model failed to load" for line in small.lines())


def test_without_a_key_only_names_of_this_machine_are_served(server: Server) -> None:
    assert server.client.get("/v1/models", headers={"host": "attacker.example"}).status_code == 403
    assert server.client.get("/v1/models", headers={"host": "localhost:80"}).status_code == 200
    assert server.client.get("/v1/models", headers={"host": "[::1]:80"}).status_code == 200


def test_no_page_of_another_server_may_ask(server: Server) -> None:
    response = server.client.options(
        "/v1/embed", headers={"origin": "https://example.org", "access-control-request-method": "POST"}
    )
    assert "access-control-allow-origin" not in response.headers
    plain = server.client.post("/v1/embed", content=b'{"texts": ["a"]}', headers={"content-type": "text/plain"})
    assert plain.status_code == 415  # the kind that a browser sends to other servers without asking them


def test_safe_headers(server: Server) -> None:
    headers = server.client.get("/v1/models").headers
    assert "default-src 'self'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert "server" not in headers


def test_the_log_has_no_text_of_users(server: Server) -> None:
    server.ask("/v1/embed", texts=["hushhush"])
    server.client.get("/v1/hushhush")
    server.client.post("/v1/embed", json={"texts": ["hushhush"], "model": "hushhush"})
    server.ask("/v1/generate", model="writer", texts=["\u6697\u6697 hushhush"], max_length=2)  # unknown characters
    told = server.log.read_text()
    assert "hushhush" not in told
    assert "\u6697" not in told
    assert any(line["event"] == "request" and line.get("texts") == 1 for line in server.lines())


def test_an_image_may_be_longer_than_a_text(server: Server) -> None:
    image = pytest.importorskip("PIL.Image")
    stream = io.BytesIO()
    image.frombytes("RGB", (400, 400), random.Random(0).randbytes(480_000)).save(stream, "PNG")
    sent = base64.b64encode(stream.getvalue()).decode()
    assert len(sent) > 400_000
    for path in ("/v1/image", "/v1/look"):
        assert "but the model takes (3, 16, 16)" in server.refused(path, 422, model="pictures", texts=[sent])


def test_metrics_stats_and_models(server: Server) -> None:
    server.ask("/v1/embed", texts=["a", "b"])
    page = server.client.get("/metrics").text
    assert 'qkv_requests_total{route="/v1/embed",status="200"}' in page
    assert 'qkv_model_loaded{model="words"} 1.0' in page
    stats = server.client.get("/v1/stats").json()
    assert stats["requests"]["answered"] > 0
    assert 0 < stats["latency_ms"]["p50"] <= stats["latency_ms"]["p99"]
    found = {one["id"]: one for one in server.client.get("/v1/models").json()["data"]}
    assert found["reviews"]["verbs"][0] == found["reviews"]["task"] == "classify"
    assert found["pictures"]["verbs"] == ["image", "look"]
    assert found["writer"]["verbs"] == ["generate", "embed", "similar", "search", "look", "explain"]
    assert server.client.get("/v1/models/words").json()["mask"] == "[MASK]"
    assert server.client.get("/v1/models/nothing").status_code == 404


def test_docs_list_every_route(server: Server) -> None:
    page = server.client.get("/docs")
    assert "script-src" not in page.headers["content-security-policy"]
    assert "<script" not in page.text
    for path in server.client.get("/openapi.json").json()["paths"]:
        assert f" {path}</code>" in page.text


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nothing-here"], "nothing-here is not a folder (built-in models: en-de, "),
        (["en-de", "--host", "0.0.0.0"], "set an API key in QKV_API_KEY"),
        (["en-de", "--host", "0.0.0.0", "--api-key", "short"], "at least 8 characters"),
        (["en-de", "en-de"], "en-de is named twice"),
        (["en-de", "--cors", "example.org"], "--cors takes an origin such as https://example.org"),
        (["en-de", "--cors", "https://example.org/"], "not 'https://example.org/'"),
    ],
)
def test_wrong_usage_is_one_sentence(shell: Any, words: list[str], told: str) -> None:
    found = shell("serve", *words)
    assert found.code == 2
    assert told in found.err
    assert found.err.count("\n") == 1


def test_folders_of_the_same_name_are_refused(shell: Any, folders: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "words").symlink_to(folders["words"])
    found = shell("serve", folders["words"], tmp_path / "words")
    assert found.code == 2
    assert f"{folders['words']} and {tmp_path / 'words'} have the same name, words: rename one" in found.err


def test_a_uvicorn_without_what_the_server_overrides_is_refused(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    monkeypatch.delattr(HttpToolsProtocol, start.STARTS)  # as in 0.44
    found = shell("serve", "no-folder")
    assert found.code == 1
    assert "pip install 'qkv[serve]' 'uvicorn>=0.45'" in found.err
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert project.count('"uvicorn>=0.45"') == project.count('"uvicorn>=') == 2


def test_a_missing_extra_is_a_command_to_type(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    found = shell("serve", "en-de")
    assert found.code == 1
    assert found.err.endswith("qkv serve needs the package prometheus_client: pip install 'qkv[serve]'\n")


@pytest.mark.parametrize(
    ("host", "told"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("localhost", "http://localhost:80"),
        ("::1", "http://[::1]:80"),
        ("0.0.0.0", "http://127.0.0.1:80 and every other address of this machine"),
        ("::", "http://127.0.0.1:80 and every other address of this machine"),
    ],
)
def test_the_address_can_be_opened(host: str, told: str) -> None:
    assert start._url(host, 80) == told


def test_a_second_server_cannot_bind() -> None:
    with bind("127.0.0.1", 0) as place, pytest.raises(QkvError, match="Address already in use; --port 0"):
        bind("127.0.0.1", place.getsockname()[1])


def test_a_port_that_is_taken_is_one_sentence(shell: Any) -> None:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        place.listen()
        found = shell("serve", "en-de", "--port", str(place.getsockname()[1]))
    assert found.code == 1
    assert "cannot be opened: Address already in use" in found.err


def test_if_no_model_can_be_loaded_the_server_ends(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "config.json").write_text("{}")
    with served(tmp_path, broken, ready=False) as found:
        assert found.process.wait(60) == 1
        assert "no model could be loaded" in found.log.read_text()
        assert "Traceback" not in found.log.read_text()
