"""A small convolutional network: residual blocks (He et al. 2016) with group norm (Wu & He 2018).

A baseline for ViT, and a teacher for DeiT: Touvron et al. 2021 found that convolutional networks teach best.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from qkv.common.batch import Images
from qkv.common.errors import UsageError
from qkv.common.outputs import Hidden
from qkv.common.ragged import Ragged
from qkv.models.parts import build_heads
from qkv.models.skeleton import Headed
from qkv.nn.dropout import Dropout
from qkv.nn.embeddings import check_pixels
from qkv.nn.heads import Head, Pooler, SequenceHead
from qkv.nn.image_convolution import ResidualBlock, group_norm
from qkv.nn.init import initialise


@dataclass(frozen=True, kw_only=True)
class ConvNetConfig:
    """Hyperparameters of a convolutional network.

    Attributes:
        image_size: height and width of the images.
        channels: of the images.
        dim: channels of the last stage; each stage before it has half.
        num_layers: residual blocks, two convolutions each, spread over the stages.
        num_stages: each stage after the first halves height and width.
        dropout: before the head.
        heads: any of pool, classify.
        num_labels: classes.
    """

    image_size: int = 32
    channels: int = 3
    dim: int = 256
    num_layers: int = 6
    num_stages: int = 3
    dropout: float = 0.0
    heads: tuple[str, ...] = ("classify",)
    num_labels: int = 10


class ConvNet(Headed):
    """Convolution, residual blocks, mean over the image: one row for each image."""

    fixed_shapes = True

    def __init__(self, config: ConvNetConfig, widths: list[int], heads: Mapping[str, Head], pooler: Pooler) -> None:
        super().__init__()
        self.shape = (config.channels, config.image_size, config.image_size)
        self.stem = nn.Conv2d(config.channels, widths[0], 3, padding=1, bias=False)
        before = [widths[0], *widths[:-1]]
        self.blocks = nn.ModuleList(
            ResidualBlock(old, new, stride=1 if old == new else 2) for old, new in zip(before, widths, strict=True)
        )
        self.norm, self.act = group_norm(config.dim), nn.ReLU()
        self.dropout = Dropout(config.dropout)
        self._own_heads(heads, pooler)

    def forward(self, batch: Images) -> Hidden:
        """Compute the features of each image. Shape: [B, C, H, W] -> B rows."""
        x = self.features(batch)
        return Hidden(x, Ragged.equal(len(x), 1, x.device))

    def features(self, batch: Images) -> Tensor:
        """Compute one row for each image. Shape: [B, C, H, W] -> [B, D]."""
        check_pixels(batch, self.shape)
        x: Tensor = self.stem(batch.pixels)
        for block in self.blocks:
            x = block(x)
        return self.dropout(self.act(self.norm(x)).mean((2, 3)))


def build(config: ConvNetConfig) -> ConvNet:
    """Build a convolutional network."""
    stages, layers = config.num_stages, config.num_layers
    if not 1 <= stages <= layers:
        raise UsageError(f"num_stages must be from 1 to num_layers ({layers}), got {stages}")
    if config.dim % (1 << (stages - 1)):
        raise UsageError(f"dim {config.dim} cannot be halved {stages - 1} times, for num_stages {stages}")
    widths = [config.dim >> (stages - 1 - number * stages // layers) for number in range(layers)]
    heads = build_heads(config.heads, {"classify": lambda: SequenceHead(config.dim, config.num_labels)})
    pooler = Pooler(config.dim, activation="tanh" if "pool" in config.heads else None)
    model = ConvNet(config, widths, heads, pooler)
    initialise(model, "convnet")
    return model


PRESETS = {
    "convnet-mini": ConvNetConfig(dim=128, num_layers=6),
    "convnet-small": ConvNetConfig(dim=256, num_layers=9),
    "convnet-base": ConvNetConfig(dim=512, num_layers=12, num_stages=4),
}
