"""Measure the training examples, so that rules can set the values of a recipe that are "auto"."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from qkv.common.progress import Bar
from qkv.data.bad_rows import BadRows
from qkv.data.config import DataConfig
from qkv.tokenizers.text import TextTokenizer

SAMPLE = 500  # texts that are tokenised to learn how many characters a token has
CHARACTERS = 4.0  # per token, where there is no tokenizer yet


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a rule may depend on.

    Attributes:
        examples: the number of examples in the training files.
        valid: the number of examples in the validation files, 0 if there are none.
        length: the mean length of a training example in tokens, at most data.max_length.
        total: tokens in all training examples, however long they are.
        characters: how many different characters the texts have.
        classes: how many examples each class has, if examples have classes.
        config: the config of the model to start from.
        pretrained: whether the model starts from trained weights.
        batch: the recipe's train.tokens, unless a rule sets it.
        shapes: how many examples have each shape, for images: channels, height and width.
    """

    examples: int
    valid: int = 0
    length: float
    total: float = 0.0
    characters: int = 0
    classes: Mapping[str, int]
    config: Any
    pretrained: bool
    batch: int = 4096
    shapes: Mapping[tuple[int, ...], int] = field(default_factory=dict)

    @property
    def dim(self) -> int:
        """The width of the model."""
        return int(self.config.dim)

    def __str__(self) -> str:
        if self.shapes:
            (channels, height, width), _ = max(self.shapes.items(), key=lambda item: item[1])
            most = "" if len(self.shapes) == 1 else "most of them "
            return (
                f"{self.examples:,} images, {most}{width} x {height} pixels in {'colour' if channels > 1 else 'grey'}"
            )
        return f"{self.examples:,} examples of {self.length:.0f} tokens"


Rule = Callable[[Facts], Any]  # its docstring is the rule in one sentence; docs/recipes.md quotes it


def measure(task: Any, tokenizer: TextTokenizer | None, config: Any, *, pretrained: bool) -> Facts:
    """Read the training examples of a task once and count."""
    data: DataConfig = task.data
    count, characters, classes, shapes = 0, 0, Counter[str](), Counter[tuple[int, ...]]()
    sample: list[str] = []
    alphabet: set[str] = set()
    with Bar("reading examples") as bar:
        for example in bar.each(task.examples(data.train, BadRows())):
            texts = list(task.texts(example)) if task.reads_text else []
            count += 1
            characters += sum(map(len, texts))
            alphabet.update(*texts)
            if len(sample) < SAMPLE:
                sample += texts
            if label := task.stratum(example):
                classes[label] += 1
            if shape := task.shape(example):
                shapes[shape] += 1
    per_token = CHARACTERS
    if tokenizer is not None and sample:
        per_token = sum(map(len, sample)) / max(1, sum(map(len, tokenizer.encode(sample).ids)))
    total = characters / max(per_token, 0.1)
    length = min(total / max(1, count), data.max_length)
    valid = sum(1 for _ in task.examples(data.valid, BadRows())) if data.valid else 0
    return Facts(
        examples=count,
        valid=valid,
        length=length,
        total=total,
        characters=len(alphabet),
        classes=classes,
        config=config,
        pretrained=pretrained,
        shapes=shapes,
    )
