"""ELECTRA (Clark et al. 2020): BERT's encoder twice, a generator that fills masks and a discriminator that spots it.

Sizes of the paper's table 6: the generator is as deep as the discriminator and a quarter (base: a third) as wide.
"""

from __future__ import annotations

from qkv.models.bert import BertConfig


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
PRESETS["electra-base"], PRESETS["electra-base-generator"] = _pair(12, 768, 768, 256)
PRESETS["electra-large"], PRESETS["electra-large-generator"] = _pair(24, 1024, 1024, 256)
