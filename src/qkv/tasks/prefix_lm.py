"""Prefix language modelling: read the beginning of a text, predict the rest (Raffel et al. 2020, section 3.2.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from qkv.data.corruption import split_prefix
from qkv.tasks.base import Array, Context
from qkv.tasks.facts import Rule
from qkv.tasks.pretraining_rules import CAUSAL, rules
from qkv.tasks.spans import Damage, SequenceTask, without


class PrefixTask(SequenceTask):
    """Each piece of text is split at a random place."""

    rules: ClassVar[Mapping[str, Rule]] = rules(CAUSAL)

    def damage(self, context: Context) -> Damage:
        """Split the text."""
        end = context.text.specials["end"]

        def split(piece: Array, rng: np.random.Generator) -> tuple[Array, Array]:
            source, target = split_prefix(without(piece, [end]), rng=rng)
            return np.append(source, end), np.append(target, end)

        return split
