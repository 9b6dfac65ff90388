"""ELECTRA (Clark et al. 2020): a generator that fills masks and a discriminator that finds what it filled in.

Sizes of the paper's table 6: the generator is as deep as the discriminator and a quarter (base: a third) as wide.
"""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from qkv.common.errors import UsageError
from qkv.models.bert import BertConfig, build
from qkv.models.position import PositionConfig
from qkv.models.skeleton import Transformer
from qkv.nn.embeddings import TextEmbeddings

# What must be equal on both sides, so that they can share their embeddings.
SHARED = ("vocab_size", "max_length", "num_segments", "position")


class ElectraPair(nn.Module):
    """A generator and a discriminator over one set of embeddings (Clark et al. 2020, section 3.2).

    The discriminator owns the tables; the generator and its tied head read them. As in the authors' code, tokens,
    positions, segments and their norm are shared, but not the projection to each side's width. After pre-training the
    discriminator is the model, and the generator is dropped.
    """

    def __init__(self, *, generator: Transformer, discriminator: Transformer) -> None:
        super().__init__()
        self.generator, self.discriminator = generator, discriminator
        mine, owner = generator.embeddings, discriminator.embeddings
        if not isinstance(mine, TextEmbeddings) or not isinstance(owner, TextEmbeddings):
            raise UsageError("the generator and the discriminator must both be models of text")
        mine.token, mine.segment, mine.position, mine.norm = owner.token, owner.segment, owner.position, owner.norm


def build_pair(*, generator: BertConfig, discriminator: BertConfig) -> ElectraPair:
    """Build both sides, for example of the presets electra-small-generator and electra-small."""
    widths = [config.embedding_dim or config.dim for config in (generator, discriminator)]
    if widths[0] != widths[1]:
        raise UsageError(f"a generator shares the embeddings: embedding_dim must be {widths[1]}, got {widths[0]}")
    for name in SHARED:
        mine, owner = getattr(generator, name), getattr(discriminator, name)
        if mine != owner:
            raise UsageError(f"a generator shares the embeddings: {name} must be {owner!r}, got {mine!r}")
    return ElectraPair(generator=build(generator), discriminator=build(discriminator))


def _pair(num_layers: int, dim: int, embedding_dim: int, generator_dim: int) -> tuple[BertConfig, BertConfig]:
    def side(width: int, head: str) -> BertConfig:
        return BertConfig(
            num_layers=num_layers,
            dim=width,
            num_heads=width // 64,
            ff_dim=4 * width,
            embedding_dim=embedding_dim,
            heads=(head,),
            flavour="electra",
        )

    return side(dim, "replaced"), side(generator_dim, "mlm")


PRESETS: dict[str, BertConfig] = {}
PRESETS["electra-small"], PRESETS["electra-small-generator"] = _pair(12, 256, 128, 64)
PRESETS["electra-small-rotary"] = replace(
    PRESETS["electra-small"], position=PositionConfig(name="rotary"), flavour="roformer"
)
PRESETS["electra-base"], PRESETS["electra-base-generator"] = _pair(12, 768, 768, 256)
PRESETS["electra-large"], PRESETS["electra-large-generator"] = _pair(24, 1024, 1024, 256)
