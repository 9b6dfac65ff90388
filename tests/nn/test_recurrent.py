"""Recurrence over ragged rows against torch's own modules, one sequence at a time."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from qkv.common.errors import UsageError
from qkv.common.outputs import Hidden
from qkv.common.ragged import Ragged
from qkv.nn.recurrent import RecurrentDecoder, RecurrentEncoder, RecurrentState, SegmentAttention, segment_softmax

D = 6
LENGTHS = st.lists(st.integers(1, 6), min_size=1, max_size=5)
BOTH = pytest.mark.parametrize("cell", ["lstm", "gru"])
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def ready(module):
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.4)
    return module.eval()


@BOTH
@pytest.mark.parametrize("layers", [1, 2])
def test_the_encoder_is_torch_s_over_each_sequence(cell, layers):
    encoder = ready(RecurrentEncoder(D, cell=cell, num_layers=layers))
    theirs = {"lstm": nn.LSTM, "gru": nn.GRU}[cell](D, D // 2, layers, bidirectional=True, batch_first=True)
    theirs.load_state_dict(encoder.rnn.state_dict())
    layout = Ragged.of([2, 5, 1, 5])
    x = torch.randn(13, D)
    states, last = encoder(x, layout)
    for b, (part, found) in enumerate(zip(layout.split(x), layout.split(states), strict=True)):
        wanted, end = theirs(part.unsqueeze(0))
        torch.testing.assert_close(found, wanted[0], **CLOSE)
        ends = end if isinstance(end, tuple) else (end,)
        for ours, directions in zip((last.hidden, last.cell), ends, strict=False):
            for layer in range(layers):
                joined = torch.cat([directions[2 * layer, 0], directions[2 * layer + 1, 0]])
                torch.testing.assert_close(ours[layer, b], joined, **CLOSE)
    assert (last.cell is None) == (cell == "gru")


@BOTH
@pytest.mark.parametrize("score", ["dot", "general", "additive"])
@pytest.mark.parametrize("layers", [1, 2])
def test_a_batch_is_its_sequences_one_by_one(cell, score, layers):
    decoder = ready(RecurrentDecoder(D, cell=cell, num_layers=layers, score=score))
    targets, sources = Ragged.of([2, 5, 1, 3]), Ragged.of([4, 1, 6, 2])
    x, memory = torch.randn(11, D), torch.randn(13, D)
    state = RecurrentState(
        torch.randn(layers, 4, D), torch.randn(layers, 4, D) if cell == "lstm" else None, torch.randn(4, D)
    )
    out, end = decoder(x, targets, Hidden(memory, sources), state)
    for b in range(4):
        part, source = targets.split(x)[b], sources.split(memory)[b]
        one, last = decoder(
            part, Ragged.of([len(part)]), Hidden(source, Ragged.of([len(source)])), state.select(torch.tensor([b]))
        )
        torch.testing.assert_close(targets.split(out)[b], one, **CLOSE)
        torch.testing.assert_close(end.hidden[:, b], last.hidden[:, 0], **CLOSE)
        torch.testing.assert_close(end.fed[b], last.fed[0], **CLOSE)
        if cell == "lstm":
            torch.testing.assert_close(end.cell[:, b], last.cell[:, 0], **CLOSE)


def test_one_sequence_is_the_paper_s_recurrence():
    decoder = ready(RecurrentDecoder(D, cell="gru", score="dot"))
    x, memory = torch.randn(3, D), torch.randn(4, D)
    hidden, fed = torch.randn(D), torch.zeros(D)
    cell = nn.GRUCell(2 * D, D)
    cell.load_state_dict({name.removesuffix("_l0"): value for name, value in decoder.rnn.state_dict().items()})
    wanted, state = [], hidden
    for step in x:
        state = cell(torch.cat([step, fed]).unsqueeze(0), state.unsqueeze(0))[0]
        context = (memory @ state).softmax(0) @ memory
        fed = torch.tanh(decoder.combine(torch.cat([context, state])))
        wanted.append(fed)
    start = RecurrentState(hidden.view(1, 1, D), None, torch.zeros(1, D))
    found, _ = decoder(x, Ragged.of([3]), Hidden(memory, Ragged.of([4])), start)
    torch.testing.assert_close(found, torch.stack(wanted), **CLOSE)


@BOTH
def test_steps_that_carry_the_state_are_the_whole(cell):
    decoder = ready(RecurrentDecoder(D, cell=cell))
    targets, sources = Ragged.of([3, 3]), Ragged.of([2, 4])
    memory, x = Hidden(torch.randn(6, D), sources), torch.randn(6, D)
    zeros = torch.zeros(1, 2, D)
    state = RecurrentState(zeros, zeros if cell == "lstm" else None, torch.zeros(2, D))
    whole, end = decoder(x, targets, memory, state)
    steps = []
    for i in range(3):
        out, state = decoder(x[[i, 3 + i]], Ragged.of([1, 1]), memory, state)
        steps.append(out)
    torch.testing.assert_close(torch.stack(steps, 1).flatten(0, 1), whole, **CLOSE)
    torch.testing.assert_close(state.hidden, end.hidden, **CLOSE)


def test_begin_bridges_both_states():
    decoder = ready(RecurrentDecoder(D))
    state = RecurrentState(torch.randn(1, 2, D), torch.randn(1, 2, D), torch.randn(2, D))
    begun = decoder.begin(state)
    weight, bias = decoder.bridge.weight, decoder.bridge.bias
    torch.testing.assert_close(begun.hidden, torch.tanh(state.hidden @ weight.t() + bias))
    torch.testing.assert_close(begun.cell, torch.tanh(state.cell @ weight.t() + bias))


def test_select_keeps_repeats_and_reorders():
    state = RecurrentState(torch.randn(1, 3, D), torch.randn(1, 3, D), torch.randn(3, D))
    picked = state.select(torch.tensor([2, 0, 2]))
    assert torch.equal(picked.hidden, state.hidden[:, [2, 0, 2]])
    assert torch.equal(picked.cell, state.cell[:, [2, 0, 2]])
    assert torch.equal(picked.fed, state.fed[[2, 0, 2]])


SCORES = {
    "dot": lambda part, q, m: q @ m,
    "general": lambda part, q, m: q @ (part.key.weight @ m),
    "additive": lambda part, q, m: (
        part.sum.weight[0] @ torch.tanh(part.query.weight @ q + part.query.bias + part.key.weight @ m)
    ),
}


@pytest.mark.parametrize("score", SCORES)
def test_scores_are_the_papers(score):
    part = ready(SegmentAttention(D, score=score))
    layout = Ragged.of([3, 1, 4])
    q, memory = torch.randn(3, D), torch.randn(8, D)
    context, weights = part(q, memory, part.key(memory), layout.sequence_of)
    for b, (rows, share) in enumerate(zip(layout.split(memory), layout.split(weights), strict=True)):
        wanted = torch.stack([SCORES[score](part, q[b], m) for m in rows]).softmax(0)
        torch.testing.assert_close(share, wanted, **CLOSE)
        torch.testing.assert_close(context[b], wanted @ rows, **CLOSE)


@given(LENGTHS)
def test_segment_softmax_is_the_softmax_of_each_segment(lengths):
    layout = Ragged.of(lengths)
    scores = torch.randn(sum(lengths), dtype=torch.float64, requires_grad=True)
    found = segment_softmax(scores, layout.sequence_of, len(lengths))
    wanted = torch.cat([part.softmax(0) for part in layout.split(scores)])
    torch.testing.assert_close(found, wanted)
    upstream = torch.randn_like(found)
    ours, theirs = (torch.autograd.grad(y, scores, upstream)[0] for y in (found, wanted))
    torch.testing.assert_close(ours, theirs)


def test_segment_softmax_of_large_scores_stays_finite():
    found = segment_softmax(torch.tensor([1000.0, 1000.0, -1000.0]), torch.tensor([0, 0, 1]), 2)
    assert found.tolist() == [0.5, 0.5, 1.0]


def test_unknown_cells_and_scores_are_named():
    with pytest.raises(UsageError, match=r"'lsmt'; did you mean 'lstm'"):
        RecurrentEncoder(D, cell="lsmt")
    with pytest.raises(UsageError, match="dot, general, additive"):
        SegmentAttention(D, score="cosine")


def test_an_unknown_cell_of_the_decoder_is_named():
    with pytest.raises(UsageError, match=r"lstm, gru"):
        RecurrentDecoder(D, cell="rnn")
