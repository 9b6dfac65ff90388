"""A model without some heads says what the whole model says with those heads gated to zero."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import qkv
from qkv.checkpoints.folder import Folder, read_folder, write_folder
from qkv.common.errors import UsageError
from qkv.compression.engine import accelerate, engine_of
from qkv.compression.heads import prune_heads, stacks_by_kind
from qkv.insight.sites import by_kind, sites
from qkv.models import catalogue
from qkv.native import library
from qkv.nn.gates import gated
from qkv.nn.positions import BucketedPosition
from tests.contracts.entries import MODELS, batch_for, make, outputs, shrink

PRUNED = {
    name: config
    for name, config in MODELS.items()
    if catalogue.family_of(config) in ("bert", "gpt", "t5", "transformer", "vit")
    and name not in ("transformer-uneven", "gpt-pruned")
}
for scheme in ("relative", "bucketed", "rotary", "none"):
    PRUNED[f"bert-{scheme}"] = catalogue.override(MODELS["bert-tiny"], {"position": {"name": scheme}})


def drawn(model, seed=0):
    """Random importance, by kind of attention."""
    draw = torch.Generator().manual_seed(seed)
    return by_kind(sites(model), lambda site: torch.rand(site.heads, generator=draw))


def expected_heads(model, importance, share):
    """What is removed, worked out anew: head by head, with loops."""
    gates = {}
    for site in sites(model):
        stack = stacks_by_kind(model)[site.kind]
        attention = site.attention
        same = [
            other
            for other in sites(model)
            if other.attention is attention
            or (site.kind == other.kind != "cross" and isinstance(stack.position, BucketedPosition))
        ]
        size = attention.num_heads // attention.num_kv_heads
        totals = []
        for group in range(attention.num_kv_heads):
            heads = range(group * size, (group + 1) * size)
            totals.append(sum(float(importance[o.kind][o.layer, head]) for o in same for head in heads))
        worst = sorted(range(len(totals)), key=lambda group: totals[group])[: round(share * len(totals))]
        gates[attention, site.layer] = torch.tensor(
            [[float(head // size not in worst) for head in range(attention.num_heads)]]
        )
    return gates


@pytest.mark.parametrize("name", PRUNED)
def test_the_pruned_model_is_the_gated_one(name):
    model = make(PRUNED[name]).eval()
    folder, importance = Folder(PRUNED[name], model), drawn(model)
    share = 0.34 if PRUNED[name].num_heads == 3 else 0.5
    smaller = prune_heads(folder, importance, share)
    batch = batch_for(PRUNED[name])
    with torch.no_grad(), gated(expected_heads(model, importance, share)):
        wanted = outputs(model, batch)
    with torch.no_grad():
        found = outputs(smaller.model, batch)
        whole = outputs(model, batch)
    for key, several in wanted.items():
        for one, two in zip(found[key], several, strict=True):
            torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)
    assert not all(torch.allclose(a, b, atol=1e-3) for a, b in zip(whole["states"], wanted["states"], strict=True))
    count = sum(p.numel() for p in model.parameters())
    assert sum(p.numel() for p in smaller.model.parameters()) < count
    assert smaller.config == read_config_again(smaller.config)


def read_config_again(config):
    return catalogue.override(config, {})


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 100), share=st.sampled_from([0.25, 0.3, 0.5, 0.75]))
def test_any_importance_and_any_share(seed, share):
    config = PRUNED["bert-rotary"]
    model = make(config).eval()
    importance = drawn(model, seed)
    smaller = prune_heads(Folder(config, model), importance, share)
    with torch.no_grad(), gated(expected_heads(model, importance, share)):
        wanted = model(batch_for(config)).states
    with torch.no_grad():
        torch.testing.assert_close(smaller.model(batch_for(config)).states, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["bert", "t5-small", "gpt-grouped", "vit", "transformer-pre"])
def test_folders_keep_it_and_say_whose_format_it_is(tmp_path, name):
    model = make(PRUNED[name]).eval()
    smaller = prune_heads(Folder(PRUNED[name], model), drawn(model), 0.5)
    write_folder(smaller, tmp_path / "smaller")
    again = read_folder(tmp_path / "smaller")
    assert again.config == smaller.config
    assert again.stored_as == ("t5" if name == "t5-small" else f"qkv-{catalogue.family_of(smaller.config)}")
    batch = batch_for(PRUNED[name])
    with torch.no_grad():
        assert torch.equal(again.model(batch).states, smaller.model(batch).states)
    if name == "bert":
        assert (
            "bert has heads of width dim / num_heads, and these are 8 wide"
            in qkv.load(tmp_path / "smaller", device="cpu").describe()["stored_note"]
        )


@pytest.mark.parametrize("int8", [False, True])
def test_the_cpu_engine_runs_it(int8):
    if library.variant() is None or (int8 and not library.has_int8(library.variant())):
        pytest.skip("the CPU engine is not compiled here, or has no int8")
    config = catalogue.override(PRUNED["bert-rotary"], {"num_heads": 3, "head_dim": 24, "dim": 72})
    model = make(config).eval()
    smaller = prune_heads(Folder(config, model), drawn(model), 0.34).model
    batch = batch_for(config)
    with torch.no_grad():
        wanted = smaller(batch).states
        accelerate(smaller, int8=int8)
        assert engine_of(smaller) != "torch"
        tight = {"rtol": 2e-5, "atol": 2e-5} if not int8 else {"rtol": 0.1, "atol": 0.2}
        torch.testing.assert_close(smaller(batch).states, wanted, **tight)


@pytest.mark.parametrize(
    ("config", "share", "message"),
    [
        (MODELS["bert-tiny"], 0.0, "a share above 0 and below 1"),
        (MODELS["bert-tiny"], 1.5, "a share above 0 and below 1"),
        (MODELS["bert-tiny"], 0.05, "0.05 of the 4 heads of a layer is none of them"),
        (MODELS["bert-tiny"], 0.95, "is all of them"),
        (MODELS["gpt-grouped"], 0.2, "0.2 of the 2 heads"),
        (MODELS["rnn-gru"], 0.5, "seq2seq_rnn has no attention heads to remove"),
        (shrink(catalogue.preset("bert-tiny"), position="alibi"), 0.5, "ALiBi gives each head a slope by its number"),
        (MODELS["transformer-uneven"], 0.5, "the heads of encoder and decoder have different widths"),
    ],
)
def test_what_cannot_be_pruned_is_said(config, share, message):
    model = make(config)
    with pytest.raises(UsageError, match=message):
        prune_heads(
            Folder(config, model), {kind: torch.rand(2, 4) for kind in ("self", "encoder", "decoder", "cross")}, share
        )
