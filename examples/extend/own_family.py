"""Add your own model family to the catalogue: a convolutional network over ragged rows (after Kim 2014).

Run it: python examples/extend/own_family.py
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

import qkv
from qkv.common.batch import Tokens
from qkv.common.outputs import Hidden
from qkv.models.catalogue import Family, add_family
from qkv.models.skeleton import Headed
from qkv.nn.convolution import CausalConvolution
from qkv.nn.heads import Pooler, SequenceHead, TokenHead


@dataclass(frozen=True, kw_only=True)
class ConvConfig:
    """Configuration of a convolutional network.

    Attributes:
        vocab_size: vocabulary size (V).
        dim: model width (D).
        num_layers: convolutions; each doubles the dilation of the previous one.
        conv_width: kernel size of a convolution, in tokens.
        max_length: maximum sequence length.
        heads: any of classify, tag.
        num_labels: number of labels of classify and tag.
    """

    vocab_size: int = 1000
    dim: int = 64
    num_layers: int = 2
    conv_width: int = 3
    max_length: int = 512
    heads: tuple[str, ...] = ("classify",)
    num_labels: int = 2


class ConvNet(Headed):
    """Embeddings, convolutions with skip connections, and heads. The last state of a text depends on all tokens."""

    def __init__(self, config: ConvConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.vocab_size, config.dim)
        self.layers = nn.ModuleList(
            CausalConvolution(config.dim, config.dim, width=config.conv_width, dilation=2**number)
            for number in range(config.num_layers)
        )
        makers = {"classify": SequenceHead, "tag": TokenHead}
        heads = {name: makers[name](config.dim, config.num_labels) for name in config.heads if name in makers}
        self._own_heads(heads, Pooler(config.dim, row="last"))

    @property
    def table(self) -> Tensor:
        """The token embeddings. Shape: [V, D]."""
        return self.embedding.weight

    def forward(self, batch: Tokens) -> Hidden:
        """Shape: [T] -> [T, D]; there is no padding to skip."""
        x = self.embedding(batch.ids)
        for layer in self.layers:
            x = x + layer(x, batch.layout).relu()
        return Hidden(x, batch.layout)


# One line adds it to the catalogue, for `model.preset=conv-tiny`, `qkv.build`, `qkv.load` and every task.
add_family("conv", Family(ConvConfig, ConvNet, {"conv-tiny": ConvConfig()}))


def main() -> None:
    """Train a classifier of this family on a table and load it."""
    with tempfile.TemporaryDirectory() as place:
        table = Path(place) / "reviews.tsv"
        rows = [f"a {'good' if n % 2 else 'bad'} film, number {n}\t{'pos' if n % 2 else 'neg'}" for n in range(200)]
        table.write_text("\n".join(["text\tlabel", *rows]) + "\n")
        changes = {"data.train": str(table), "model.preset": "conv-tiny", "out": f"{place}/run", "optim.lr": 5e-3}
        more = {"tokenizer.vocab_size": 200, "train.epochs": 6, "train.tokens": 512}
        qkv.train("classify", changes={**changes, **more}, device="cpu")
        model = qkv.load(f"{place}/run", device="cpu")
        answers = [label.label for label in model.classify(["a good film, number 301", "a bad film, number 300"])]
        print(f"{model.family}: {answers}")


if __name__ == "__main__":
    torch.manual_seed(0)
    main()
