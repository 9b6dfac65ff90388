"""Every kernel against attention written out one query at a time."""

from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from qkv.common.errors import UsageError
from qkv.common.ragged import Ragged
from qkv.nn import kernels
from qkv.nn.kernels import Bias, Call
from tests.common.layouts import spaced

CLOSE = {"rtol": 1e-10, "atol": 1e-10}


@dataclass
class Case:
    """A call, and the lengths it was made from."""

    call: Call
    q_lengths: list[int]
    k_starts: list[int]
    k_lengths: list[int]

    @property
    def leaves(self):
        bias = self.call.bias
        more = [] if bias is None else [bias.table] + ([] if bias.values is None else [bias.values])
        return [self.call.q, self.call.k, self.call.v, *more]


def oracle(case):
    """Attend as the words say it: query i of L over S keys stands at S - L + i and sees what it may.

    Returns the output [T, N, H] and, per sequence, the weights [N, L, S].
    """
    call, out, weights, row = case.call, [], [], 0
    group = call.q.shape[1] // call.k.shape[1]
    for length, start, size in zip(case.q_lengths, case.k_starts, case.k_lengths, strict=True):
        found = torch.zeros(call.q.shape[1], length, size, dtype=torch.float64)
        for i in range(length):
            here = size - length + i
            seen = [
                j
                for j in range(size)
                if not (call.causal and j > here) and not (call.window is not None and abs(j - here) > call.window)
            ]
            heads = []
            for n in range(call.q.shape[1]):
                k = torch.stack([call.k[start + j, n // group] for j in seen])
                v = torch.stack([call.v[start + j, n // group] for j in seen])
                scores = (k * call.q[row, n]).sum(-1) * call.scale
                if call.bias is not None:
                    table = call.bias.table
                    reach = (table.shape[-1] - 1) // 2
                    columns = [max(-reach, min(reach, j - here)) + reach for j in seen]
                    line = table[n] if table.dim() == 2 else table[row, n]
                    scores = scores + torch.stack([line[c] for c in columns])
                    if call.bias.values is not None:
                        v = v + torch.stack([call.bias.values[c] for c in columns])
                power = (scores - scores.max().detach()).exp()
                share = power / power.sum()
                found[n, i, seen] = share.detach()
                heads.append((share.unsqueeze(-1) * v).sum(0))
            out.append(torch.stack(heads))
            row += 1
        weights.append(found)
    return torch.stack(out), weights


@st.composite
def cases(draw, bias=("none", "table", "rows"), kinds=("self", "cross", "cached", "slack")):
    torch.manual_seed(draw(st.integers(0, 99)))
    kind = draw(st.sampled_from(kinds))
    q_lengths = draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
    causal, window, spare, pitch = False, None, [0] * len(q_lengths), None
    if kind == "cross":
        least = draw(st.sampled_from([1, 8]))
        k_lengths = [draw(st.integers(least, 9)) for _ in q_lengths]
    else:
        causal, window = draw(st.booleans()), draw(st.none() | st.integers(0, 4))
        k_lengths = list(q_lengths)
    if kind in ("cached", "slack"):
        k_lengths = [length + draw(st.integers(0, 4)) for length in q_lengths]
        spare = [draw(st.integers(0, 3)) for _ in k_lengths]
    if kind == "cached":
        pitch = max(k_lengths) + spare[0]
        spare = [pitch - length for length in k_lengths]
    queries = Ragged.of(q_lengths)
    keys = spaced(k_lengths, spare, pitch=pitch)
    offsets = keys.offsets.tolist()
    if kind in ("self", "cross"):
        keys = queries if kind == "self" else Ragged.of(k_lengths)
    kv_heads = draw(st.integers(1, 2))
    heads, width = kv_heads * draw(st.integers(1, 2)), 3

    def fresh(*shape):
        return torch.randn(*shape, dtype=torch.float64, requires_grad=True)

    kind_of_bias = draw(st.sampled_from(bias))
    columns = 2 * draw(st.integers(0, 6)) + 1
    made = {
        "none": lambda: None,
        "table": lambda: Bias(fresh(heads, columns)),
        "rows": lambda: Bias(fresh(sum(q_lengths), heads, columns)),
        "values": lambda: Bias(fresh(sum(q_lengths), heads, columns), fresh(columns, width)),
    }[kind_of_bias]()
    call = Call(
        q=fresh(sum(q_lengths), heads, width),
        k=fresh(offsets[-1], kv_heads, width),
        v=fresh(offsets[-1], kv_heads, width),
        queries=queries,
        keys=keys,
        scale=draw(st.sampled_from([1.0, 0.5])),
        causal=causal,
        window=window,
        bias=made,
    )
    return Case(call, q_lengths, offsets[:-1], k_lengths)


def assert_same(case, kernel):
    """Same output, same gradients of everything."""
    wanted, _ = oracle(case)
    found = kernel(case.call)
    torch.testing.assert_close(found, wanted, **CLOSE)
    upstream = torch.randn_like(wanted)
    for ours, theirs in zip(
        torch.autograd.grad(found, case.leaves, upstream),
        torch.autograd.grad(wanted, case.leaves, upstream, allow_unused=True),
        strict=True,
    ):
        torch.testing.assert_close(ours, torch.zeros_like(ours) if theirs is None else theirs, **CLOSE)


@settings(max_examples=150)
@given(cases(bias=("none", "table", "rows", "values")))
def test_eager_is_the_formula(case):
    assert_same(case, kernels.eager)


@settings(max_examples=150)
@given(cases())
def test_sdpa_is_the_formula(case):
    assert_same(case, kernels.sdpa)


@given(cases(bias=("values",)))
def test_the_automatic_choice_answers_value_biases_too(case):
    assert_same(case, kernels.automatic)


@given(cases(bias=("none", "table", "values")))
def test_weights_are_the_oracle_s_and_sum_to_one(case):
    _, wanted = oracle(case)
    found = kernels.weights(case.call)
    assert len(found) == len(case.q_lengths)
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours.detach(), theirs, **CLOSE)
        torch.testing.assert_close(ours.sum(-1), torch.ones_like(ours[..., 0]), **CLOSE)


@given(cases(bias=("none", "table")))
def test_weights_times_values_reproduce_the_output(case):
    call, rows = case.call, []
    group = call.q.shape[1] // call.v.shape[1]
    for w, start, length in zip(kernels.weights(call), case.k_starts, case.k_lengths, strict=True):
        v = call.v[start : start + length].repeat_interleave(group, dim=1)
        rows.append(torch.einsum("nls,snh->lnh", w, v))
    torch.testing.assert_close(torch.cat(rows), kernels.automatic(call), **CLOSE)


def plain(q_lengths, k_lengths=None, *, heads=2, width=4, dtype=torch.float64, **options):
    queries = Ragged.of(q_lengths)
    keys = queries if k_lengths is None else Ragged.of(k_lengths)
    k_lengths = k_lengths or q_lengths
    call = Call(
        q=torch.randn(sum(q_lengths), heads, width, dtype=dtype, requires_grad=True),
        k=torch.randn(sum(k_lengths), heads, width, dtype=dtype, requires_grad=True),
        v=torch.randn(sum(k_lengths), heads, width, dtype=dtype, requires_grad=True),
        queries=queries,
        keys=keys,
        scale=0.5,
        **options,
    )
    starts = [sum(k_lengths[:b]) for b in range(len(k_lengths))]
    return Case(call, q_lengths, starts, k_lengths)


BOTH = pytest.mark.parametrize("kernel", [kernels.eager, kernels.sdpa])


@BOTH
def test_short_targets_over_long_sources_beside_long_targets_over_shorter_ones(kernel):
    # Falling key lengths with rising query lengths: the order of the rectangles is not the order of the row.
    assert_same(plain([9, 1], [8, 9]), kernel)


@BOTH
def test_a_window_leaves_no_gradient_undefined_in_a_padded_rectangle(kernel):
    # 7 and 9 share a rectangle; the spare queries of the shorter one have no key within the window.
    assert_same(plain([7, 9], window=1), kernel)


@BOTH
def test_a_sequence_that_asks_nothing_disturbs_nobody(kernel):
    case = plain([3, 0, 2], [4, 5, 2])
    torch.testing.assert_close(kernel(case.call), oracle(case)[0], **CLOSE)


def test_weights_of_a_sequence_that_asks_nothing_are_empty():
    case = plain([3, 0, 2], [4, 5, 2])
    assert [tuple(w.shape) for w in kernels.weights(case.call)] == [(2, 3, 4), (2, 0, 5), (2, 2, 2)]


def test_sdpa_never_drops_a_value_bias_silently():
    case = plain([3, 5])
    case.call = Call(**{**case.call.__dict__, "bias": Bias(torch.randn(8, 2, 5).double(), torch.randn(5, 4).double())})
    try:
        found = kernels.sdpa(case.call)
    except UsageError:
        return
    torch.testing.assert_close(found, oracle(case)[0], **CLOSE)


def test_varlen_refuses_a_bias_it_would_not_read():
    case = plain([3, 5], bias=Bias(torch.randn(2, 5).double()))
    with pytest.raises(UsageError):
        kernels.varlen(case.call)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA here")
def test_varlen_says_where_it_cannot_run():
    with pytest.raises(UsageError, match=r"varlen.*cpu"):
        kernels.varlen(plain([3, 5], dtype=torch.float32).call)


@pytest.mark.parametrize(
    ("bias", "said"),
    [
        (None, "attention without a bias"),
        (Bias(torch.zeros(8, 2, 5)), "a bias per query"),
        (Bias(torch.zeros(2, 5), torch.zeros(5, 4)), "a bias on values"),
        (Bias(torch.zeros(2, 5)), "torch.float64 on cpu"),
    ],
    ids=["none", "rows", "values", "cpu"],
)
def test_biased_refuses_calls_it_cannot_answer(bias, said, monkeypatch):
    monkeypatch.setattr(kernels.biased_attention, "attend", lambda *_: pytest.fail("the kernel ran"))
    with pytest.raises(UsageError, match=f"the biased kernel does not support {said}"):
        kernels.biased(plain([3, 5], bias=bias).call)


@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize("masked", [False, True])
def test_slots_is_the_formula(window, masked):
    """One query each over slots, filled as far as the device alone knows."""
    lengths = torch.tensor([5, 1, 8], dtype=torch.int32)
    keys = Ragged(torch.arange(4, dtype=torch.int32) * 8, lengths, max_length=8, num_rows=24, pitch=8, packed=False)
    k, v, q = torch.randn(24, 2, 4), torch.randn(24, 2, 4), torch.randn(3, 2, 4)
    call = Call(q=q, k=k, v=v, queries=Ragged.of([1] * 3), keys=keys, scale=0.5, causal=True, window=window)
    mask = torch.zeros(3, 8).masked_fill(~keys.held, -torch.inf) if masked else None
    found = kernels.slots(replace(call, keys=replace(keys, mask=mask)))
    torch.testing.assert_close(found, kernels.eager(call))
    torch.testing.assert_close(kernels.automatic(call), kernels.eager(call))


@BOTH
def test_dropout_drops_weights_and_keeps_their_expectation(kernel):
    case = plain([6], heads=1, width=1)
    ones = torch.ones(6, 1, 1, dtype=torch.float64)
    call = Call(**{**case.call.__dict__, "v": ones, "dropout": 0.5})
    outs = torch.stack([kernel(call).detach() for _ in range(400)])
    assert outs.std() > 0.05
    assert abs(outs.mean() - 1.0) < 0.05


@pytest.mark.filterwarnings("ignore:TF32")
def test_eager_computes_its_softmax_in_fp32_for_halves():
    case = plain([5, 3], dtype=torch.bfloat16)
    wide = Call(**{**case.call.__dict__, **{x: getattr(case.call, x).double() for x in "qkv"}})
    with torch.backends.mkldnn.flags(enabled=False):  # see test_kernels_and_dtypes_agree
        found = kernels.eager(case.call)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.double(), kernels.eager(wide), rtol=0.02, atol=0.02)


@pytest.mark.parametrize(
    ("device", "dtype", "bias", "name"),
    [
        ("cpu", torch.float32, None, "sdpa"),
        ("cpu", torch.bfloat16, None, "sdpa"),
        ("cuda", torch.float32, None, "sdpa"),
        ("cuda", torch.bfloat16, None, "varlen"),
        ("cuda", torch.float16, Bias(torch.zeros(1, 1)), "biased"),
        ("cuda", torch.bfloat16, Bias(torch.zeros(1, 1, 1)), "sdpa"),
        ("cuda", torch.bfloat16, Bias(torch.zeros(1, 1, 1), torch.zeros(1, 1)), "eager"),
        ("cpu", torch.float32, Bias(torch.zeros(1, 1)), "sdpa"),
    ],
)
def test_choice(device, dtype, bias, name):
    assert kernels.choice(device, dtype, bias) == name


class Leaf(nn.Module):
    def __init__(self):
        super().__init__()
        self.kernel = kernels.automatic


def test_use_reaches_every_attention_and_auto_gives_the_choice_back():
    model = nn.Sequential(Leaf(), nn.Sequential(nn.Linear(1, 1), Leaf()))
    kernels.use(model, "eager")
    assert model[0].kernel is model[1][1].kernel is kernels.eager
    kernels.use(model, "auto")
    assert model[0].kernel is model[1][1].kernel is kernels.automatic


def test_use_names_the_nearest_kernel():
    with pytest.raises(UsageError, match=r"'egaer'; did you mean 'eager'\?.*auto, eager, sdpa, varlen, biased"):
        kernels.use(nn.Sequential(Leaf()), "egaer")
