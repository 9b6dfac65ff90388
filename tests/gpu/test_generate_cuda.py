"""`generate` on the GPU: the command and the verb take recorded steps, and give the texts of the CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import qkv
from qkv import predict
from qkv.predict import Model
from tests.cli.conftest import shell as shell
from tests.gpu.device import DEVICE, ON_CUDA
from tests.predict.writers import writer

pytestmark = pytest.mark.gpu
PROMPTS = ["The small cat", "Two dogs", "I", "The old queen sees", "A red house", "It is"]
ASKED: dict[str, dict[str, Any]] = {
    "as the folder says": {},
    "greedy": {"sample": False},
    "sampled": {"temperature": 1.3, "top_k": 20, "top_p": 0.9, "min_p": 0.01, "samples": 3},
    "stopped": {"temperature": 1.3, "stop": ["e", "\n"]},
    "windowed": {"sample": False, "window": True, "max_length": 60},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("writer") / "gpt"
    writer("char").save(place)
    return place


@pytest.mark.parametrize("asked", ASKED)
def test_texts_are_those_of_the_cpu_whatever_the_batch(folder: Path, asked: str) -> None:
    options = {"max_length": 20, "seed": 4} | ASKED[asked]
    mine, theirs = qkv.load(folder, device=DEVICE), qkv.load(folder, device="cpu")
    wanted = theirs.generate(PROMPTS, **options)
    for found in (mine.generate(PROMPTS, **options), [mine.generate([prompt], **options)[0] for prompt in PROMPTS]):
        for one, other in zip(found, wanted, strict=True):
            assert (one.text, one.ended, one.tokens) == (other.text, other.ended, other.tokens)
            assert [another.text for another in one.others] == [another.text for another in other.others]
            assert one.token_scores == pytest.approx(other.token_scores, abs=1e-2)
    recorded(mine)


@pytest.mark.parametrize("asked", ["as the folder says", "greedy", "stopped"])
def test_a_stream_is_recorded_too(folder: Path, asked: str) -> None:
    options, heard = {"max_length": 20, "seed": 4} | ASKED[asked], []
    model = qkv.load(folder, device=DEVICE)
    (found,) = model.generate(PROMPTS[:1], on_text=heard.append, **options)
    assert "".join(heard) == found.text == qkv.load(folder, device="cpu").generate(PROMPTS[:1], **options)[0].text
    recorded(model)


@pytest.mark.parametrize("arguments", [[], ["--greedy"], ["--samples", "2"], ["--dtype", "bfloat16"]], ids=" ".join)
def test_the_command_takes_recorded_steps(
    shell: Callable[..., Any],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
) -> None:
    if not ON_CUDA and "--dtype" in arguments:
        pytest.skip("bf16 products need CUDA here")
    loaded: list[Model] = []
    first = predict.load

    def load(*given: Any, **more: Any) -> Model:
        loaded.append(first(*given, **more))
        return loaded[-1]

    monkeypatch.setattr(predict, "load", load)
    answer = shell("generate", folder, PROMPTS[0], "--max-length", "20", "--device", DEVICE, *arguments)
    assert answer.code == 0
    assert answer.out.strip()
    recorded(loaded[0])


def recorded(model: Model) -> None:
    """Assert that steps of fixed shapes were taken, and only on the GPU."""
    module: Any = model.module
    assert bool(len(module.steppers)) == ON_CUDA
