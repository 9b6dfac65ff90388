"""The teacher of a run: read, compared with its student, and put around the task's objective."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn

from qkv.checkpoints.folder import Folder, read_folder
from qkv.common.errors import UsageError
from qkv.compression.engine import accelerate
from qkv.objectives.distill import Distill, DistillConfig
from qkv.objectives.matching import Matching, add_projections, even_map, has_relations, most_heads, stacks_of
from qkv.objectives.mixture import Mixture
from qkv.objectives.teacher import Teacher
from qkv.predict import find
from qkv.tasks.base import Context, Task
from qkv.tokenizers.text import TextTokenizer


@dataclass(frozen=True)
class Teaching:
    """A teacher and what its student learns from it.

    Attributes:
        teacher: what the objective asks.
        config: the recipe's `[distill]`.
        matching: which layers are matched, or None.
    """

    teacher: Teacher
    config: DistillConfig
    matching: Matching | None

    def around(self, objective: Any) -> Any:
        """Return the objective of a student; of a mixture, each part has the teacher."""
        if isinstance(objective, Mixture):
            parts = objective.objectives.items()
            return Mixture({name: (self.around(part), weight) for name, (part, weight) in parts})
        if not hasattr(objective, "soft"):
            raise UsageError(f"distill.teacher: the objective {type(objective).__name__} cannot learn from a teacher")
        return Distill(objective, self.teacher, self.config, self.matching)


def read_teacher(config: DistillConfig) -> Folder | None:
    """Read the teacher of a recipe, frozen; None if there is none, or if only its written answers are learned."""
    if not config.asks:
        return None
    found = read_folder(find(config.teacher))
    found.model.requires_grad_(False)
    return found


def check_vocabulary(config: DistillConfig, teacher: Folder, tokenizer: TextTokenizer | None) -> None:
    """Raise an error if student and teacher do not read the same tokens."""
    name = config.teacher
    if teacher.tokenizer is None or tokenizer is None:
        raise UsageError(f"distill.teacher: {name} has no tokenizer, but this task reads text")
    mine, theirs = tokenizer, teacher.tokenizer
    if mine.fingerprint == theirs.fingerprint:
        return
    sizes = f"it has {theirs.vocab_size:,} tokens, the student {mine.vocab_size:,}"
    if mine.vocab_size == theirs.vocab_size:
        sizes = f"both have {mine.vocab_size:,} tokens, but not the same ones or other rules"
    raise UsageError(
        f"distill.teacher: {name} reads other tokens than model.init ({sizes}), so they cannot be compared token by "
        "token: set model.preset, which takes over the teacher's tokenizer, or learn its answers alone "
        "(distill.answers=true, distill.weight=0)"
    )


def teaching(config: DistillConfig, found: Folder, task: Task, model: nn.Module, student: Context) -> Teaching:
    """Prepare a teacher for a student; a student of another width gets projections."""
    teacher = task.teacher(found, config.teacher, student)
    longest = getattr(found.config, "max_length", 0)
    if (
        task.reads_text
        and longest
        and min(task.data.max_length, getattr(student.config, "max_length", longest)) > longest
    ):
        raise UsageError(f"distill.teacher: {config.teacher} reads {longest} tokens: set data.max_length={longest}")
    matching = _matching(config, found, model) if config.matches else None
    if matching is None:  # the engine shows no states
        accelerate(found.model)
    return Teaching(teacher, config, matching)


def _matching(config: DistillConfig, found: Folder, model: nn.Module) -> Matching:
    theirs, mine = stacks_of(found.model), stacks_of(model)
    if mine.keys() != theirs.keys() or not mine:
        have = f"the student has {', '.join(mine) or 'none'}, the teacher {', '.join(theirs) or 'none'}"
        raise UsageError(f"stacks of layers cannot be matched ({have}): set distill.hidden=0 and distill.attention=0")
    pairs = {name: _pairs(config, name, stack.depth, theirs[name].depth) for name, stack in mine.items()}
    if config.attention and not all(map(has_relations, [*mine.values(), *theirs.values()])):
        raise UsageError("a layer without self-attention over all tokens has no relations: set distill.attention=0")
    if config.hidden:
        add_projections(model, found.model, [name for name in pairs if pairs[name]])
    heads = {name: most_heads(stack) for name, stack in theirs.items()} if config.attention else {}
    return Matching(config.hidden, config.attention, pairs, heads)


def _pairs(config: DistillConfig, name: str, depth: int, most: int) -> list[tuple[int, int]]:
    key = "decoder_map" if name == "decoder" else "map"
    chosen = getattr(config, key) or even_map(depth, most)
    if len(chosen) != depth or not all(-1 <= layer < most for layer in chosen):
        raise UsageError(
            f"distill.{key} takes a layer of the teacher, from 0 to {most - 1}, or -1 for each of the {depth} layers "
            f"of the student, got {list(chosen)}"
        )
    return [(layer, other) for layer, other in enumerate(chosen) if other >= 0]
