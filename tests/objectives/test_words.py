"""Negative sampling against a loop, and word vectors that learn."""

from __future__ import annotations

import math

import numpy as np
import torch

from qkv.common.batch import Words
from qkv.data.corruption import NoiseTable, cbow_contexts, skip_grams
from qkv.models.word2vec import Word2Vec, Word2VecConfig, build
from qkv.objectives import Cbow, SkipGram
from tests.objectives.shared import close, draw, only, vectors

NOISE = draw(6, 4, low=0, high=20, seed=5)
OUTPUTS = draw(6, low=0, high=20, seed=6)


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


@torch.no_grad()
def naive(model: Word2Vec, read: list[torch.Tensor], outputs: torch.Tensor) -> tuple[float, int]:
    total, right = 0.0, 0
    for v, output, noise in zip(read, outputs.tolist(), NOISE.tolist(), strict=True):
        if output == -100 or v is None:
            continue
        true = float(v @ model.outputs.weight[output])
        wrong = [float(v @ model.outputs.weight[word]) for word in noise if word != output]
        total -= math.log(sigmoid(true)) + sum(math.log(sigmoid(-score)) for score in wrong)
        right += all(true > score for score in wrong)
    return total, right


def test_skip_gram_against_the_loop() -> None:
    model, inputs = vectors(20), draw(6, low=0, high=20, seed=7)
    outputs = OUTPUTS.clone()
    outputs[2], outputs[4] = -100, NOISE[4, 1]  # one not asked for, one that is among its own noise
    found = only(SkipGram()(model, Words(inputs, outputs, NOISE)))
    total, right = naive(model, [model.inputs.weight[i] for i in inputs.tolist()], outputs)
    close(found.total, total, 1e-4)
    assert (found.count, found.sums["correct"]) == (5, right)


def test_cbow_against_the_loop() -> None:
    model, inputs = vectors(20), draw(6, 4, low=0, high=20, seed=8)
    inputs[0, 1:], inputs[1, 0], inputs[3] = -1, -1, -1
    read = [
        model.inputs.weight[[i for i in row if i >= 0]].mean(0) if max(row) >= 0 else None for row in inputs.tolist()
    ]
    found = only(Cbow()(model, Words(inputs, OUTPUTS, NOISE)))
    total, right = naive(model, read, OUTPUTS)  # type: ignore[arg-type]
    close(found.total, total, 1e-4)
    assert (found.count, found.sums["correct"]) == (5, right)


def test_words_of_a_kind_come_together() -> None:
    """Two vocabularies that never meet: after a little training, a word's nearest is of its own."""
    rng = np.random.default_rng(0)
    texts = [rng.integers(0, 5, 30) + 5 * kind for kind in (0, 1) for _ in range(30)]
    for objective, make in ((SkipGram(), skip_grams), (Cbow(), cbow_contexts)):
        torch.manual_seed(0)
        model = build(Word2VecConfig(vocab_size=10, dim=6))
        parts = [make(text, window=2, rng=rng) for text in texts]
        inputs, outputs = (torch.from_numpy(np.concatenate(side)) for side in zip(*parts, strict=True))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        for _ in range(60):
            noise = torch.from_numpy(NoiseTable(np.ones(10)).sample(rng, (len(outputs), 4)))
            loss = only(objective(model, Words(inputs, outputs, noise)))
            optimizer.zero_grad()
            (loss.total / loss.count).backward()
            optimizer.step()
        unit = torch.nn.functional.normalize(model.inputs.weight.detach(), dim=-1)
        nearest = (unit @ unit.T).fill_diagonal_(-2).argmax(-1)
        assert (nearest // 5 == torch.arange(10) // 5).all()
