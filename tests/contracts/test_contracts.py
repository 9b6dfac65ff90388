"""What every model of the catalogue must keep, in train() and in eval()."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch

from qkv.checkpoints.folder import Folder, read_folder, write_folder
from qkv.common.batch import Pairs, Tokens
from qkv.models import catalogue
from qkv.models.position import POSITIONS, PositionConfig, PositionScheme
from qkv.nn import kernels
from qkv.nn.cache import KeyValueCache
from qkv.nn.positions import NoPosition, Place, Placement
from tests.contracts.entries import LENGTHS, MODELS, SMALL, batch_for, make, outputs, pairs, sequences, shrink

every_model = pytest.mark.parametrize("name", MODELS)
both_modes = pytest.mark.parametrize("train", [True, False], ids=["train", "eval"])
CLOSE = {"atol": 2e-5, "rtol": 1e-4}


def positioned() -> dict[str, Any]:
    """Each family with each position scheme; recurrence and convolution know the order by themselves."""
    families = ("transformer-base", "bert-base", "gpt2", "t5-small", "vit-b16")
    return {
        f"{name}-{position}": shrink(catalogue.preset(name), position=position)
        for name in families
        for position in POSITIONS
    }


POSITIONED = positioned()
every_position = pytest.mark.parametrize("name", POSITIONED)


@both_modes
@every_model
def test_every_parameter_gets_a_gradient(name: str, train: bool) -> None:
    config = MODELS[name]
    model = make(config, train=train)
    found = outputs(model, batch_for(config))
    sum((tensor**2).sum() for tensors in found.values() for tensor in tensors).backward()
    missing = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert not missing


@pytest.mark.parametrize("name", [name for name, config in MODELS.items() if hasattr(config, "dropout")])
def test_dropout_changes_training_and_nothing_else(name: str) -> None:
    config = dataclasses.replace(MODELS[name], dropout=0.5)
    model = make(config, train=True)
    batch = batch_for(config)
    first, second = model(batch).states, model(batch).states
    assert not torch.equal(first, second)
    model.eval()
    assert torch.equal(model(batch).states, model(batch).states)


@every_model
def test_saved_and_loaded_is_the_same(name: str, tmp_path: Any) -> None:
    config = MODELS[name]
    model = make(config)
    write_folder(Folder(config, model), tmp_path / "model")
    again = read_folder(tmp_path / "model")
    assert again.config == config
    batch = batch_for(config)
    mine, other = outputs(model, batch), outputs(again.model, batch)
    for key in mine:
        for a, b in zip(mine[key], other[key], strict=True):
            assert torch.equal(a, b)


@both_modes
@every_model
def test_neighbours_do_not_matter(name: str, train: bool) -> None:
    config = MODELS[name]
    model = make(config, train=train)
    together = outputs(model, batch_for(config))
    for row in range(len(LENGTHS)):
        alone = outputs(model, batch_for(config, [row]))
        for key in alone:
            torch.testing.assert_close(together[key][row], alone[key][0], **CLOSE)


@pytest.mark.parametrize(
    "name",
    [
        n
        for n, c in MODELS.items()
        if catalogue.family_of(c) in ("gpt", "transformer", "t5", "conv_seq2seq", "seq2seq_rnn")
    ],
)
def test_no_token_sees_a_later_one(name: str) -> None:
    config = MODELS[name]
    model = make(config)
    before = sequences([12])[0]
    after = [*before[:7], *sequences([12], seed=5)[0][7:]]
    source = Tokens.of(sequences([6], seed=9))

    def states(ids: list[int]) -> torch.Tensor:
        tokens = Tokens.of([ids])
        return model(Pairs(source, tokens) if pairs(config) else tokens).states

    a, b = states(before), states(after)
    torch.testing.assert_close(a[:7], b[:7], **CLOSE)
    assert not torch.allclose(a[7:], b[7:], atol=1e-3)


@pytest.mark.parametrize("name", ["bert-tiny", "roberta-base", "electra-small", "albert-base"])
def test_an_encoder_sees_both_ways(name: str) -> None:
    model = make(MODELS[name])
    before = sequences([12])[0]
    after = [*before[:-1], (before[-1] + 1) % 37]
    a, b = (model(Tokens.of([ids])).states for ids in (before, after))
    assert not torch.allclose(a[0], b[0], atol=1e-4)


@every_position
def test_kernels_agree(name: str) -> None:
    """On this machine eager and sdpa; the CUDA kernels are compared in tests/gpu."""
    config = POSITIONED[name]
    model = make(config)
    batch = batch_for(config)
    kernels.use(model, "eager")
    expected = model(batch).states
    if config.position.name != "relative":  # Shaw's value term is the eager kernel's alone
        kernels.use(model, "sdpa")
        torch.testing.assert_close(model(batch).states, expected, **CLOSE)
    kernels.use(model, "auto")
    torch.testing.assert_close(model(batch).states, expected, **CLOSE)


@both_modes
@every_position
def test_each_position_works_on_each_family(name: str, train: bool) -> None:
    """Neighbours do not matter, every parameter learns, and the order is known (but with none)."""
    config = POSITIONED[name]
    model = make(config, train=train)
    together = outputs(model, batch_for(config))
    alone = outputs(model, batch_for(config, [2]))
    torch.testing.assert_close(together["states"][2], alone["states"][0], **CLOSE)
    sum((tensor**2).sum() for tensors in together.values() for tensor in tensors).backward()
    assert not [n for n, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]


@pytest.mark.parametrize("position", POSITIONS)
def test_an_encoder_knows_the_order_unless_it_has_no_positions(position: str) -> None:
    model = make(shrink(catalogue.preset("bert-base"), position=position))
    ids = sequences([8])[0]
    straight = model(Tokens.of([ids])).states
    swapped = model(Tokens.of([[ids[1], ids[0], *ids[2:]]])).states
    same = torch.allclose(straight[4], swapped[4], atol=1e-5)
    assert same == (position == "none")


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("family", ["gpt2", "t5-small", "transformer-base"])
def test_cached_equals_uncached(family: str, position: str) -> None:
    """Ragged prompts, then tokens one at a time, well past the trained length where the scheme allows it."""
    longest = 20 if position == "learned" else 44
    config = shrink(catalogue.preset(family), position=position, max_length=longest if position == "learned" else 16)
    model: Any = make(config)
    ids, prompts = sequences([longest] * 3, seed=3), [5, 1, 11]
    source = Tokens.of(sequences([4, 9, 2], seed=4))
    with torch.no_grad():
        memory = model.encode(source) if pairs(config) else None

        def run(part: list[list[int]], cache: KeyValueCache | None) -> list[torch.Tensor]:
            tokens = Tokens.of(part)
            return (model(tokens, cache) if memory is None else model.decode(tokens, memory, cache)).split()

        whole = run(ids, None)
        cache = KeyValueCache(3, capacity=4)
        pieces = [[x] for x in run([s[:k] for s, k in zip(ids, prompts, strict=True)], cache)]
        for step in range(longest - max(prompts)):
            for piece, x in zip(
                pieces, run([[s[k + step]] for s, k in zip(ids, prompts, strict=True)], cache), strict=True
            ):
                piece.append(x)
    for piece, expected in zip(pieces, whole, strict=True):
        found = torch.cat(piece)
        torch.testing.assert_close(found, expected[: len(found)], atol=5e-5, rtol=1e-4)


@pytest.mark.parametrize(
    "position", ["alibi", "bucketed", "rotary", "rotary-ntk", "rotary-dynamic", "relative", "none"]
)
def test_schemes_without_a_limit_read_past_the_trained_length(position: str) -> None:
    config = shrink(catalogue.preset("bert-base"), position=position, max_length=8)
    assert make(config)(Tokens.of(sequences([30]))).states.isfinite().all()


class Halving(NoPosition):
    """A scheme of somebody's own: a bias that halves the weight with each step of distance."""

    def place(self, place: Place, num_layers: int) -> list[Placement]:
        distance = torch.arange(-8, 9).abs()
        return [Biased(kernels.Bias(-math.log(2) * distance.float().expand(4, -1)))] * num_layers


@dataclasses.dataclass(frozen=True, eq=False)
class Biased(Placement):
    bias: kernels.Bias

    def attend(self, call: kernels.Call, kernel: kernels.Kernel) -> torch.Tensor:
        return kernel(dataclasses.replace(call, bias=self.bias))


def test_a_position_scheme_of_your_own_is_one_line_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(POSITIONS, "halving", PositionScheme(attended=lambda _config, _sizes: Halving()))
    for preset in ("bert-base", "gpt2", "t5-small"):
        config = shrink(catalogue.preset(preset), position="halving")
        mine, none = (make(dataclasses.replace(config, position=PositionConfig(name=n))) for n in ("halving", "none"))
        batch = batch_for(config)
        assert not torch.allclose(mine(batch).states, none(batch).states, atol=1e-4)


def test_a_beam_shares_its_source() -> None:
    """Three hypotheses over one source, asked as a query sequence of three, equal three copies of the source."""
    config = MODELS["transformer-tiny"]
    model: Any = make(config)
    sources, beam = sequences([5, 9]), 3
    from qkv.common.ragged import Ragged

    with torch.no_grad():
        memory = model.encode(Tokens.of(sources))
        copied = model.encode(Tokens.of([s for s in sources for _ in range(beam)]))
        shared_cache, plain_cache = KeyValueCache(6), KeyValueCache(6)
        for step in range(4):
            tokens = Tokens.of(sequences([1] * 6, seed=step))
            shared = model.decode(tokens, memory, shared_cache, Ragged.of([beam, beam])).states
            plain = model.decode(tokens, copied, plain_cache).states
            torch.testing.assert_close(shared, plain, **CLOSE)
            order = torch.tensor([1, 1, 0, 5, 3, 3])
            shared_cache.reorder(order)
            plain_cache.reorder(order)


@every_model
def test_encoder_states_are_those_of_what_is_read(name: str) -> None:
    """One method for every family; a user's classifier or sentence vectors need no other."""
    config = MODELS[name]
    model, batch = make(config), batch_for(config)
    if pairs(config):
        assert model.encoder_states(batch.source).layout is batch.source.layout
        assert model.states_for(batch.source).states.shape == (batch.source.layout.num_rows, config.dim)
    else:
        assert torch.equal(model.encoder_states(batch).states, model(batch).states)


def test_every_entry_is_here() -> None:
    kinds = {(catalogue.family_of(c), getattr(c, "flavour", "")) for c in MODELS.values()}
    assert kinds == {(catalogue.family_of(c), getattr(c, "flavour", "")) for c in catalogue.PRESETS.values()}
    assert SMALL["dropout"] == 0.0  # comparisons in train() need it
