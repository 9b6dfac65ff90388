"""ViT (Dosovitskiy et al. 2021) and DeiT with its distillation token (Touvron et al. 2021): patches as tokens.

Options that Hugging Face's ViT does not have: a convolutional stem (Xiao et al. 2021), attention within windows, and
2-D sinusoidal positions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from qkv.common.errors import UsageError, unknown
from qkv.models.parts import build_heads, build_stack, norm_of
from qkv.models.position import Added, PositionConfig, added_position
from qkv.models.skeleton import Transformer
from qkv.nn.embeddings import PatchEmbeddings
from qkv.nn.grid import GridPosition
from qkv.nn.heads import DistilledHead, Pooler, SequenceHead
from qkv.nn.image_convolution import ConvolutionalStem
from qkv.nn.init import initialise
from qkv.nn.stack import Stack
from qkv.nn.windows import WindowedStack

GRID = "sinusoidal-2d"  # positions of rows and columns, beside the schemes of `POSITIONS`
STEMS = ("plain", "conv")


@dataclass(frozen=True, kw_only=True)
class PatchConfig:
    """How patches are made and grouped; the stem alone is enough.

    Attributes:
        stem: plain (one product per patch) or conv (convolutions of stride 2).
        window: patches on a side of the windows that every other layer attends within. 0 attends to the whole image.
    """

    stem: str = "plain"
    window: int = 0


@dataclass(frozen=True, kw_only=True)
class ViTConfig:
    """Hyperparameters of a ViT.

    Attributes:
        image_size: height and width of the images.
        patch_size: height and width of a patch.
        channels: of the images.
        dim: D.
        num_layers: layers.
        num_heads: attention heads of each.
        head_dim: width of a head where it is not dim / num_heads, as after pruning.
        ff_dim: width inside the feed-forward.
        activation: of the feed-forward.
        norm_eps: epsilon of the norms.
        dropout: on embeddings and before each residual sum.
        attention_dropout: on attention weights.
        position: how the positions of patches are encoded: one of `POSITIONS`, or sinusoidal-2d.
        patches: how patches are made and grouped.
        distilled: adds a distillation token after the class token (DeiT).
        heads: any of pool, classify, distilled.
        num_labels: classes.
    """

    image_size: int = 224
    patch_size: int = 16
    channels: int = 3
    dim: int = 768
    num_layers: int = 12
    num_heads: int = 12
    head_dim: int | None = None
    ff_dim: int = 3072
    activation: str = "gelu"
    norm_eps: float = 1e-12
    dropout: float = 0.0
    attention_dropout: float = 0.0
    position: PositionConfig = PositionConfig(name="learned")
    patches: PatchConfig = PatchConfig()
    distilled: bool = False
    heads: tuple[str, ...] = ("classify",)
    num_labels: int = 1000

    @property
    def grid(self) -> int:
        """Patches on a side of the image."""
        return self.image_size // self.patch_size

    @property
    def leading(self) -> int:
        """Tokens before the patches."""
        return 2 if self.distilled else 1

    @property
    def max_length(self) -> int:
        """Patches and leading tokens."""
        return self.grid**2 + self.leading


def build(config: ViTConfig) -> Transformer:
    """Build a ViT or a DeiT."""
    if config.patch_size < 1 or config.image_size < 1 or config.image_size % config.patch_size:
        raise UsageError(f"image_size {config.image_size} is not a multiple of patch_size {config.patch_size}")
    if "distilled" in config.heads and not config.distilled:
        raise UsageError("the head 'distilled' needs distilled = true: it reads the distillation token")
    embeddings = PatchEmbeddings(
        image_size=config.image_size,
        patch_size=config.patch_size,
        channels=config.channels,
        dim=config.dim,
        position=_position(config),
        stem=_stem(config),
        distilled=config.distilled,
        dropout=config.dropout,
    )
    stack = build_stack(
        position=PositionConfig(name="none") if config.position.name == GRID else config.position,
        max_length=config.max_length,
        attention={
            "dim": config.dim,
            "num_heads": config.num_heads,
            "head_dim": config.head_dim,
            "dropout": config.attention_dropout,
        },
        feedforward={"dim": config.dim, "ff_dim": config.ff_dim, "activation": config.activation},
        norm=norm_of("layer", config.dim, config.norm_eps),
        num_layers=config.num_layers,
        pre_norm=True,
        dropout=config.dropout,
        kind=_stack(config),
    )
    heads = build_heads(
        config.heads,
        {
            "classify": lambda: SequenceHead(config.dim, config.num_labels),
            "distilled": lambda: DistilledHead(config.dim, config.num_labels),
        },
    )
    pooler = Pooler(config.dim, activation="tanh" if "pool" in config.heads else None)
    model = Transformer(embeddings=embeddings, stack=stack, heads=heads, pooler=pooler)
    initialise(model, "vit")
    return model


def _position(config: ViTConfig) -> Added | None:
    if config.position.name == GRID:
        return GridPosition(config.dim, grid=config.grid, leading=config.leading)
    return added_position(config.position, max_length=config.max_length, dim=config.dim)


def _stem(config: ViTConfig) -> ConvolutionalStem | None:
    if config.patches.stem not in STEMS:
        raise unknown("stem", config.patches.stem, STEMS)
    return ConvolutionalStem(config.channels, config.dim, config.patch_size) if config.patches.stem == "conv" else None


def _stack(config: ViTConfig) -> Callable[..., Stack]:
    window = config.patches.window
    if not window:
        return Stack
    if config.position.name not in (GRID, "learned", "sinusoidal", "none"):
        raise UsageError(f"windows need positions that are added to the patches, not {config.position.name}")
    return partial(WindowedStack, grid=config.grid, window=window, leading=config.leading)


def _size(num_layers: int, dim: int, num_heads: int, **rest: object) -> ViTConfig:
    return ViTConfig(num_layers=num_layers, dim=dim, num_heads=num_heads, ff_dim=4 * dim, **rest)  # type: ignore[arg-type]


_DISTILLED = {"distilled": True, "heads": ("distilled",)}
PRESETS = {
    "vit-mini": ViTConfig(image_size=28, patch_size=4, channels=1, dim=128, num_layers=6, num_heads=4, ff_dim=256),
    "vit-ti16": _size(12, 192, 3),
    "vit-s16": _size(12, 384, 6),
    "vit-b16": _size(12, 768, 12),
    "vit-l16": _size(24, 1024, 16),
}
DEIT_PRESETS = {
    "deit-ti16": _size(12, 192, 3, **_DISTILLED),
    "deit-s16": _size(12, 384, 6, **_DISTILLED),
    "deit-b16": _size(12, 768, 12, **_DISTILLED),
}
