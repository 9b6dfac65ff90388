import shutil

import pytest
import torch

import qkv
from qkv.common.errors import UsageError
from qkv.insight.layer_similarity import layer_similarity


def hsic(x, y):
    """The unbiased estimator of Song et al. 2012, equation 5, written out."""
    n = len(x)
    k, m = x @ x.T, y @ y.T
    k.fill_diagonal_(0)
    m.fill_diagonal_(0)
    one = torch.ones(n, dtype=k.dtype)
    total = (
        torch.trace(k @ m) + (one @ k @ one) * (one @ m @ one) / ((n - 1) * (n - 2)) - 2 / (n - 2) * (one @ k @ m @ one)
    )
    return total / (n * (n - 3))


def test_the_unbiased_formula():
    torch.manual_seed(0)
    a = [torch.randn(30, 5, dtype=torch.float64) for _ in range(2)]
    b = [a[0] @ torch.randn(5, 8, dtype=torch.float64), torch.randn(30, 8, dtype=torch.float64) + 1]
    found = layer_similarity(a, b)
    assert found.shape == (2, 2)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            expected = hsic(x, y) / (hsic(x, x) * hsic(y, y)).sqrt()
            torch.testing.assert_close(found[i, j], expected)


def test_rotation_and_scale_do_not_matter_and_chance_is_zero():
    torch.manual_seed(0)
    x = torch.randn(60, 40)
    turn, _ = torch.linalg.qr(torch.randn(40, 40))
    assert float(layer_similarity([x], [3 * x @ turn + 2])[0, 0]) == pytest.approx(1.0, abs=1e-5)
    chance = torch.stack([layer_similarity([x], [torch.randn(60, 40)])[0, 0] for _ in range(20)])
    assert abs(float(chance.mean())) < 0.02  # the plain estimate gives 0.4 here


def test_rows_must_be_the_same_tokens():
    with pytest.raises(UsageError, match="the same tokens"):
        layer_similarity([torch.randn(5, 3)], [torch.randn(6, 3)])
    with pytest.raises(UsageError, match="at least 4"):
        layer_similarity([torch.randn(3, 3)], [torch.randn(3, 3)])


def test_a_model_is_compared_with_itself_and_with_another(bert_folder, tmp_path):
    model = qkv.load(bert_folder, device="cpu")
    texts = ["the cat sat on a mat .", "a dog runs !", "the dog sat , the cat runs ."]
    found = model.layers(texts)
    assert found.rows == "tokens"
    for layer in range(3):
        assert found.similarity[layer][layer] == pytest.approx(1.0, abs=1e-5)
    copy = shutil.copytree(bert_folder, tmp_path / "copy")
    other = qkv.load(copy, device="cpu")
    with torch.no_grad():
        other.module.stack.blocks[1].feedforward.part.up.weight.normal_(std=3)
    changed = model.layers(texts, other)
    assert changed.similarity[1][1] == pytest.approx(1.0, abs=1e-5)
    assert changed.similarity[2][2] < 0.99
    assert found.scores.shape == (2, 2, 65)
    assert set(found.to_dict()) == {"alike", "similarity", "rows", "scores"}
    assert set(found.alike) == {"whole model", "no feed-forward", "no skip", "attention alone"}


def test_models_that_cut_texts_in_other_ways_are_compared_by_text(bert_folder):
    from tests.predict.readers import make_reader

    texts = [f"the {'cat' if i % 2 else 'dog'} {'sat' if i % 3 else 'runs'} {'.' * (i % 5)}" for i in range(12)]
    found = qkv.load(bert_folder, device="cpu").layers(texts, make_reader("mlm"))
    assert found.rows == "texts"
    assert len(found.similarity) == 3
    with pytest.raises(UsageError, match="4 texts"):
        qkv.load(bert_folder, device="cpu").layers(texts[:3], make_reader("mlm"))
