"""Every shipped recipe on a GPU, in every mode of train.compile, against the eager run on the CPU in fp32."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from qkv.recipes.shelf import shipped
from tests.gpu.device import ON_CUDA
from tests.gpu.recipe_pool import COMPILED, RESUMED, Runs, result

pytestmark = pytest.mark.gpu
NEVER_RECORDED = {"rnn-translate", "word2vec", "glove", "sentence-embeddings"}
ROOM = 0.01  # measured: at most 0.0027 (regress), of most recipes below 0.0005
ROOMS = {"image": 0.03}  # measured: 0.018, with four images of random pixels a batch


@pytest.mark.parametrize("name", shipped())
@pytest.mark.parametrize("mode", ["no", "record", *COMPILED])
def test_losses_are_those_of_the_cpu(
    name: str, mode: str, runs: Runs, record_property: Callable[[str, object], None]
) -> None:
    found, wanted = result(runs, name, mode), result(runs, name, "cpu")
    mine, theirs = (x["losses"] + x["valid"] for x in (found, wanted))
    far = max(abs(a - b) / max(abs(b), 1.0) for a, b in zip(mine, theirs, strict=True))
    record_property("largest relative difference", f"{far:.2g}")  # --junitxml=FILE shows it
    assert far < ROOMS.get(name, ROOM), f"{mine}\n{theirs}"
    assert max(theirs[:-1]) > min(theirs[:-1])  # something is learned, or nothing is said
    if ON_CUDA:
        assert found["counted"]
        assert found["recorded"] == (mode != "no" and name not in NEVER_RECORDED)


@pytest.mark.parametrize("name", shipped())
def test_its_own_dropout_stays_finite(name: str, runs: Runs) -> None:
    found = result(runs, name, "dropout")
    assert len(found["losses"]) == 10
    assert all(map(math.isfinite, found["losses"] + found["valid"]))


@pytest.mark.parametrize("name", RESUMED)
@pytest.mark.parametrize("mode", ["resume-no", "resume-record"])
def test_resuming_continues_bit_for_bit(name: str, mode: str, runs: Runs) -> None:
    found = result(runs, name, mode)
    assert found["compared"] > 2
    assert found["losses"] == found["whole"]
    assert not found["unlike"]
