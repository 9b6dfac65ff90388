"""docker/: its files against the repository and the options of `qkv serve`. No image is built."""

from __future__ import annotations

import configparser
import fnmatch
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main

from qkv.cli import serve
from qkv.serving.limits import Limits
from tests.serving.server import Server
from tests.tour.documents import ROOT

PLACE = ROOT / "docker"
COMMAND = typer.main.get_command(serve.app)


def steps() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile, each with its words."""
    lines = [line for line in (PLACE / "Dockerfile").read_text().splitlines() if not line.startswith("#")]
    whole = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [(line.split()[0], line.partition(" ")[2].strip()) for line in whole.splitlines() if line.strip()]


def of(name: str) -> list[str]:
    return [words for step, words in steps() if step == name]


def last_stage() -> list[tuple[str, str]]:
    found = steps()
    return found[max(number for number, (name, _) in enumerate(found) if name == "FROM") :]


def accepted(words: list[str]) -> dict[str, Any]:
    """Parse the words after `qkv serve`."""
    return dict(COMMAND.make_context("serve", list(words)).params)


def sent(path: str) -> bool:
    """Whether a file or folder goes to the builder: the last rule that fits decides."""
    lines = (PLACE / "Dockerfile.dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    verdict = True
    for rule in rules:
        pattern = rule.removeprefix("!")
        if fnmatch.fnmatch(path, pattern) or path.startswith(f"{pattern}/") or fnmatch.fnmatch(f"/{path}", pattern):
            verdict = rule.startswith("!")
    return verdict


def test_every_file_that_the_image_copies_is_there_and_is_sent() -> None:
    copied = [words.split()[:-1] for words in of("COPY") if not words.startswith("--from")]
    assert copied
    for path in (path for paths in copied for path in paths):
        assert (ROOT / path).exists(), path
        assert sent(path), path
    assert sent("src/qkv/version.py")
    for hidden in (".venv", "runs", "tests", "src/qkv/native/engine-avx2.so", "src/qkv/cli/__pycache__"):
        assert not sent(hidden), hidden


def test_the_build_copies_what_the_package_is_made_of() -> None:
    """An sdist has the same files, and can be built: the hook, the readme and the licence among them."""
    copied = {path for words in of("COPY") if not words.startswith("--from") for path in words.split()[:-1]}
    project = (ROOT / "pyproject.toml").read_text()
    (listed,) = re.findall(r"\[tool\.hatch\.build\.targets\.sdist\]\ninclude = (\[.*\])", project)
    assert set(json.loads(listed)) <= copied


def test_every_install_is_pinned() -> None:
    installs = [words for words in of("RUN") if "pip install" in words]
    assert len(installs) == 2
    assert all("-c constraints.txt" in words for words in installs)
    assert "'.[serve]'" in installs[-1]
    pinned = (ROOT / "constraints.txt").read_text()
    for package in ("torch", "fastapi", "uvicorn", "uvloop", "httptools", "prometheus-client", "pydantic"):
        assert re.search(rf"^{package}==", pinned, re.MULTILINE), package


def test_the_image_is_not_root_and_starts_the_server() -> None:
    stage = dict(last_stage())
    assert int(stage["USER"]) > 0
    program, verb, *words = json.loads(stage["ENTRYPOINT"])
    assert (program, verb) == ("qkv", "serve")
    given = accepted([*words, "/models/reviews"])
    assert (given["host"], given["port"], given["models"]) == ("0.0.0.0", int(stage["EXPOSE"]), ["/models/reviews"])
    with pytest.raises(Exception, match="No such option"):
        accepted([*words, "--nothing"])


def test_the_health_check_tells_a_server_from_none(server: Server) -> None:
    words = dict(last_stage())["HEALTHCHECK"]
    python, *rest = json.loads(words.partition("CMD ")[2])
    assert python == "python"

    def check(port: int) -> int:
        there = [word.replace("127.0.0.1:8000", f"127.0.0.1:{port}") for word in rest]
        return subprocess.run([sys.executable, *there], capture_output=True, check=False).returncode

    assert check(server.address[1]) == 0
    assert check(9) != 0


def test_the_compose_file() -> None:
    yaml = pytest.importorskip("yaml")
    (service,) = yaml.safe_load((PLACE / "compose.yaml").read_text())["services"].values()
    build = service["build"]
    assert (PLACE / build["context"]).resolve() == ROOT
    assert (ROOT / build["dockerfile"]).is_file()
    assert set(build["args"]) <= {words.partition("=")[0] for words in of("ARG")}
    assert accepted([*json.loads(dict(last_stage())["ENTRYPOINT"])[2:], *service["command"]])
    assert service["read_only"] is True
    assert service["tmpfs"] == ["/tmp"]
    assert service["cap_drop"] == ["ALL"]
    assert "QKV_API_KEY" in service["environment"]
    assert all(port.endswith(f":{dict(last_stage())['EXPOSE']}") for port in service["ports"])
    assert int(service["stop_grace_period"].removesuffix("s")) > Limits().deadline


def unit() -> configparser.ConfigParser:
    found = configparser.ConfigParser(interpolation=None, strict=False)
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read(PLACE / "qkv.service")
    return found


def test_the_systemd_unit_starts_the_server() -> None:
    service = unit()["Service"]
    program, verb, *words = shlex.split(service["ExecStart"])
    assert (Path(program).name, verb) == ("qkv", "serve")
    assert accepted(words)["host"] == "127.0.0.1"
    assert int(service["TimeoutStopSec"]) > Limits().deadline


def test_systemd_knows_every_line_of_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not here")

    def told(text: str) -> str:
        file = tmp_path / "qkv.service"
        file.write_text(text.replace("/opt/qkv/bin/qkv", "/bin/true"))
        done = subprocess.run(["systemd-analyze", "verify", file], capture_output=True, text=True, check=False)
        return "\n".join(line for line in done.stderr.splitlines() if "qkv.service" in line)

    text = (PLACE / "qkv.service").read_text()
    assert told(text) == ""
    assert "Unknown key" in told(text.replace("DynamicUser", "DynamicUsr"))
