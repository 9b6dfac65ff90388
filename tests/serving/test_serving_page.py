"""docs/serving.md: its commands run against a server, and its tables are those of the code."""

from __future__ import annotations

import ast
import dataclasses
import json
import math
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer.main

from qkv.cli import serve
from qkv.serving import schema
from qkv.serving.app import create_app
from qkv.serving.limits import Limits
from qkv.serving.metrics import Metrics
from qkv.serving.settings import Settings
from tests.serving.server import Server, served
from tests.serving.test_verbs import png
from tests.tour.documents import PACKAGE, ROOT, blocks, run_python

PAGE = (ROOT / "docs" / "serving.md").read_text("utf-8")
NAMES = ("reviews", "names", "reader", "writer", "pictures")
EXACT = ("en-de", "english", "translate", "health", "ready", "gpt")  # what every machine answers alike
COMMAND = typer.main.get_command(serve.app)


@pytest.fixture(scope="module")
def shown(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server that the page starts."""
    with served(tmp_path_factory.mktemp("page"), "en-de", "english", *(folders[name] for name in NAMES)) as found:
        yield found


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def rows(text: str) -> list[list[str]]:
    """Return the cells of a page's tables, without their heads."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    heads = {number - 1 for number, row in enumerate(cells) if set(row[0]) <= set("-: ")}
    return [row for number, row in enumerate(cells) if number not in heads and number - 1 not in heads]


def quoted(text: str) -> list[str]:
    return [" ".join(found.split()) for found in re.findall(r"`([^`]+)`", text)]


def conversations() -> list[tuple[str, str]]:
    """Return each curl command of the page and what is shown below it."""
    found = []
    for _, block in blocks(PAGE, "console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, answer = part.partition("\n")
            found.append((command, answer.strip()))
    return found


def curl(server: Server, command: str) -> httpx.Response:
    """Do what curl does."""
    command = command.replace("$(base64 -w0 cat.png)", png(9)).replace("http://127.0.0.1:8000", server.url)
    program, *words = shlex.split(command)
    assert program == "curl"
    data, headers, method, url = None, {}, "GET", ""
    while words:
        word = words.pop(0)
        if word == "--json":
            data, headers["content-type"], method = words.pop(0), "application/json", "POST"
        elif word == "-X":
            method = words.pop(0)
        elif word != "-N":
            url = word
    return server.client.request(method, url, content=data, headers=headers)


def alike(shown: Any, found: Any, exact: bool) -> bool:
    """Whether an answer has the form that is shown, and where `exact` also its words and, rounded, its numbers."""
    if isinstance(shown, dict):
        return list(shown) == list(found) and all(alike(shown[key], found[key], exact) for key in shown)
    if isinstance(shown, list):
        few = len(shown) if exact else 1
        return len(found) >= min(few, len(shown)) and all(
            alike(a, b, exact) for a, b in zip(shown[:few], found, strict=False)
        )
    if isinstance(shown, float):
        return isinstance(found, float) and (not exact or math.isclose(shown, found, abs_tol=1e-3))
    return type(shown) is type(found) and (not exact or shown == found)


@pytest.mark.parametrize(("command", "answer"), conversations())
def test_a_command_answers_as_shown(shown: Server, command: str, answer: str) -> None:
    response = curl(shown, command)
    wanted = 404 if '"error"' in answer else 200
    assert response.status_code == wanted, response.text
    if "stream" in command:
        events, found = ([line for line in text.splitlines() if line] for text in (answer, response.text))
        assert (events[-1], len(found)) == (found[-1], len(events))
        events, found = ([json.loads(line.removeprefix("data: ")) for line in some[:-1]] for some in (events, found))
        assert all(alike(*pair, exact=False) for pair in zip(events, found, strict=True)), found
    elif answer:
        exact = any(word in command for word in EXACT)
        assert alike(json.loads(answer.replace(", …]", "]")), response.json(), exact), response.text


def test_a_wrong_answer_is_not_alike() -> None:
    one = {"a": [0.5, 1.0], "b": "x"}
    assert alike(one, {"a": [0.5, 1.0, 2.0], "b": "x"}, exact=True)
    assert alike(one, {"a": [0.7], "b": "y"}, exact=False)
    for wrong in ({"a": [0.5], "b": "x"}, {"a": [0.5, 1.1], "b": "x"}, {"a": [0.5, 1.0], "b": "y"}, {"b": "x"}):
        assert not alike(one, wrong, exact=True)
    assert not alike(one, {"a": ["0.5"], "b": "x"}, exact=False)


def test_the_python_block_runs(shown: Server) -> None:
    pytest.importorskip("openai")
    run_python(PAGE.replace("http://127.0.0.1:8000", shown.url), "docs/serving.md", Path())


def test_every_command_line_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from serve import parser

    lines = [line.partition("  #")[0] for _, block in blocks(PAGE, "sh") for line in block.splitlines()]
    lines = [line.replace("QKV_API_KEY=a-long-secret ", "") for line in lines]
    served_lines = [shlex.split(line)[2:] for line in lines if line.startswith("qkv serve")]
    assert len(served_lines) >= 4
    for words in served_lines:
        COMMAND.make_context("serve", words)
    (measured,) = (shlex.split(line)[2:] for line in lines if line.startswith("python benchmarks/serve.py"))
    assert parser().parse_args(measured).rounds == 5
    with pytest.raises(Exception, match="No such option: --nothing"):
        COMMAND.make_context("serve", ["--nothing"])
    sys.modules.pop("serve")


def test_the_page_names_every_metric() -> None:
    told = {row[0].strip("`"): (row[1], tuple(quoted(row[2]))) for row in rows(section("Metrics"))}
    own = {name: value for name, value in vars(Metrics()).items() if hasattr(value, "_labelnames")}
    assert told == {one._name: (one._type, tuple(one._labelnames)) for one in own.values()}


def test_the_page_names_every_limit_with_its_default_and_option() -> None:
    options = {option.opts[0]: option for option in COMMAND.params if option.opts[0].startswith("--")}
    told = {}
    for row in rows(section("Limits")):
        name, value = quoted(row[0])[0], float(row[1].replace(",", ""))
        told[name] = value
        for option in quoted(row[2]):
            assert float(options.pop(option).default) == value, option
    assert told == dataclasses.asdict(Limits())
    panel = [name for name, option in options.items() if getattr(option, "rich_help_panel", None) == serve.LIMITS]
    assert panel == []


def test_the_page_names_every_route() -> None:
    app: Any = create_app(Settings({})).app
    routes = set(app.app.app.openapi()["paths"]) - {"/v1/models/{name}", "/v1/models/{name}/reload"}
    assert [path for path in sorted(routes) if f"`{path}`" not in PAGE and f"`GET {path}`" not in PAGE] == []
    told = {row[0].strip("`"): row[2] for row in rows(section("Routes")) if row[0].startswith("`/v1/")}
    assert set(told) == {f"/v1/{verb}" for verb in schema.VERBS}
    for verb, kind in schema.VERBS.items():
        named = set(quoted(told[f"/v1/{verb}"])) - set(schema.VERBS)
        assert named <= set(kind.model_fields), verb


def test_the_page_names_every_event_of_the_log() -> None:
    trees = [ast.parse(file.read_text("utf-8")) for file in (PACKAGE / "serving").glob("*.py")]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    logged = [call.args[0] for call in calls if isinstance(call.func, ast.Name) and call.func.id == "log"]
    words = {node.value for one in logged for node in ast.walk(one) if isinstance(node, ast.Constant)}
    assert set(quoted(section("Logs").partition("The events are")[2].partition("```")[0])) == words
