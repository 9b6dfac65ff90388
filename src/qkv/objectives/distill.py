"""Distillation: an objective around any other one, with a teacher that reads the same batches (Hinton et al. 2015).

    batch ─► student ─► what it says ─► the task's own loss      × (1 - α)
       │        └─ states, q, k, v ┐ └► soft targets             × α
       └──► teacher ─ states, … ───┴──► matching (matching.py)   × weights of their own

Without a gradient (validation) there is no teacher, and the loss is the task's own.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from qkv.common.batch import size
from qkv.common.config import check_range
from qkv.common.errors import unknown
from qkv.nn.tap import recording
from qkv.objectives.matching import Matching, Seen
from qkv.objectives.parts import Losses, Soft, Teachable
from qkv.objectives.soft import Hardened, Softened
from qkv.objectives.teacher import Teacher

TARGETS = ("soft", "hard")


@dataclass(frozen=True, kw_only=True)
class DistillConfig:
    """Learn from a teacher: a trained model of the same task.

    Attributes:
        teacher: the folder of the teacher, the name of a built-in model or hf:OWNER/NAME. If empty, there is none. It
            is not stored in the run.
        targets: soft (learn the teacher's probabilities) or hard (learn its answer).
        temperature: softens the probabilities of both models with targets = "soft".
        weight: α, the weight of these targets; the task's own loss has 1 - α.
        hidden: the weight of matching the hidden states of the teacher. A student of another width learns a projection,
            which its folder does not store.
        attention: the weight of matching how alike the queries, the keys and the values of two tokens are. Widths and
            numbers of heads may differ.
        map: the layer of the teacher, from 0, that each layer of the student is matched with; -1 for none. If empty,
            evenly up to the last one. Of an encoder-decoder, the layers of the encoder.
        decoder_map: the same for a decoder.
        layers: the layers of model.init, from 0, that the student begins with. If empty, all. Of an encoder-decoder,
            those of the encoder.
        decoder_layers: the same for a decoder.
        answers: learn the teacher's answers to the training texts instead of the answers in the files. A translator
            translates them with a beam of 4: sequence-level distillation. They are written once, before training, into
            the run's folder, and its recipe.toml names these files. Validation and test keep the answers of the files.
        texts: files of texts without answers, one per line or from a table, that the teacher answers in the same way:
            more training examples or, without data.train, all of them. For classify, tag, regress, translate and
            embeddings.
    """

    teacher: str = ""
    targets: str = "soft"
    temperature: float = 2.0
    weight: float = 0.5
    hidden: float = 0.0
    attention: float = 0.0
    map: tuple[int, ...] = ()
    decoder_map: tuple[int, ...] = ()
    layers: tuple[int, ...] = ()
    decoder_layers: tuple[int, ...] = ()
    answers: bool = False
    texts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.targets not in TARGETS:
            raise unknown("distill.targets", self.targets, TARGETS)
        check_range("distill.temperature", self.temperature, 1e-3)
        check_range("distill.weight", self.weight, 0, below=1 + 1e-9)
        check_range("distill.hidden", self.hidden, 0)
        check_range("distill.attention", self.attention, 0)

    @property
    def matches(self) -> bool:
        """Whether layers of the teacher are matched."""
        return bool(self.hidden or self.attention)

    @property
    def asks(self) -> bool:
        """Whether the teacher reads the training batches, so that more is learned than the answers it has written."""
        return bool(self.teacher and (self.weight or self.matches))

    @property
    def soft(self) -> Soft:
        """What is learned from the teacher's logits."""
        return Softened(self.temperature) if self.targets == "soft" else Hardened()


@dataclass(frozen=True, eq=False)
class Distill:
    """The objective of a student.

    Attributes:
        objective: what the task asks for.
        teacher: its weights stay as they are.
        config: temperature and weights.
        matching: which layers are matched, or None.
    """

    objective: Teachable
    teacher: Teacher
    config: DistillConfig
    matching: Matching | None = None

    @property
    def frozen(self) -> tuple[nn.Module, ...]:
        """The models that a training step runs beside the one that is trained."""
        return (self.teacher.model,)

    @property
    def distils(self) -> bool:
        """Whether the teacher is asked: only in training."""
        return torch.is_grad_enabled()

    @property
    def weights(self) -> dict[str, float]:
        """(1 - α) · the task's own + α · the teacher's, and those of what is matched."""
        own, config = self.objective.weights, self.config
        if not self.distils:
            return own
        found = {name: (1 - config.weight) * weight for name, weight in own.items()} | {"soft": config.weight}
        return found if self.matching is None else found | self.matching.weights

    def counts(self, batch: Any) -> dict[str, Tensor]:
        """Count the targets: as many as those of the first part, and what the batch holds for what is matched."""
        found = dict(self.objective.counts(batch))
        if not self.distils:
            return found
        found["soft"] = next(iter(found.values()))
        if self.matching is not None:
            found |= dict.fromkeys(self.matching.weights, torch.tensor(size(batch).amount))
        return found

    def __call__(self, model: Any, batch: Any) -> Losses:
        """Let the student and the teacher read a batch."""
        if not self.distils:
            return self.objective(model, batch)
        self.teacher.model.to(next(model.parameters()).device)
        mine, theirs = Seen(model), Seen(self.teacher.model)
        with self._recording(mine):
            said = self.objective.said(model, batch)
        with self._recording(theirs):
            taught = self.teacher(self.objective, batch, said)
        losses = dict(self.objective.losses(said, batch))
        losses["soft"] = self.objective.soft(said, taught, batch, self.config.soft)
        if self.matching is not None:
            losses |= self.matching(mine, theirs, model, size(batch).amount)
        return losses

    def _recording(self, seen: Seen) -> AbstractContextManager[None]:
        return nullcontext() if self.matching is None else recording(seen)
