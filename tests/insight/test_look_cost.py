"""What a look costs: one pass of the model, memory that grows with the text and not with its square, little time."""

import time

import pytest
import torch

from qkv.checkpoints.folder import Folder
from qkv.common.batch import Tokens
from qkv.models import catalogue
from qkv.nn.kernels import Call
from qkv.predict import Model
from tests.predict.readers import make_reader
from tests.tokenizers.conftest import train


def stored(found):
    """The bytes that a look holds, each storage once."""
    kept = {}
    for part in found.parts.values():
        for calls in part.layers:
            for call in calls:
                assert isinstance(call, Call)
                for x in (call.q, call.k, call.v):
                    kept[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
    return sum(kept.values())


def test_a_look_holds_no_matrix_and_grows_with_the_text():
    model = make_reader("mlm", max_length=1000)
    short, long = (model.look(" ".join(["cat"] * number)) for number in (98, 998))
    tokens = [len(found.part().rows) for found in (short, long)]
    assert stored(long) / stored(short) == pytest.approx(tokens[1] / tokens[0], rel=0.01)
    part = long.part()
    one_matrix = 4 * len(part.rows) * len(part.columns)
    assert stored(long) < one_matrix  # of the four that the model has


def test_a_look_is_one_pass(monkeypatch):
    model = make_reader("mlm", max_length=400)
    passes = []
    run = model.module.stack.forward
    monkeypatch.setattr(model.module.stack, "forward", lambda *given: passes.append(1) or run(*given))
    found = model.look("the cat sat")
    found.html()
    found.rollout()
    assert passes == [1]


@pytest.mark.slow
def test_512_tokens_through_a_bert_base_cost_at_most_three_passes():
    tokenizer = train("wordpiece", min_frequency=1)
    torch.manual_seed(0)
    config = catalogue.preset("bert-base", heads=["mlm"])
    model = Model(Folder(config, catalogue.build(config).eval(), tokenizer), device="cpu")
    text = " ".join(["the"] * 511)
    batch = Tokens.of(model.encode([text]).ids)
    assert batch.ids.numel() == 512

    def forward():
        with torch.no_grad():
            model.module.encoder_states(batch)

    def everything():
        found = model.look(text)
        for layer in range(12):
            assert found.weights(layer).shape == (12, 512, 512)
        found.html()

    took = {forward: [], everything: []}
    forward()
    for act in [forward, everything] * 3:
        start = time.perf_counter()
        act()
        took[act].append(time.perf_counter() - start)
    assert min(took[everything]) <= 3 * min(took[forward])
