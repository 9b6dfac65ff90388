"""`qkv evaluate` takes the keys that `qkv train` takes and that messages name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import qkv
from qkv.runs.trained_on import reading_for
from tests.runs.test_strange_data import run


def test_the_keys_of_evaluate_are_those_of_train(bert_folder: Path, tmp_path: Path, shell: Callable[..., Any]) -> None:
    rows = "".join(f"cat {i},{'ab'[i % 2]},{'ba'[i % 2]}\n" for i in range(12))
    (tmp_path / "a.csv").write_text("text,label,other\n" + rows)
    run(bert_folder, "classify", tmp_path / "a.csv")
    model = qkv.load(tmp_path / "run", device="cpu")
    for key in ("label", "data.label"):
        assert reading_for(model, str(tmp_path / "run"), {key: "other"}, lambda _: None).data.label == "other"
        asked = ["evaluate", tmp_path / "run", tmp_path / "a.csv", "--set", f"{key}=other", "--device", "cpu", "--json"]
        assert shell(*asked).code == 0
    (tmp_path / "a.csv").write_text("text,label\ncat,a\n,b\n")
    asked = ["evaluate", tmp_path / "run", tmp_path / "a.csv", "--device", "cpu"]
    stopped = shell(*asked)
    assert (stopped.code, stopped.out) == (1, "")
    remedy = "correct it, or set data.skip_bad=true to skip such rows"
    assert stopped.err == f"qkv: {tmp_path}/a.csv:3: the text is empty; {remedy}\n"
    for option in (["--skip-bad"], ["--set", "data.skip_bad=true"]):
        assert shell(*asked, *option).err == f"qkv: 1 row left out ({tmp_path}/a.csv:3: the text is empty)\n"
