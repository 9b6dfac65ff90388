"""What every objective keeps: sums over micro-batches add up, parts have weights, recipes can name it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch

from qkv import objectives
from qkv.common.batch import (
    Counted,
    Following,
    Images,
    Labelled,
    Masked,
    Pairs,
    SentencePairs,
    Spans,
    Tokens,
    Translated,
    Words,
)
from qkv.common.config import from_dict
from qkv.common.errors import UsageError
from qkv.objectives import (
    AnswerSpan,
    Cbow,
    Classify,
    ClassifyAny,
    CosineScore,
    Glove,
    MaskedToken,
    Match,
    Mixture,
    NextToken,
    Regress,
    ReplacedToken,
    SkipGram,
    Tag,
    Translate,
    weighted,
)
from qkv.objectives.images import ClassifyImages, ImageSettings
from tests.objectives.shared import LENGTHS, V, bert, biased_vectors, close, draw, ragged, tiny, vectors
from tests.objectives.test_replaced import pair

Part = Callable[[list[int]], Any]  # some of the sequences as a batch


def tokens(rows: list[int], seed: int = 0) -> Tokens:
    return Tokens.of([ragged(seed=seed)[r] for r in rows])


def per_token(rows: list[int], high: int = V, seed: int = 1) -> torch.Tensor:
    """A target for each token, some of them not asked for."""
    wanted = draw(sum(LENGTHS), low=0, high=high, seed=seed)
    wanted[::4] = -100
    return torch.cat([wanted.split(LENGTHS)[r] for r in rows])


def masked(rows: list[int]) -> Masked:
    wanted = per_token(rows)
    asked = torch.arange(len(wanted))[wanted % 3 != 0]
    return Masked(tokens(rows), asked, wanted[asked], torch.tensor([0, 1, -100, 1])[rows])


def images(rows: list[int]) -> Labelled:
    pixels = torch.randn(4, 3, 12, 12, generator=torch.Generator().manual_seed(0))
    return Labelled(Images(pixels[rows]), torch.tensor([0, 2, 1, 0])[rows])


def pixels(rows: list[int]) -> Labelled:
    drawn = torch.randint(0, 256, (4, 3, 12, 12), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    return Labelled(Images(drawn[rows]), torch.tensor([0, 2, 1, 0])[rows])


def words(rows: list[int], context: int | None) -> Words:
    inputs = draw(4, *([] if context is None else [context]), low=0 if context is None else -1)
    return Words(inputs[rows], draw(4, seed=2)[rows], draw(4, 3, seed=3)[rows])


def counted(rows: list[int]) -> Counted:
    counts = torch.tensor([0.5, 7.0, 1.0, 3.0])
    return Counted.of(draw(4)[rows], draw(4, seed=2)[rows], counts[rows])


ANY = torch.tensor([[0, 1, 1], [0, -100, 0], [1, 0, 0], [1, 1, 1]])
NUMBERS = torch.tensor([0.5, -1.0, -100.0, 3.0])
STARTS, ENDS = torch.tensor([1, 0, 3, 2]), torch.tensor([9, 0, 8, 2])

CASES: dict[str, tuple[Any, Callable[[], Any], Part]] = {
    "next": (NextToken(), lambda: tiny("gpt2"), lambda rows: Following(tokens(rows), per_token(rows))),
    "masked": (MaskedToken(next_sentence=True), bert, masked),
    "replaced": (ReplacedToken(temperature=1e-6), pair, masked),
    "translate": (
        Translate(r_drop=1.0),
        lambda: tiny("transformer-base"),
        lambda rows: Translated(Pairs(tokens(rows, 7), tokens(rows)), per_token(rows)),
    ),
    "classify": (Classify(), bert, lambda rows: Labelled(tokens(rows), torch.tensor([0, 2, -100, 1])[rows])),
    "images": (Classify(smoothing=0.1), lambda: tiny("vit-b16"), images),
    "pixels": (ClassifyImages(settings=ImageSettings(smoothing=0.1)), lambda: tiny("vit-b16"), pixels),
    "any": (ClassifyAny(), bert, lambda rows: Labelled(tokens(rows), ANY[rows])),
    "regress": (Regress(), bert, lambda rows: Labelled(tokens(rows), NUMBERS[rows])),
    "tag": (Tag(), bert, lambda rows: Labelled(tokens(rows), per_token(rows, 3))),
    "span": (AnswerSpan(r_drop=1.0), bert, lambda rows: Spans(tokens(rows), STARTS[rows], ENDS[rows])),
    "cosine": (CosineScore(), bert, lambda rows: SentencePairs(tokens(rows), tokens(rows, 9), NUMBERS[rows])),
    "skip-gram": (SkipGram(), vectors, lambda rows: words(rows, None)),
    "cbow": (Cbow(), vectors, lambda rows: words(rows, 5)),
    "glove": (Glove(x_max=5.0), biased_vectors, counted),
    "mixture": (
        Mixture({"tags": (Tag(), 2.0), "masks": (MaskedToken(next_sentence=True), 0.5)}),
        bert,
        lambda rows: {"tags": Labelled(tokens(rows), per_token(rows, 3)), "masks": masked(rows)},
    ),
}


@pytest.mark.parametrize("split", [[[0], [1], [2], [3]], [[0, 1, 2], [3]], [[1, 3], [2, 0]]], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_micro_batches_add_up(name: str, split: list[list[int]]) -> None:
    objective, make, part = CASES[name]
    torch.manual_seed(0)
    model = make()
    whole = objective(model, part([0, 1, 2, 3]))
    pieces = [objective(model, part(rows)) for rows in split]
    assert list(whole) == list(objective.weights)
    for key, loss in whole.items():
        close(sum(piece[key].total for piece in pieces), loss.total, 1e-4)
        assert sum(piece[key].count for piece in pieces) == loss.count > 0
        assert all(piece[key].sums.keys() == loss.sums.keys() for piece in pieces)
        for kind, total in loss.sums.items():
            close(sum(piece[key].sums[kind] for piece in pieces).float(), total.float(), 1e-4)
    counts = {key: loss.count for key, loss in whole.items()}
    steps = sum(weighted(piece, objective.weights, counts) for piece in pieces)
    close(steps, weighted(whole, objective.weights), 1e-4)


@pytest.mark.parametrize("name", CASES)
def test_targets_can_be_counted_before_any_work(name: str) -> None:
    objective, make, part = CASES[name]
    model = make()
    for rows in ([0, 1, 2, 3], [2], [3, 0]):
        batch = part(rows)
        losses = objective(model, batch)
        assert objective.counts(batch) == {key: loss.count for key, loss in losses.items()}
        with torch.no_grad():
            assert objective.counts(batch).keys() == objective(model, batch).keys()
    twins = SentencePairs(tokens([0, 1, 3]), tokens([2, 1, 0]))
    assert Match().counts(twins)["match"] == 3


@pytest.mark.parametrize("name", CASES)
def test_losses_are_fp32_scalars_with_a_gradient(name: str) -> None:
    objective, make, part = CASES[name]
    for loss in objective(make(), part([0, 1, 2, 3])).values():
        assert loss.total.dtype == torch.float32
        assert loss.total.shape == loss.count.shape == ()
        assert loss.total.requires_grad
        assert not loss.count.requires_grad
        assert not any(tensor.requires_grad for tensor in loss.sums.values())


def test_matching_is_the_one_that_does_not_add_up() -> None:
    model, objective = bert(), Match()
    whole = objective(model, SentencePairs(tokens([0, 1, 2, 3]), tokens([0, 1, 2, 3], 9)))["match"]
    parts = [objective(model, SentencePairs(tokens(rows), tokens(rows, 9)))["match"] for rows in ([0, 1], [2, 3])]
    assert sum(part.count for part in parts) == whole.count
    assert sum(part.total for part in parts) < whole.total


def test_a_mixture_weighs_and_names_its_parts() -> None:
    mixture, make, part = CASES["mixture"]
    model, batch = make(), part([0, 1, 2, 3])
    assert mixture.weights == {"tags/tag": 2.0, "masks/mlm": 0.5, "masks/nsp": 0.5}
    losses = mixture(model, batch)
    tag, masks = Tag()(model, batch["tags"]), MaskedToken(next_sentence=True)(model, batch["masks"])
    expected = 2.0 * weighted(tag, {"tag": 1.0}) + 0.5 * weighted(masks, {"mlm": 1.0, "nsp": 1.0})
    close(weighted(losses, mixture.weights), expected)
    assert list(mixture(model, {"tags": batch["tags"]})) == ["tags/tag"]
    assert Mixture({"e": (ReplacedToken(weight=4.0), 0.5)}).weights == {"e/mlm": 0.5, "e/replaced": 2.0}
    with pytest.raises(UsageError, match="did you mean 'tags'"):
        mixture(model, {"tag": batch["tags"]})
    with pytest.raises(UsageError, match="at least one"):
        Mixture({})


def test_every_objective_is_a_frozen_dataclass_of_plain_numbers() -> None:
    kinds = {type(objective) for objective, _, _ in CASES.values()} - {Mixture, ClassifyImages} | {Match}
    exported = {getattr(objectives, name) for name in objectives.__all__}
    assert kinds == {kind for kind in exported if dataclasses.is_dataclass(kind)} - {Mixture}, "each has a case here"
    for kind in kinds:
        made = from_dict(kind, {})  # type: ignore[arg-type]
        assert made.weights
        with pytest.raises(dataclasses.FrozenInstanceError):
            made.anything = 1
    assert from_dict(Translate, {"r_drop": 5}) == Translate(r_drop=5.0)
