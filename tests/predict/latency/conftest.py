"""One tiny model of each kind, and a clock that makes every call take the same time."""

from __future__ import annotations

import itertools

import pytest
import torch

import qkv
from qkv.checkpoints.folder import Folder
from tests.contracts.entries import MODELS, make
from tests.predict.conftest import make_translator
from tests.predict.readers import make_reader
from tests.predict.writers import writer


def images():
    """A model of images."""
    return qkv.predict.Model(Folder(MODELS["vit-mini"], make(MODELS["vit-mini"])), device="cpu")


KINDS = {
    "classify": lambda: make_reader("classify", labels=("good", "bad")),
    "tag": lambda: make_reader("tag", labels=("O", "B-PER")),
    "answer": lambda: make_reader("span"),
    "embed": lambda: make_reader("mlm"),
    "generate": writer,
    "translate": lambda: make_translator("transformer-tiny"),
    "t5": lambda: make_translator("t5-small"),
    "rnn": lambda: make_translator("rnn-small"),
    "images": images,
}


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """A model folder of each kind."""
    place = tmp_path_factory.mktemp("latency")
    for name, build in KINDS.items():
        build().save(place / name)
    return place


@pytest.fixture
def tick(monkeypatch):
    """Make each call take 4 ms: the clock is read before and after it."""
    ticks = itertools.count()
    monkeypatch.setattr("qkv.predict.latency.timing.perf_counter", lambda: 0.004 * next(ticks))


@pytest.fixture(autouse=True)
def _same_threads():
    before = torch.get_num_threads()
    yield
    assert torch.get_num_threads() == before
