"""Facts about files are found once, and again when the files change."""

from __future__ import annotations

import os
from pathlib import Path

from qkv.data import remembered as module
from qkv.data.remembered import remembered


def test_a_fact_is_found_again_when_a_file_or_a_setting_changes(tmp_path: Path) -> None:
    file, calls = tmp_path / "a.txt", list[str]()

    def fact(*how: object) -> int:
        def count() -> int:
            calls.append("read")
            return len(file.read_text())

        return remembered("characters", [f"{tmp_path}/*.txt"], count, *how)

    file.write_text("one")
    assert [fact(), fact(), len(calls)] == [3, 3, 1]
    file.write_text("three")
    assert [fact(), len(calls)] == [5, 2]
    os.utime(file, ns=(1, 1))
    assert [fact(), len(calls)] == [5, 3]
    (tmp_path / "b.txt").write_text("a file more")
    assert [fact(), len(calls)] == [5, 4]
    assert [fact("another way"), len(calls)] == [5, 5]


def test_only_some_facts_are_kept() -> None:
    for number in range(2 * module.MOST):
        assert remembered(f"fact {number}", ["phrasebook:train"], lambda number=number: number) == number
    assert len(module._FACTS) == module.MOST
