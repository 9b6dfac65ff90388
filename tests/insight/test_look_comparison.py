"""Two looks beside each other: divergences against scipy, the most similar head against a search over all pairs."""

import json
from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from qkv.checkpoints.folder import Folder
from qkv.common.errors import UsageError
from qkv.insight import look_comparison
from qkv.insight.look_comparison import divergence
from qkv.models import catalogue
from qkv.predict import Model
from qkv.predict.look import look_beside
from tests.predict.conftest import make_translator
from tests.predict.readers import make_reader
from tests.predict.test_look import make_gpt

TEXT = "the small cat sat on a mat"


def copied(model, *, num_layers=2):
    """Copy a tiny reader, which others use too; with another number of layers, its weights are new."""
    config = replace(model.config, num_layers=num_layers)
    module = deepcopy(model.module) if num_layers == 2 else catalogue.build(config).eval()
    return Model(Folder(config, module, model.tokenizer), device="cpu")


@pytest.fixture(scope="module")
def pair():
    """The same model after a change of its second layer, and before."""
    before = make_reader("mlm")
    after = copied(before)
    weight = after.module.stack.blocks[1].attention.part.qkv.weight
    with torch.no_grad():
        weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(5)))
    return after.look(TEXT), before.look(TEXT)


def distributions(rows, columns, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, columns, generator=generator).mul(3).softmax(-1)


@given(seed=st.integers(0, 10_000), columns=st.integers(2, 30))
def test_divergence_is_scipys(seed, columns):
    distance = pytest.importorskip("scipy.spatial.distance")
    p, q = distributions(4, columns, seed), distributions(4, columns, seed + 1)
    wanted = [distance.jensenshannon(a, b, base=2) ** 2 for a, b in zip(p.numpy(), q.numpy(), strict=True)]
    torch.testing.assert_close(divergence(p, q), torch.tensor(wanted).float(), atol=1e-5, rtol=1e-3)


@given(seed=st.integers(0, 10_000), columns=st.integers(2, 30))
def test_divergence_is_between_nothing_and_one_bit(seed, columns):
    p, q = distributions(4, columns, seed), distributions(4, columns, seed + 1)
    found = divergence(p, q)
    assert ((found > 0) & (found < 1)).all()
    torch.testing.assert_close(found, divergence(q, p))
    assert divergence(p, p).abs().max() < 1e-6
    apart = divergence(torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0.0, 0.5, 0.5]))
    assert float(apart) == pytest.approx(1.0)


def test_only_the_layer_that_changed_moves(pair):
    found = pair[0].compare(pair[1]).part()
    assert found.moved.shape == (2, 2)
    assert found.moved[0].max() < 1e-6
    assert found.moved[1].min() > 1e-4
    assert {layer for layer, _ in found.most(2)} == {1}
    for head in range(2):
        own = divergence(pair[0].weights(1, head), pair[1].weights(1, head)).mean()
        assert float(found.moved[1, head]) == pytest.approx(float(own), abs=1e-6)


def test_the_most_similar_head_is_the_best_of_all_pairs(pair):
    found = pair[0].compare(pair[1]).part()
    for layer in range(2):
        for head in range(2):
            own = pair[0].weights(layer, head)
            every = {(i, j): float(divergence(own, pair[1].weights(i, j)).mean()) for i in range(2) for j in range(2)}
            assert float(found.nearest[layer, head]) == pytest.approx(min(every.values()), abs=1e-6)
            assert every[tuple(found.where[layer][head])] == pytest.approx(min(every.values()), abs=1e-6)
    assert found.where[0] == [(0, 0), (0, 1)]


def test_long_texts_are_searched_on_fewer_rows(pair, monkeypatch):
    whole = pair[0].compare(pair[1]).part()
    monkeypatch.setattr(look_comparison, "PRODUCTS", 1)
    some = pair[0].compare(pair[1]).part()
    assert torch.equal(whole.moved, some.moved)
    assert not torch.equal(whole.nearest, some.nearest)
    assert some.where[0] == [(0, 0), (0, 1)]


def test_models_of_other_shapes_have_no_same_heads():
    flat = make_reader("mlm")
    deep = copied(flat, num_layers=3)
    found = deep.look(TEXT).compare(flat.look(TEXT))
    part = found.part()
    assert part.moved is None
    assert torch.equal(part.distances, part.nearest)
    assert part.nearest.shape == (3, 2)
    assert found.to_dict()["parts"]["encoder"]["moved"] is None
    assert '"same": false' in found.html()


def test_a_translator_without_a_target_writes_for_both():
    first, second = make_translator("transformer-tiny"), make_translator("transformer-tiny")
    found = look_beside(first, second, "The cat sleeps.", names=("a", "b"))
    assert set(found.parts) == {"encoder", "decoder", "cross"}
    assert found.look.notes[0].startswith("The model's own translation: ")
    assert found.look.texts[1] == found.other.texts[1] == first.look("The cat sleeps.").written
    assert max(float(one.moved.max()) for one in found.parts.values()) < 1e-6
    assert found.about == "a beside b"


def test_what_cannot_be_compared_is_said():
    reader = make_reader("mlm")
    found = reader.look(TEXT)
    with pytest.raises(UsageError, match=r"has attention of the kind encoder, gpt has decoder"):
        found.compare(make_gpt().look(TEXT))
    with pytest.raises(UsageError, match=r"into different tokens \(\d+ and \d+ in the encoder\)"):
        found.compare(make_reader("mlm", kind="byte-bpe").look(TEXT))
    with pytest.raises(UsageError, match="unknown part 'cross'"):
        found.compare(found).part("cross")


def test_json_and_the_notebook(pair, tmp_path):
    found = pair[0].compare(pair[1])
    told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert told["parts"]["encoder"]["nearest_head"][0] == [[0, 0], [0, 1]]
    assert "sandbox=" in found._repr_html_()
    assert found.save(tmp_path / "c.html").read_text("utf-8").startswith("<!doctype html>")
    assert "beside" in repr(found)
