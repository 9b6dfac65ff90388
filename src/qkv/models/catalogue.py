"""Every family and every preset, in one explicit table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from qkv.common.config import override
from qkv.common.errors import UsageError, unknown
from qkv.models import bert, conv_seq2seq, convnet, electra, gpt, seq2seq_rnn, t5, transformer, vit, word2vec
from qkv.models.skeleton import Headed

Config = Any  # one of the families' frozen dataclasses


@dataclass(frozen=True)
class Family:
    """A config class, its builder, and its sizes by name."""

    config: type[Config]
    build: Callable[[Any], Headed]
    presets: Mapping[str, Config]


FAMILIES: dict[str, Family] = {
    "transformer": Family(transformer.TransformerConfig, transformer.build, transformer.PRESETS),
    "bert": Family(bert.BertConfig, bert.build, bert.PRESETS | electra.PRESETS),
    "gpt": Family(gpt.GPTConfig, gpt.build, gpt.PRESETS),
    "t5": Family(t5.T5Config, t5.build, t5.PRESETS),
    "vit": Family(vit.ViTConfig, vit.build, vit.PRESETS | vit.DEIT_PRESETS),
    "convnet": Family(convnet.ConvNetConfig, convnet.build, convnet.PRESETS),
    "word2vec": Family(word2vec.Word2VecConfig, word2vec.build, word2vec.PRESETS),
    "conv_seq2seq": Family(conv_seq2seq.ConvConfig, conv_seq2seq.build, conv_seq2seq.PRESETS),
    "seq2seq_rnn": Family(seq2seq_rnn.RNNConfig, seq2seq_rnn.build, seq2seq_rnn.PRESETS),
}

PRESETS: dict[str, Config] = {name: config for family in FAMILIES.values() for name, config in family.presets.items()}


def add_family(name: str, family: Family) -> None:
    """Add a family of your own to the catalogue; its presets and folders then work like any other's."""
    if FAMILIES.get(name) == family:  # where a module is imported again
        return
    if name in FAMILIES:
        raise UsageError(f"there is a family {name} already: choose another name")
    if taken := family.presets.keys() & PRESETS.keys():
        raise UsageError(f"there is a preset {min(taken)} already: choose another name")
    FAMILIES[name] = family
    PRESETS.update(family.presets)


def preset(name: str, **changes: Any) -> Config:
    """Return the config of a preset, with some values changed."""
    if name not in PRESETS:
        raise unknown("preset", name, PRESETS)
    return override(PRESETS[name], changes)


def family_of(config: Config) -> str:
    """Name the family a config belongs to."""
    for name, family in FAMILIES.items():
        if isinstance(config, family.config):
            return name
    raise unknown("config class", type(config).__name__, [family.config.__name__ for family in FAMILIES.values()])


def reads_images(config: Config) -> bool:
    """Whether a model with this config takes images, not token ids."""
    return hasattr(config, "image_size")


def build(config: Config) -> Headed:
    """Build the model that a config describes, with initial weights."""
    for name, value in vars(config).items():
        if type(value) is int and value < 0:
            raise UsageError(f"{name} must not be below 0, got {value}")
    return FAMILIES[family_of(config)].build(config)
