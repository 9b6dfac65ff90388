"""Word vectors (Mikolov et al. 2013): a table of input vectors and a table of output vectors, nothing between them.

GloVe (Pennington et al. 2014) learns the same two tables, with a bias for each word of both.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from qkv.common.batch import Tokens
from qkv.common.outputs import Hidden
from qkv.models.skeleton import Headed
from qkv.nn.heads import LanguageHead


@dataclass(frozen=True, kw_only=True)
class Word2VecConfig:
    """Hyperparameters of word vectors. Windows, noise and rare words belong to the data and the objective.

    Attributes:
        vocab_size: V.
        dim: width of the vectors.
    """

    vocab_size: int = 10_000
    dim: int = 100

    heads = ("context",)


class Word2Vec(Headed):
    """Two tables. A token's hidden state is its input vector, and the head "context" scores the words near it."""

    def __init__(self, config: Word2VecConfig) -> None:
        super().__init__()
        self.inputs = nn.Embedding(config.vocab_size, config.dim)
        self.outputs = nn.Embedding(config.vocab_size, config.dim)
        self._own_heads({"context": LanguageHead(config.dim, config.vocab_size)}, None)

    @property
    def table(self) -> Tensor:
        """The output vectors, which the head reads. Shape: [V, D]."""
        return self.outputs.weight

    def forward(self, batch: Tokens) -> Hidden:
        """Look every token up."""
        return Hidden(self.inputs(batch.ids), batch.layout)


class Glove(Word2Vec):
    """GloVe during training; the result is `summed`."""

    def __init__(self, config: Word2VecConfig) -> None:
        super().__init__(config)
        self.input_bias = nn.Embedding(config.vocab_size, 1)
        self.output_bias = nn.Embedding(config.vocab_size, 1)
        self._config = config

    @torch.no_grad()
    def summed(self) -> Word2Vec:
        """Return the sum of both tables as word vectors; the two differ only by their random start (section 4.2)."""
        found = Word2Vec(self._config)
        found.inputs.weight.copy_(self.inputs.weight + self.outputs.weight)
        found.outputs.weight.copy_(self.outputs.weight)
        return found


def build_glove(config: Word2VecConfig) -> Glove:
    """Build the model that GloVe trains, with the initial weights of the authors' code: small, in all four tables."""
    model = Glove(config)
    for weight in model.parameters():
        nn.init.uniform_(weight, -0.5 / config.dim, 0.5 / config.dim)
    return model


def build(config: Word2VecConfig) -> Word2Vec:
    """Build word vectors, with the initial weights of the authors' code: small for inputs, zero for outputs."""
    model = Word2Vec(config)
    nn.init.uniform_(model.inputs.weight, -0.5 / config.dim, 0.5 / config.dim)
    nn.init.zeros_(model.outputs.weight)
    return model


PRESETS = {
    "word2vec-small": Word2VecConfig(dim=100),
    "word2vec-base": Word2VecConfig(vocab_size=30_000, dim=300),
    "word2vec-news": Word2VecConfig(vocab_size=3_000_000, dim=300),  # the size of the released Google News vectors
}
