"""`qkv latency` on the command line: its table, its JSON, its picture and its errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from qkv.cli import completion
from qkv.predict.latency.engines import ENGINES

QUICK = ("--device", "cpu", "--engine", "torch", "--batch", "1,2", "--length", "4", "--rounds", 1, "--seconds", 0.001)


def test_the_table_ends_with_a_recommendation(shell: Any, bert_folder: Path) -> None:
    said = shell("latency", bert_folder, *QUICK)
    assert (said.code, said.err) == (0, "")
    head, times, engines, advice = said.out.strip().split("\n\n")
    assert head.startswith(f"{bert_folder}: embed; cpu, ")
    rows = [line.split() for line in times.splitlines()]
    assert rows[0] == ["batch", "tokens", "engine", "calls", "p50", "ms", "p99", "ms", "answers/s", "tokens/s"]
    assert [row[:3] for row in rows[1:]] == [["1", "4", "torch"], ["2", "4", "torch"]]
    assert all(float(row[4]) <= float(row[5]) for row in rows[1:])
    assert engines.splitlines()[1].split() == ["torch", "torch", "1.0000"]
    assert advice.startswith("Use torch, ")


def test_missing_engines_have_a_line_with_the_reason(
    shell: Any, bert_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QKV_NATIVE", "0")
    said = shell("latency", bert_folder, *QUICK, "--engine", "native")
    assert said.code == 0
    assert "\nnot measured: native: QKV_NATIVE=0 switches it off\n" in said.out


def test_json_is_one_line(shell: Any, bert_folder: Path) -> None:
    said = shell("latency", bert_folder, *QUICK, "--json", "--threads", 1)
    assert said.out.count("\n") == 1
    found = json.loads(said.out)
    assert found["threads"] == 1
    assert [(one["batch"], one["length"]) for one in found["timings"]] == [(1, 4), (2, 4)]


def test_the_picture(shell: Any, bert_folder: Path, tmp_path: Path) -> None:
    said = shell("latency", bert_folder, *QUICK, "--svg", tmp_path / "a.svg")
    assert said.code == 0
    assert said.err == f"picture: {tmp_path / 'a.svg'}\n"
    assert (tmp_path / "a.svg").read_text().startswith("<svg ")


def test_a_place_for_the_picture_is_checked_first(
    shell: Any, bert_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qkv.predict.latency.measure.latency", lambda *_, **__: pytest.fail("measured"))
    said = shell("latency", bert_folder, *QUICK, "--svg", tmp_path / "no" / "a.svg")
    assert said.code == 2
    assert "its folder does not exist" in said.err
    assert said.out == ""


@pytest.mark.parametrize("text", ["", "x", "1.5", "1,", "-1", "1 2", "9999999999", "²"])
@pytest.mark.parametrize("name", ["--batch", "--length"])
def test_sizes_that_are_no_numbers(shell: Any, bert_folder: Path, name: str, text: str) -> None:
    said = shell("latency", bert_folder, f"{name}={text}")
    assert said.code == 2
    assert f"{name} takes whole numbers such as 1,8,32" in said.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--batch", "0"), "a batch size must be from 1 to 4,096, got 0"),
        (("--length", "13"), "a length must be from 1 to 12, got 13"),
        (("--engine", "onnx"), "unknown engine 'onnx'; did you mean"),
        (("--seconds", "inf"), "seconds must be at least 0 and below 3601"),
        (("--threads", "0"), "threads must be at least 1"),
        (("--new-tokens", "3"), "this model generates no text"),
    ],
)
def test_options_that_are_not_allowed(shell: Any, bert_folder: Path, options: tuple[str, ...], message: str) -> None:
    said = shell("latency", bert_folder, "--device", "cpu", *options)
    assert (said.code, said.out) == (2, "")
    assert message in said.err


def test_the_tab_key_knows_the_engines() -> None:
    assert list(ENGINES) == list(completion.ENGINES)
    assert completion.engines("native") == ["native", "native-int8"]
