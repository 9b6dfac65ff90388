"""Recurrent encoder and decoder with attention, the predecessor of the Transformer, on the same ragged rows.

    source ─► forward and backward LSTM/GRU ─► memory_SD
                                                  │ attend
    previous token, previous context ─► LSTM/GRU ─┴─► state, context ─► tanh(W [state; context])

(Bahdanau et al. 2015; Luong et al. 2015, with its input feeding.)
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from qkv.common.errors import unknown
from qkv.common.outputs import Hidden
from qkv.common.ragged import Ragged
from qkv.nn.dropout import Dropout
from qkv.nn.linear import Linear
from qkv.nn.tap import Tap

CELLS: dict[str, type[nn.LSTM] | type[nn.GRU]] = {"lstm": nn.LSTM, "gru": nn.GRU}
SCORES = ("dot", "general", "additive")


@dataclass(frozen=True, eq=False)
class RecurrentState:
    """The state that a decoder carries from one token to the next, one row per sequence.

    Attributes:
        hidden: Shape: [layers, B, D].
        cell: an LSTM's second state, or None. Shape: [layers, B, D].
        fed: the last output, fed to the next step. Shape: [B, D].
    """

    hidden: Tensor
    cell: Tensor | None
    fed: Tensor

    def select(self, sequences: Tensor) -> RecurrentState:
        """Keep, repeat or reorder sequences."""
        cell = None if self.cell is None else self.cell[:, sequences]
        return RecurrentState(self.hidden[:, sequences], cell, self.fed[sequences])


class RecurrentEncoder(nn.Module):
    """Bidirectional LSTM or GRU over ragged rows; half of `dim` per direction."""

    def __init__(self, dim: int, *, cell: str = "lstm", num_layers: int = 1, dropout: float = 0.0) -> None:
        super().__init__()
        self.rnn = _rnn(cell, dim, dim // 2, num_layers, dropout, bidirectional=True)

    def forward(self, x: Tensor, layout: Ragged) -> tuple[Tensor, RecurrentState]:
        """Return the states of every token and the last of each direction. Shape: [S, D] -> [S, D]."""
        times = TimeMajor.of(layout)
        packed, last = self.rnn(PackedSequence(x[times.rows], times.sizes))
        states = torch.empty_like(packed.data).index_copy(0, times.rows, packed.data)
        hidden, cell = last if isinstance(last, tuple) else (last, None)
        hidden = _join_directions(hidden)[:, times.rank]
        cell = None if cell is None else _join_directions(cell)[:, times.rank]
        return states, RecurrentState(hidden, cell, torch.zeros_like(hidden[0]))


@dataclass(frozen=True, eq=False)
class Step:
    """What one step of a recurrent decoder attends to, for recorders.

    Attributes:
        weights: of each memory row in use. Shape: [S].
        sequence: the sequence of the batch that each row belongs to. Shape: [S].
    """

    weights: Tensor
    sequence: Tensor


class SegmentAttention(nn.Module):
    """One query vector attends to the memory rows of its own source.

    dot:       q · m                       (Luong et al. 2015)
    general:   q · W m                     (Luong et al. 2015)
    additive:  v · tanh(W q + U m)         (Bahdanau et al. 2015)
    """

    def __init__(self, dim: int, *, score: str = "dot") -> None:
        super().__init__()
        if score not in SCORES:
            raise unknown("attention score", score, SCORES)
        self.score = score
        self.key = nn.Identity() if score == "dot" else Linear(dim, dim, bias=False)
        self.query = Linear(dim, dim) if score == "additive" else nn.Identity()
        self.sum = Linear(dim, 1, bias=False) if score == "additive" else None
        self.tap = Tap()

    def forward(self, q: Tensor, memory: Tensor, key: Tensor, source: Tensor) -> tuple[Tensor, Tensor]:
        """Attend with one query per source.

        Args:
            q: Shape: [B, D].
            memory: Shape: [S, D].
            key: `self.key(memory)`, computed once for all steps. Shape: [S, D].
            source: the query each memory row belongs to. Shape: [S].

        Returns:
            The context [B, D] and the weights [S].
        """
        query = self.query(q)[source]
        scores = (query * key).sum(-1) if self.sum is None else self.sum(torch.tanh(query + key)).squeeze(-1)
        weights = segment_softmax(scores, source, len(q))
        context = torch.zeros_like(q).index_add(0, source, weights.unsqueeze(-1) * memory)
        return context, weights


class RecurrentDecoder(nn.Module):
    """LSTM or GRU that attends at every token; context and state are concatenated for the output."""

    def __init__(
        self, dim: int, *, cell: str = "lstm", num_layers: int = 1, score: str = "additive", dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.rnn = _rnn(cell, 2 * dim, dim, num_layers, dropout)
        self.attention = SegmentAttention(dim, score=score)
        self.combine = Linear(2 * dim, dim)
        self.bridge = Linear(dim, dim)
        self.dropout = Dropout(dropout)

    def begin(self, state: RecurrentState) -> RecurrentState:
        """Turn the encoder's last states into the decoder's first."""
        cell = None if state.cell is None else torch.tanh(self.bridge(state.cell))
        return RecurrentState(torch.tanh(self.bridge(state.hidden)), cell, state.fed)

    def forward(
        self, x: Tensor, layout: Ragged, memory: Hidden, state: RecurrentState
    ) -> tuple[Tensor, RecurrentState]:
        """Read target rows, one time step after the other; finished sequences leave the batch.

        Shape: [T, D] -> [T, D]. Sequence b of the target attends to source b of the memory.
        """
        times = TimeMajor.of(layout)
        # Sources in the order of falling target length, so that those still in use are always a prefix.
        source, rows = times.rank[memory.layout.sequence_of].sort(stable=True)
        states, sequence = memory.states[rows], times.order[source]
        self.attention.tap.begin(0)
        key = self.attention.key(states)
        ends = list(accumulate(memory.layout.host_lengths[b] for b in times.order.tolist()))
        state = state.select(times.order)
        outputs, ended, start = [], [], 0
        for count in times.sizes.tolist():
            if count < len(state.fed):
                ended.append(state.select(torch.arange(count, len(state.fed), device=x.device)))
                state = state.select(torch.arange(count, device=x.device))
            end = ends[count - 1]
            now = times.rows[start : start + count]
            out, state, weights = self._step(x[now], state, states[:end], key[:end], source[:end])
            self.attention.tap(Step(weights, sequence[:end]))
            outputs.append(out)
            start += count
        ended.append(state)
        y = torch.cat(outputs)
        return torch.empty_like(y).index_copy(0, times.rows, y), _join_states(ended[::-1]).select(times.rank)

    def _step(
        self, x: Tensor, state: RecurrentState, memory: Tensor, key: Tensor, source: Tensor
    ) -> tuple[Tensor, RecurrentState, Tensor]:
        fed = torch.cat([x, state.fed], dim=-1).unsqueeze(0)
        carried = state.hidden if state.cell is None else (state.hidden, state.cell)
        _, carried = self.rnn(fed, carried)
        hidden, cell = carried if isinstance(carried, tuple) else (carried, None)
        context, weights = self.attention(hidden[-1], memory, key, source)
        out = self.dropout(torch.tanh(self.combine(torch.cat([context, hidden[-1]], dim=-1))))
        return out, RecurrentState(hidden, cell, out), weights


@dataclass(frozen=True, eq=False)
class TimeMajor:
    """A layout read step by step: all first tokens, then all second ones, longest sequence first."""

    rows: Tensor  # the row of each (step, sequence), steps outermost. [T]
    sizes: Tensor  # sequences still running at each step. [steps], on the host
    order: Tensor  # sequences by falling length. [B]
    rank: Tensor  # where each sequence stands in that order. [B]

    @staticmethod
    def of(layout: Ragged) -> TimeMajor:
        """Plan the reading of a packed layout."""
        lengths = torch.tensor(layout.host_lengths)
        order = lengths.argsort(descending=True, stable=True)
        rank = torch.empty_like(order)
        rank[order] = torch.arange(len(order))
        step = torch.arange(int(lengths.max())).unsqueeze(1)
        running = step < lengths[order]
        starts = layout.offsets[:-1].cpu().long()[order]
        device = layout.offsets.device
        return TimeMajor(
            rows=(starts + step)[running].to(device),
            sizes=running.sum(1),
            order=order.to(device),
            rank=rank.to(device),
        )


def segment_softmax(scores: Tensor, segment: Tensor, num_segments: int) -> Tensor:
    """Softmax within each segment of a row. Shape: [S] -> [S]."""
    top = scores.new_full((num_segments,), -torch.inf).scatter_reduce(0, segment, scores.detach(), "amax")
    power = (scores - top[segment]).exp()
    return power / torch.zeros_like(top).index_add(0, segment, power)[segment]


def _rnn(
    cell: str, dim: int, out_dim: int, num_layers: int, dropout: float, *, bidirectional: bool = False
) -> nn.LSTM | nn.GRU:
    if cell not in CELLS:
        raise unknown("recurrent cell", cell, CELLS)
    between = dropout if num_layers > 1 else 0.0  # torch drops out between layers only, and warns if there is one layer
    return CELLS[cell](dim, out_dim, num_layers, bidirectional=bidirectional, dropout=between)


def _join_directions(x: Tensor) -> Tensor:
    """Shape: [layers · 2, B, D / 2] -> [layers, B, D]."""
    return torch.cat([x[0::2], x[1::2]], dim=-1)


def _join_states(states: list[RecurrentState]) -> RecurrentState:
    cells = [state.cell for state in states if state.cell is not None]
    return RecurrentState(
        hidden=torch.cat([state.hidden for state in states], dim=1),
        cell=torch.cat(cells, dim=1) if cells else None,
        fed=torch.cat([state.fed for state in states]),
    )
