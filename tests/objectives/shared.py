"""Tiny models and batches for the objectives, ours and theirs."""

from __future__ import annotations

from typing import Any

import torch

import qkv
from qkv.common.batch import Tokens
from qkv.common.outputs import LossOutput
from qkv.models import catalogue
from qkv.models.word2vec import Glove, Word2Vec, Word2VecConfig, build, build_glove
from qkv.objectives import Losses
from tests.contracts.entries import make, shrink
from tests.parity.test_hf import Case, theirs

V = 37
LENGTHS = [5, 1, 12, 7]
HEADS = ["mlm", "nsp", "classify", "regress", "tag", "span"]


def tiny(name: str, **changes: Any) -> Any:
    """A small model of a preset, every weight drawn, without dropout."""
    return make(shrink(catalogue.preset(name), **changes), train=True)


def bert() -> Any:
    return tiny("bert-base", heads=HEADS)


def vectors(vocab_size: int = V) -> Word2Vec:
    """Word vectors, both tables drawn."""
    torch.manual_seed(0)
    model = build(Word2VecConfig(vocab_size=vocab_size, dim=8))
    torch.nn.init.normal_(model.inputs.weight)
    torch.nn.init.normal_(model.outputs.weight)
    return model


def biased_vectors() -> Glove:
    """GloVe's four tables, all drawn."""
    torch.manual_seed(0)
    model = build_glove(Word2VecConfig(vocab_size=V, dim=8))
    for weight in model.parameters():
        torch.nn.init.normal_(weight)
    return model


def both(model: type, config: type, numbers: dict[str, Any], tmp_path: Any) -> tuple[Any, Any]:
    """Their model with every weight drawn, and ours read from its folder."""
    reference = theirs(Case(model, config, numbers))
    reference.save_pretrained(tmp_path)
    return reference, qkv.load(tmp_path, device="cpu").module


def draw(*shape: int, low: int = 4, high: int = V, seed: int = 0) -> torch.Tensor:
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(seed))


def pack(ids_BL: torch.Tensor, segments_BL: torch.Tensor | None = None) -> Tokens:
    """Rows of one length as a batch; what their models take as a rectangle."""
    return Tokens.of(ids_BL.tolist(), segments=None if segments_BL is None else segments_BL.tolist())


def ragged(lengths: list[int] = LENGTHS, seed: int = 0) -> list[list[int]]:
    flat = draw(sum(lengths), seed=seed)
    return [part.tolist() for part in flat.split(lengths)]


def only(losses: Losses) -> LossOutput:
    assert len(losses) == 1
    return next(iter(losses.values()))


def mean(loss: LossOutput) -> torch.Tensor:
    return loss.total / loss.count


def close(mine: torch.Tensor | float, other: torch.Tensor | float, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(torch.as_tensor(mine), torch.as_tensor(other), atol=tolerance, rtol=tolerance)
