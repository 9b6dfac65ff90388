"""Plain language modelling with an encoder-decoder: predict a text from its beginning to its end.

The encoder reads nothing but an end token, as in the comparison of objectives by Raffel et al. 2020 (section 3.2.3). A
decoder alone does the same without an encoder: the task `causal`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from qkv.tasks.base import Array, Context
from qkv.tasks.facts import Rule
from qkv.tasks.pretraining_rules import CAUSAL, rules
from qkv.tasks.spans import Damage, SequenceTask, without


class PlainTask(SequenceTask):
    """The target is the whole text."""

    rules: ClassVar[Mapping[str, Rule]] = rules(CAUSAL)

    def length(self, context: Context) -> int:
        """Leave room for the end token of the target."""
        return max(1, super().length(context) - 1)

    def damage(self, context: Context) -> Damage:
        """Move the whole text to the target."""
        end = context.text.specials["end"]

        def move(piece: Array, rng: np.random.Generator) -> tuple[Array, Array]:
            del rng
            return np.array([end]), np.append(without(piece, [end]), end)

        return move
