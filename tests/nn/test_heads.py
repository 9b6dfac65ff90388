import pytest
import torch
from torch import nn

from qkv.common.errors import UsageError
from qkv.common.outputs import Hidden
from qkv.common.ragged import Ragged
from qkv.nn.heads import (
    DistilledHead,
    LanguageHead,
    MaskedHead,
    Pooler,
    RegressionHead,
    ReplacedHead,
    SequenceHead,
    SpanHead,
    TokenHead,
)

D, V = 4, 7


def ready(head):
    for parameter in head.parameters():
        nn.init.normal_(parameter)
    return head.eval()


def times(x, linear):
    return x @ linear.weight.t() + linear.bias


HIDDEN = [3, 1, 2]


def states():
    return Hidden(torch.randn(6, D), Ragged.of(HIDDEN))


@pytest.mark.parametrize(("row", "rows"), [("first", [0, 3, 4]), ("last", [2, 3, 5])])
def test_the_pooler_takes_one_row_of_each_sequence(row, rows):
    hidden = states()
    assert torch.equal(Pooler(D, row=row)(hidden), hidden.states[rows])


@pytest.mark.parametrize(("name", "function"), [("tanh", torch.tanh), ("relu", torch.relu)])
def test_the_pooler_s_dense_layer(name, function):
    pooler, hidden = ready(Pooler(D, activation=name)), states()
    torch.testing.assert_close(pooler(hidden), function(times(hidden.states[[0, 3, 4]], pooler.dense)))


def test_a_pooler_of_another_row_is_an_error():
    with pytest.raises(UsageError, match="first, last"):
        Pooler(D, row="middle")


@pytest.mark.parametrize("bias", [True, False])
def test_a_tied_language_head_reads_the_token_table(bias):
    head, x, table = ready(LanguageHead(D, V, bias=bias, scale=0.5)), torch.randn(6, D), torch.randn(V, D)
    wanted = 0.5 * x @ table.t() + (head.bias if bias else 0)
    torch.testing.assert_close(head(x, table), wanted)
    assert sum(p.numel() for p in head.parameters()) == (V if bias else 0)


def test_an_untied_language_head_has_its_own_table():
    head, x = ready(LanguageHead(D, V, tied=False)), torch.randn(6, D)
    assert head.weight.shape == (V, D)
    torch.testing.assert_close(head(x), x @ head.weight.t())


def masked():
    return ready(MaskedHead(D, V, embedding_dim=3, activation="relu", norm=nn.LayerNorm(3)))


def test_the_masked_head_is_dense_activation_norm_table_bias():
    head, x, table = masked(), torch.randn(6, D), torch.randn(V, 3)
    inner = torch.relu(times(x, head.dense))
    centred = inner - inner.mean(-1, keepdim=True)
    inner = centred / (inner.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt() * head.norm.weight + head.norm.bias
    torch.testing.assert_close(head(x, table), inner @ table.t() + head.decoder.bias, rtol=1e-4, atol=1e-5)


def test_the_masked_head_on_some_rows_is_some_rows_of_the_masked_head():
    head, x, table = masked(), torch.randn(6, D), torch.randn(V, 3)
    torch.testing.assert_close(head(x[[4, 1]], table), head(x, table)[[4, 1]])


def test_token_and_span_heads_score_each_row():
    x = torch.randn(6, D)
    for head, labels in ((ready(TokenHead(D, 3)), 3), (ready(SpanHead(D)), 2)):
        assert head.over == "rows"
        assert head(x).shape == (6, labels)
        torch.testing.assert_close(head(x), times(x, head.linear))


def test_a_token_head_drops_in_training_only():
    head, x = ready(TokenHead(D, 3, dropout=0.9)), torch.randn(6, D)
    torch.testing.assert_close(head(x), head(x))
    head.train()
    assert not torch.allclose(head(x), head(x))


def test_the_replaced_head_gives_each_row_one_number():
    head, x = ready(ReplacedHead(D, activation="tanh")), torch.randn(6, D)
    wanted = times(torch.tanh(times(x, head.dense)), head.linear)[:, 0]
    torch.testing.assert_close(head(x), wanted)
    assert head(x).shape == (6,)


def test_the_sequence_head_is_linear():
    head, x = ready(SequenceHead(D, 3)), torch.randn(2, D)
    assert head.over == "sequences"
    torch.testing.assert_close(head(x), times(x, head.linear))
    assert SequenceHead(D, 3, bias=False).linear.bias is None


def test_the_regression_head_gives_each_sequence_one_number():
    head, x = ready(RegressionHead(D)), torch.randn(2, D)
    assert head.over == "sequences"
    assert head(x).shape == (2,)
    torch.testing.assert_close(head(x), times(x, head.linear)[:, 0])


def test_the_distilled_head_is_the_mean_of_two_classifiers_on_two_tokens():
    head, hidden = ready(DistilledHead(D, 3)), Hidden(torch.randn(6, D), Ragged.of([3, 3]))
    label, teacher = times(hidden.states[[0, 3]], head.label), times(hidden.states[[1, 4]], head.teacher)
    both = head.both(hidden)
    torch.testing.assert_close(both[0], label)
    torch.testing.assert_close(both[1], teacher)
    torch.testing.assert_close(head(hidden), (label + teacher) / 2)
