"""Word vectors (Mikolov et al. 2013): a table of words read and a table of words asked for, and nothing between.

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
    """Numbers of word vectors. Windows, noise and rare words are the data's and the objective's.

    Attributes:
        vocab_size: V.
        dim: width of the vectors.
    """

    vocab_size: int = 10_000
    dim: int = 100

    heads = ("context",)


class Word2Vec(Headed):
    """Two tables. As a model, a token's state is its vector, and the head "context" scores the words near it."""

    def __init__(self, config: Word2VecConfig) -> None:
        super().__init__()
        self.inputs = nn.Embedding(config.vocab_size, config.dim)
        self.outputs = nn.Embedding(config.vocab_size, config.dim)
        self._own_heads({"context": LanguageHead(config.dim, config.vocab_size)}, None)

    @property
    def table(self) -> Tensor:
        """The table that the head reads: the words asked for. Shape: [V, D]."""
        return self.outputs.weight

    def forward(self, batch: Tokens) -> Hidden:
        """Look every token up."""
        return Hidden(self.inputs(batch.ids), batch.layout)


class Glove(Word2Vec):
    """GloVe while it learns; what is kept of it is `summed`."""

    def __init__(self, config: Word2VecConfig) -> None:
        super().__init__(config)
        self.input_bias = nn.Embedding(config.vocab_size, 1)
        self.output_bias = nn.Embedding(config.vocab_size, 1)
        self._config = config

    @torch.no_grad()
    def summed(self) -> Word2Vec:
        """Return word vectors that are the sum of both tables, which are alike but for chance (section 4.2)."""
        found = Word2Vec(self._config)
        found.inputs.weight.copy_(self.inputs.weight + self.outputs.weight)
        found.outputs.weight.copy_(self.outputs.weight)
        return found


def build_glove(config: Word2VecConfig) -> Glove:
    """Build what GloVe trains, with the first weights of the authors' code: small, in all four tables."""
    model = Glove(config)
    for weight in model.parameters():
        nn.init.uniform_(weight, -0.5 / config.dim, 0.5 / config.dim)
    return model


def build(config: Word2VecConfig) -> Word2Vec:
    """Build word vectors, with the first weights of the authors' code: small for words read, zero for words asked."""
    model = Word2Vec(config)
    nn.init.uniform_(model.inputs.weight, -0.5 / config.dim, 0.5 / config.dim)
    nn.init.zeros_(model.outputs.weight)
    return model


PRESETS = {
    "word2vec-small": Word2VecConfig(dim=100),
    "word2vec-base": Word2VecConfig(vocab_size=30_000, dim=300),
    "word2vec-news": Word2VecConfig(vocab_size=3_000_000, dim=300),  # the size of the released Google News vectors
}
