import math

import pytest
import torch

import qkv
from qkv.common.batch import Tokens
from qkv.insight.head_patterns import HeadNumbers, measure_heads
from qkv.models import catalogue
from tests.contracts.entries import batch_for, make, shrink
from tests.predict.conftest import make_translator

IDS = [[2, 5, 6, 7, 12, 3], [2, 11, 8, 3], [2, 3]]
SEPARATOR = 3


def measured(model, texts=IDS):
    return measure_heads(model, [Tokens.of(texts)], {SEPARATOR})


def test_the_numbers_are_those_of_the_weights_that_transformers_returns(bert_folder):
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoModel.from_pretrained(bert_folder, attn_implementation="eager").eval()
    found = measured(qkv.load(bert_folder, device="cpu").module)
    with torch.no_grad():
        maps = [theirs(torch.tensor([ids]), output_attentions=True).attentions for ids in IDS]
    assert len(found) == 4
    for head in found:
        sums = {name: [0.0, 0] for name in ("entropy", "distance", *head.shares)}

        def add(name, value, sums=sums):
            sums[name][0] += value
            sums[name][1] += 1

        for ids, layers in zip(IDS, maps, strict=True):
            weights = layers[head.layer][0, head.head].tolist()
            for i, row in enumerate(weights):
                add("entropy", -sum(w * math.log2(w) for w in row if w > 0))
                add("distance", sum(w * abs(i - j) for j, w in enumerate(row)))
                add("first", row[0])
                add("separator", sum(w for w, token in zip(row, ids, strict=True) if token == SEPARATOR))
                for name, j in (("previous", i - 1), ("same", i), ("next", i + 1)):
                    if 0 <= j < len(ids):
                        add(name, row[j])
        mean = {name: total / count for name, (total, count) in sums.items()}
        assert head.entropy == pytest.approx(mean.pop("entropy"), abs=1e-5)
        assert head.distance == pytest.approx(mean.pop("distance"), abs=1e-5)
        assert head.shares == pytest.approx(mean, abs=1e-5)


def test_a_head_is_named_after_the_tokens_that_get_most_of_its_attention():
    shares = {"previous": 0.2, "same": 0.1, "next": None, "first": 0.6, "separator": 0.1}
    head = HeadNumbers("self", 0, 0, 1.0, 2.0, shares)
    assert head.pattern == "first"
    assert head.to_dict()["pattern"] == "first"
    shares["first"] = 0.5
    assert HeadNumbers("self", 0, 0, 1.0, None, shares).pattern == ""


def test_a_head_that_was_built_to_look_back_is_found():
    config = shrink(catalogue.preset("bert-base"), num_layers=1, position="alibi")
    model = make(config).eval()
    attention = model.stack.blocks[0].attention.part
    with torch.no_grad():
        for parameter in attention.qkv.parameters():
            parameter.zero_()  # scores are the slopes of ALiBi alone: the nearest tokens win
    found = measured(model)
    first, last = found[0], found[-1]
    assert first.entropy < last.entropy  # the first head has the steepest slope
    assert first.shares["same"] > last.shares["same"]
    (head, _) = measured(model, [[2, 3]])[:2]
    slope = model.stack.position.slopes()[0]
    expected = torch.softmax(torch.tensor([0.0, -slope]), -1)
    assert head.shares["same"] == pytest.approx(float(expected[0]), abs=1e-5)
    assert head.shares["next"] == pytest.approx(float(expected[1]), abs=1e-5)


@pytest.mark.parametrize("name", ["gpt2", "albert-base", "transformer-base", "t5-small"])
@pytest.mark.parametrize("position", ["rotary", "rotary-dynamic", "relative", "alibi"])
def test_every_layer_and_head_is_measured_and_nothing_changes(name, position):
    config = shrink(catalogue.preset(name), position=position)
    model, batch = make(config).eval(), batch_for(shrink(catalogue.preset(name), position=position))
    plain = model(batch).states
    found = measure_heads(model, [batch])
    assert torch.equal(model(batch).states, plain)
    kinds = {head.kind for head in found}
    assert kinds == ({"self"} if name in ("gpt2", "albert-base") else {"encoder", "decoder", "cross"})
    assert len(found) == config.num_heads * config.num_layers * len(kinds)
    for head in found:
        assert head.entropy >= 0
        assert (head.distance is None) == (head.kind == "cross")
        if head.kind == "decoder" or name == "gpt2":
            assert head.shares["next"] == 0


def test_a_translator_reads_its_own_translations():
    model = make_translator("transformer-tiny")
    before = model.translate(["the small cat sees a dog"])
    found = model.heads(["the small cat sees a dog", "the dog", ""])
    assert {head.kind for head in found} == {"encoder", "decoder", "cross"}
    assert model.translate(["the small cat sees a dog"]) == before
    with pytest.raises(qkv.UsageError, match="empty"):
        model.heads([" "])
    with pytest.raises(qkv.UsageError, match="at least one"):
        model.heads([])
    with pytest.raises(qkv.UsageError, match="no attention heads"):
        make_translator("rnn-small").heads(["the dog"])
