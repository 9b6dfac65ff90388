"""Compiling the CPU engine, and choosing the variant for a processor."""

from __future__ import annotations

import os
import shutil

import pytest

from qkv.native import build, library

needs_compiler = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")


@pytest.fixture
def sources(tmp_path, monkeypatch):
    for name in (*build.SOURCES, *build.HEADERS):
        shutil.copy(build.HERE / name, tmp_path)
    monkeypatch.setattr(build, "HERE", tmp_path)
    return tmp_path


def test_without_a_compiler_or_elsewhere_nothing_is_compiled(sources, monkeypatch):
    monkeypatch.setattr(build.shutil, "which", lambda _: None)
    monkeypatch.delenv("CXX", raising=False)
    assert build.compile_all() == []
    monkeypatch.undo()
    monkeypatch.setattr(build.platform, "machine", lambda: "aarch64")
    assert build.compile_all() == []


def test_a_compiler_that_fails_leaves_nothing_behind(sources, monkeypatch, capsys):
    monkeypatch.setenv("CXX", "/bin/false")
    assert build.compile_all() == []
    assert "was not compiled" in capsys.readouterr().err
    assert sorted(file.name for file in sources.iterdir()) == sorted([*build.SOURCES, *build.HEADERS])


@needs_compiler
@pytest.mark.slow
def test_only_changed_sources_are_compiled_again(sources, monkeypatch):
    (made,) = [build._compile("g++", "avx2")]
    assert made is not None
    before = made.stat().st_mtime_ns
    assert build._compile("g++", "avx2") == made
    assert made.stat().st_mtime_ns == before
    os.utime(sources / "tiles.h", (made.stat().st_mtime + 5,) * 2)
    assert build._compile("g++", "avx2") == made
    assert made.stat().st_mtime_ns != before


@pytest.mark.parametrize(
    ("flags", "chosen"),
    [
        ("avx512", "avx512"),
        ("avx2vnni", "avx2vnni"),
        ("avx2", "avx2"),
        (None, None),
    ],
)
def test_the_best_variant_that_the_processor_has_is_chosen(tmp_path, monkeypatch, flags, chosen):
    has = frozenset(["fpu", "sse2"] + (build.VARIANTS[flags][1].split() if flags else []))
    monkeypatch.setattr(library, "_flags", lambda: has)
    monkeypatch.setattr(library, "file_of", lambda name: tmp_path / name)
    assert library.variant() is None
    for name in build.VARIANTS:
        (tmp_path / name).touch()
    assert library.variant() == chosen
    monkeypatch.setenv("QKV_NATIVE", "avx512")
    assert library.variant() == ("avx512" if chosen == "avx512" else None)
