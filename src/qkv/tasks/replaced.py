"""ELECTRA: a small generator fills hidden tokens, and the discriminator says which were replaced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from qkv.common.config import from_dict
from qkv.common.errors import UsageError
from qkv.models.bert import BertConfig
from qkv.models.electra import ElectraPair, build_pair
from qkv.objectives.replaced import ReplacedToken
from qkv.tasks.language import Hiding, left, taken
from qkv.tasks.sentences import SentencesTask


@dataclass(frozen=True, kw_only=True)
class Filling(Hiding):
    """How tokens are hidden, and who fills them.

    Attributes:
        generator_share: how wide the generator is, as a share of the discriminator.
    """

    generator_share: float = 0.25


class ReplacedTask(SentencesTask):
    """Both models learn at once and share their embeddings (Clark et al. 2020); batches are those of masked tokens."""

    heads = ("replaced",)

    def build(self, config: Any, settings: Mapping[str, Any]) -> ElectraPair:
        """Build the pair: the generator is as deep as the discriminator and `generator_share` as wide."""
        if not isinstance(config, BertConfig):
            raise UsageError("replaced tokens need a model of the family bert, for example the preset electra-small")
        return build_pair(generator=generator_of(config, settings), discriminator=config)

    def saved(self, model: nn.Module, config: Any, settings: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
        """Keep the discriminator as the model, and the generator beside it."""
        assert isinstance(model, ElectraPair)
        return {"": (config, model.discriminator), "generator": (generator_of(config, settings), model.generator)}

    def objective(self, settings: Mapping[str, Any]) -> Any:
        """Both losses, the discriminator's 50 times as heavy."""
        return from_dict(ReplacedToken, left(Filling, ReplacedToken, settings))


def generator_of(config: BertConfig, settings: Mapping[str, Any]) -> BertConfig:
    """Return the numbers of a narrower generator over the same embeddings."""
    share = taken(Filling, settings)[0].generator_share
    heads = max(1, round(config.num_heads * share))
    width = config.dim // config.num_heads * heads
    ff_dim = max(1, round(config.ff_dim * width / config.dim))
    table = config.embedding_dim or config.dim
    return replace(config, dim=width, num_heads=heads, ff_dim=ff_dim, embedding_dim=table, heads=("mlm",))
