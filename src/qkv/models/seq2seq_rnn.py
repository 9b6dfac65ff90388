"""The recurrent encoder-decoder with attention (Bahdanau et al. 2015; Luong et al. 2015), for comparison."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from qkv.common.batch import Pairs, Tokens
from qkv.common.errors import UsageError
from qkv.common.outputs import Hidden
from qkv.common.ragged import Ragged
from qkv.models.skeleton import Headed
from qkv.nn.dropout import Dropout
from qkv.nn.heads import LanguageHead
from qkv.nn.init import initialise
from qkv.nn.recurrent import RecurrentDecoder, RecurrentEncoder, RecurrentState


@dataclass(frozen=True, kw_only=True)
class RNNConfig:
    """Hyperparameters of a recurrent encoder-decoder. It has no position scheme: recurrence knows the order.

    Attributes:
        vocab_size: V, of both sides.
        dim: width of embeddings and states; half of it per direction in the encoder.
        num_layers: layers of each side.
        cell: lstm or gru.
        score: the attention score: dot, general or additive.
        dropout: on embeddings, between layers and on outputs.
        start_id: the token that starts a target.
        end_id: the token that ends a sequence.
    """

    vocab_size: int = 10_000
    dim: int = 512
    num_layers: int = 1
    cell: str = "lstm"
    score: str = "additive"
    dropout: float = 0.3
    start_id: int = 0
    end_id: int = 1

    heads = ("lm",)


class RecurrentSeq2Seq(Headed):
    """Bidirectional encoder, decoder with attention, one token table."""

    def __init__(self, config: RNNConfig) -> None:
        super().__init__()
        recurrent = {"cell": config.cell, "num_layers": config.num_layers, "dropout": config.dropout}
        self.token = nn.Embedding(config.vocab_size, config.dim)
        self.encoder = RecurrentEncoder(config.dim, **recurrent)  # type: ignore[arg-type]
        self.decoder = RecurrentDecoder(config.dim, score=config.score, **recurrent)  # type: ignore[arg-type]
        self.dropout = Dropout(config.dropout)
        self._own_heads({"lm": LanguageHead(config.dim, config.vocab_size, bias=True)}, None)

    @property
    def table(self) -> Tensor:
        """The token table that the head reads. Shape: [V, D]."""
        return self.token.weight

    def encode(self, source: Tokens) -> tuple[Hidden, RecurrentState]:
        """Compute the memory and the decoder's first state."""
        with self._fp32():
            states, last = self.encoder(self.dropout(self.token(source.ids)), source.layout)
            return Hidden(states, source.layout), self.decoder.begin(last)

    def encoder_states(self, batch: Tokens) -> Hidden:
        """Compute the hidden states of the source."""
        return self.encode(batch)[0]

    def decode(self, target: Tokens, memory: Hidden, state: RecurrentState) -> tuple[Hidden, RecurrentState]:
        """Read target tokens from a state on; returns their outputs and the state after them."""
        with self._fp32():
            x, state = self.decoder(self.dropout(self.token(target.ids)), target.layout, memory, state)
            return Hidden(x, target.layout), state

    def _fp32(self) -> torch.autocast:
        """Keep fp32 under autocast, where cuDNN's recurrent kernels would use fp16 whatever the other kernels use."""
        return torch.autocast(self.token.weight.device.type, enabled=False)

    def forward(self, batch: Pairs) -> Hidden:
        """Compute the outputs of every target token."""
        memory, state = self.encode(batch.source)
        return self.decode(batch.target, memory, state)[0]

    @torch.no_grad()
    def start(self, source: Tokens) -> RecurrentDecoding:
        """Read the sources and return a stepper; its first step takes the start tokens of the targets."""
        return RecurrentDecoding(self, *self.encode(source))


class RecurrentDecoding:
    """A recurrent network during decoding; its attention needs a memory for each row."""

    def __init__(self, model: RecurrentSeq2Seq, memory: Hidden, state: RecurrentState) -> None:
        self.model, self.memory, self.state = model, memory, state
        self.device = memory.states.device
        self.layout = Ragged.of([1] * memory.layout.num_sequences, self.device)
        self._source, self._of_row = memory, list(range(memory.layout.num_sequences))

    @torch.no_grad()
    def step(self, ids: Tensor) -> Tensor:
        """Shape: [R] -> [R, V]."""
        hidden, self.state = self.model.decode(Tokens(ids, self.layout), self.memory, self.state)
        return self.model.logits(hidden, "lm")

    def best(self, ids: Tensor, count: int) -> None:
        """The search chooses from all logits."""

    def fixed(self, beams: int, longest: int) -> None:
        """A recurrent step is not recorded."""

    def reorder(self, rows: Tensor) -> None:
        """Make row i continue what row `rows[i]` held."""
        self.state = self.state.select(rows)
        of_row = [self._of_row[row] for row in rows.tolist()]
        if of_row == self._of_row:  # rows moved within their sequences: each still has the same memory
            return
        self._of_row = of_row
        self.layout = Ragged.of([1] * len(of_row), self.device)
        parts, lengths = self._source.split(), self._source.layout.host_lengths
        states = torch.cat([parts[b] for b in of_row])
        self.memory = Hidden(states, Ragged.of([lengths[b] for b in of_row], self.device))


def build(config: RNNConfig) -> RecurrentSeq2Seq:
    """Build a recurrent encoder-decoder."""
    if config.dim % 2:
        raise UsageError(f"dim must be even, half for each direction of the encoder, got {config.dim}")
    model = RecurrentSeq2Seq(config)
    initialise(model, "rnn")
    return model


PRESETS = {
    "rnn-small": RNNConfig(dim=256),
    "rnn-base": RNNConfig(dim=512),
    "rnn-base-dot": RNNConfig(dim=512, score="dot"),
    "rnn-large": RNNConfig(dim=1024, num_layers=2),
}
