"""A model without some layers says what the whole model says when those layers pass their input on."""

from __future__ import annotations

import pytest
import torch

from qkv.checkpoints.folder import Folder, read_folder, write_folder
from qkv.common.errors import UsageError
from qkv.compression.layers import drop_layers, stacks
from qkv.models import catalogue
from tests.contracts.entries import MODELS, batch_for, make, outputs, shrink


def deep(name, **changes):
    config = MODELS.get(name) or shrink(catalogue.preset(name))
    depth = {"num_layers": 4, "num_decoder_layers": 3}
    known = {key: value for key, value in depth.items() if hasattr(config, key)}
    return catalogue.override(config, {**known, **changes})


CASES = {
    name: deep(name)
    for name in ("bert", "gpt-grouped", "t5", "vit", "transformer-pre", "deit-ti16", "conv-base")
    if name in MODELS
} | {f"bert-{name}": deep("bert-tiny", position={"name": name}) for name in ("relative", "bucketed", "rotary", "alibi")}


class Skipped(torch.nn.Module):
    """A block that passes its input on."""

    def forward(self, x, context, *_):
        return x if context.rows is None else x.index_select(0, context.rows.index)


@pytest.mark.parametrize("name", CASES)
def test_the_rest_is_a_stack_without_them(name):
    config = CASES[name]
    model = make(config).eval()
    batch = batch_for(config)
    with torch.no_grad():
        whole = outputs(model, batch)
    for part, stack in stacks(Folder(config, model)).items():
        smaller = drop_layers(Folder(config, model), part, [0, stack.depth - 2])
        old = list(stack.blocks)
        for layer in (0, stack.depth - 2):
            stack.blocks[layer] = Skipped()
        with torch.no_grad():
            wanted, found = outputs(model, batch), outputs(smaller.model, batch)
        for layer, block in enumerate(old):
            stack.blocks[layer] = block
        for key, several in wanted.items():
            for one, two in zip(found[key], several, strict=True):
                torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-6)
        assert not all(torch.allclose(a, b, atol=1e-3) for a, b in zip(whole["states"], wanted["states"], strict=True))
        assert len(stacks(smaller)[part].blocks) == stack.depth - 2


def test_transformers_reads_what_is_left(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = deep("bert-base", heads=["pool", "classify"])
    smaller = drop_layers(Folder(config, make(config).eval()), "stack", [1, 3])
    write_folder(smaller, tmp_path)
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    assert theirs.config.num_hidden_layers == 2
    batch = batch_for(config)
    with torch.no_grad():
        ours = outputs(read_folder(tmp_path).model, batch)["classify"]
        for ids, kinds, row in zip(
            batch.layout.split(batch.ids), batch.layout.split(batch.segments), ours, strict=True
        ):
            wanted = theirs(ids[None], token_type_ids=kinds[None]).logits[0]
            torch.testing.assert_close(row, wanted, rtol=1e-4, atol=1e-5)


def test_shared_layers_become_fewer_and_their_weights_stay():
    config = deep("albert-base")
    model = make(config).eval()
    smaller = drop_layers(Folder(config, model), "stack", [2])
    assert smaller.model.stack.depth == 3
    model.stack.depth = 3
    with torch.no_grad():
        batch = batch_for(config)
        torch.testing.assert_close(smaller.model(batch).states, model(batch).states)


@pytest.mark.parametrize(
    ("config", "name", "dropped", "message"),
    [
        (deep("bert"), "stack", [0, 1, 2, 3], "from 1 to 3 of the 4 layers can be dropped, got 4"),
        (deep("bert"), "stack", [], "from 1 to 3"),
        (deep("bert"), "stack", [4], "layers are numbered from 0 to 3, got 4"),
        (deep("bert"), "decoder", [0], "this bert has no decoder: it has stack"),
        (MODELS["rnn-gru"], "stack", [0], "seq2seq_rnn has no stack of layers"),
        (MODELS["albert-groups"], "stack", [0], "share their weights in groups"),
        (MODELS["vit-windows"], "stack", [0], "take turns"),
    ],
)
def test_what_cannot_be_dropped_is_said(config, name, dropped, message):
    with pytest.raises(UsageError, match=message):
        drop_layers(Folder(config, make(config)), name, dropped)
