import pytest
import torch

from qkv.common.errors import UsageError
from qkv.insight.rollout import rollout


def test_two_layers_by_hand():
    first = torch.tensor([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]])  # mean: 0.5 everywhere
    second = torch.tensor([[[0.0, 1.0], [1.0, 0.0]]])
    a = torch.tensor([[0.75, 0.25], [0.25, 0.75]])
    b = torch.tensor([[0.5, 0.5], [0.5, 0.5]])
    torch.testing.assert_close(rollout([first]), a)
    torch.testing.assert_close(rollout([first, second]), b @ a)


def test_the_order_of_the_layers_matters_and_rows_sum_to_one():
    layers = [torch.rand(3, 5, 5).softmax(-1) for _ in range(4)]
    layers[0] = layers[0].tril() / layers[0].tril().sum(-1, keepdim=True)
    found = rollout(iter(layers))
    torch.testing.assert_close(found.sum(-1), torch.ones(5))
    assert not torch.allclose(found, rollout(layers[::-1]))


@pytest.mark.parametrize(("weights", "said"), [([], "at least one layer"), ([torch.rand(2, 3, 4)], r"\[2, 3, 4\]")])
def test_what_is_no_self_attention_is_refused(weights, said):
    with pytest.raises(UsageError, match=said):
        rollout(weights)
