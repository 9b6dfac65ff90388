"""The wheel as a user gets it: built, installed somewhere else, run from nowhere near the source."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from qkv.native.build import VARIANTS
from qkv.version import __version__

ROOT = Path(__file__).resolve().parents[1]
pytest.importorskip("hatchling")


def pip(*arguments):
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *map(str, arguments)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", folder, ".")
    (file,) = folder.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def site(wheel):
    folder = wheel.parent / "site"
    pip("install", "--no-deps", "--no-index", "--target", folder, wheel)
    return folder


@pytest.fixture
def run(site, tmp_path):
    """Run a program with the installed package, from an empty folder."""

    def call(*command):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        environment = {**kept, "PYTHONPATH": str(site)}
        result = subprocess.run(
            list(map(str, command)),
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        return result.stdout

    return call


def test_the_wheel_holds_the_package_its_types_and_its_licence(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    sources = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src" / "qkv").rglob("*.py")}
    compiled = [name for name in names if name.endswith(".so")]
    assert len(compiled) in (0, len(VARIANTS))  # none without g++
    tag = sysconfig.get_platform().replace("-", "_").replace(".", "_") if compiled else "any"
    assert wheel.name == f"qkv-{__version__}-py3-none-{tag}.whl"
    assert sources <= set(names)
    assert {"qkv/native/encoder.cpp", "qkv/native/tiles.h"} <= set(names)
    assert "qkv/py.typed" in names
    models = (path for path in (ROOT / "src" / "qkv" / "pretrained").rglob("*") if path.is_file())
    assert {str(path.relative_to(ROOT / "src")) for path in models} <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not [name for name in names if name.startswith("tests") or "__pycache__" in name]


def test_the_installed_command_answers(run, site):
    found = json.loads(run(site / "bin" / "qkv", "info", "bert-tiny", "--json"))
    assert found["family"] == "bert"


def test_the_installed_module_is_the_one_that_answers(run, site):
    assert run(sys.executable, "-m", "qkv", "--version") == f"qkv {__version__}\n"
    where = Path(run(sys.executable, "-c", "import qkv; print(qkv.__file__)").strip())
    assert where.is_relative_to(site)


def test_without_a_compiler_the_wheel_is_for_every_platform(tmp_path, monkeypatch):
    source = tmp_path / "source"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(".*", "tests", "docs", "*.so", "carry", "runs"))
    monkeypatch.setenv("CXX", "/bin/false")
    pip("wheel", "--no-deps", "--no-build-isolation", "-w", tmp_path, source)
    (file,) = tmp_path.glob("*.whl")
    assert file.name == f"qkv-{__version__}-py3-none-any.whl"
    assert not [name for name in zipfile.ZipFile(file).namelist() if name.endswith(".so")]
