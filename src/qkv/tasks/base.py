"""The base class of tasks. A task is everything qkv knows about one kind of training.

    files ─► examples ─► (held out?) ─► rows of a store ─► batches ─► objective
                │                                                        │
              survey (labels)                  after training, scores ◄──┘

A task is one class in one file. It defines the settings in `[objective]`, how to read examples from files, the key by
which examples are held out, the model's heads, the objective, what happens after training and how to score a model. No
other package refers to a task by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from torch import nn

from qkv.checkpoints.folder import Folder
from qkv.checkpoints.hf.generation import GenerationDefaults
from qkv.common.config import from_dict
from qkv.common.errors import UsageError
from qkv.data.bad_rows import BadRows
from qkv.data.config import DataConfig
from qkv.data.order import BucketSampler, Sampler
from qkv.data.store import Store
from qkv.evaluation.prediction import Prediction
from qkv.evaluation.score import Score
from qkv.models import catalogue
from qkv.objectives.teacher import Teacher
from qkv.tasks import finetuning
from qkv.tasks.exam import Exam, Metric, graded
from qkv.tasks.facts import Rule
from qkv.tasks.start import taught_labels, transfer
from qkv.tokenizers.text import TextTokenizer

Array = np.ndarray[Any, Any]
Row = Mapping[str, Any]  # column -> values
Collate = Callable[[Array, np.random.Generator], Any]
Say = Callable[[str], None]
Trivial = Callable[[Prediction], Any]  # from an example, without looking at the model's answer, to an answer


@dataclass(frozen=True)
class Context:
    """The inputs of a task once the model config is known.

    Attributes:
        tokenizer: None for images.
        config: the model config.
        facts: what `survey` found in the training examples, for example the labels.
        say: prints a line for the user.
        options: the optional keys that the recipe sets, such as train.match_rates.
        skipped: counts the skipped rows.
        generation: how the model to start from generates text by default, if its folder says so.
    """

    tokenizer: TextTokenizer | None
    config: Any
    facts: Mapping[str, Any]
    say: Say
    options: frozenset[str] = frozenset()
    skipped: BadRows = field(default_factory=BadRows)
    generation: GenerationDefaults | None = None

    @property
    def text(self) -> TextTokenizer:
        """The tokenizer, which must exist."""
        assert self.tokenizer is not None
        return self.tokenizer

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes, in order."""
        return tuple(self.facts.get("labels", ()))

    @property
    def num_segments(self) -> int:
        """The number of segment types of the model."""
        return int(getattr(self.config, "num_segments", 0))


@dataclass(frozen=True)
class NoSettings:
    """A task whose `[objective]` has no keys."""


@dataclass(frozen=True)
class Task:
    """The base class of tasks. Its defaults fit rows with one column `ids` and batches with a token budget.

    Attributes:
        settings: the table `[objective]`, read into the task's own `Settings`.
        data: the table `[data]`.
    """

    settings: Any
    data: DataConfig

    Settings: ClassVar[type[Any]] = NoSettings  # a frozen dataclass, used by the check, the docs and the run
    heads: ClassVar[tuple[str, ...]] = ()  # of the model
    specials: ClassVar[str] = "bert"  # the special tokens of a tokenizer trained for the task
    reads_text: ClassVar[bool] = True
    keeps_length: ClassVar[bool] = False  # the model folder stores data.max_length
    mixable: ClassVar[bool] = True  # can be a part of a mixture
    optional_keys: ClassVar[frozenset[str]] = frozenset()  # recipe keys that only some tasks support
    reads_windows: ClassVar[bool] = False  # packs documents into windows of data.max_length tokens
    starts_from_encoder: ClassVar[bool] = False  # from the built-in one if the recipe names no model
    slides: ClassVar[bool] = False  # scoring can read a text in windows that overlap
    decodes: ClassVar[bool] = False  # scoring decodes sequences, so it has a beam size
    predicts_classes: ClassVar[bool] = False  # answers are classes; `has_classes` may depend on settings
    measured: ClassVar[bool] = False  # validation also scores the model; the first score decides which weights are best
    held_out_unit: ClassVar[str] = "examples"  # what is held out for validation, in words
    rules: ClassVar[Mapping[str, Rule]] = finetuning.rules(lr=1e-4)  # set the recipe's keys that are "auto"
    distilled_by: ClassVar[str] = ""  # the shipped recipe that a student of this task begins with
    answerable: ClassVar[bool] = False  # a teacher can answer texts: see `unanswered`, `answered` and `record`

    @classmethod
    def read(cls, objective: Mapping[str, Any], data: DataConfig) -> Task:
        """Create the task of a recipe; raise an error for a wrong key or value in `[objective]`."""
        return cls(from_dict(cls.Settings, objective, where="objective."), data)

    def has_classes(self) -> bool:
        """Whether answers are classes with these settings, so that there is a confusion matrix."""
        return self.predicts_classes

    def parts(self) -> Mapping[str, Task]:
        """Return the tasks that read data: this one, or the parts of a mixture by name."""
        return {"": self}

    def allows(self, key: str) -> bool:
        """Whether the task supports an optional key of a recipe, such as data.dropout."""
        return key in self.optional_keys

    def model_heads(self) -> tuple[str, ...]:
        """Return the heads that the model needs with these settings."""
        return self.heads

    # From files to examples

    def resolved(self, say: Say) -> Self:
        """Return the task with settings that the recipe leaves open, such as columns, detected from the files."""
        del say
        return self

    def examples(self, paths: Sequence[str], skipped: BadRows | None = None) -> Iterator[Any]:
        """Read the examples of some files."""
        raise NotImplementedError

    def texts(self, example: Any) -> Iterable[str]:
        """Return the texts of an example that a tokenizer is trained on."""
        raise NotImplementedError

    def key(self, example: Any) -> str:
        """Return the key by which an example is held out: examples with the same key stay on one side of the split."""
        raise NotImplementedError

    def stratum(self, example: Any) -> str | None:
        """Return the class of an example for a stratified split, or None for a plain one."""
        del example
        return None

    def side(self, example: Any) -> bool | None:
        """Return whether an example is held out if the task decides that itself, or None to decide by its key."""
        del example
        return None

    def shape(self, example: Any) -> tuple[int, ...]:
        """Return the shape of an example that has one, such as an image; rules may depend on it."""
        del example
        return ()

    def survey(self, examples: Iterable[Any], say: Say) -> dict[str, Any]:
        """Read all training examples once before the model is built, for example to collect the labels."""
        del examples, say
        return {}

    def inherited(self, start: Folder) -> dict[str, Any]:
        """Return facts that the model to start from brings; they join those of `survey`."""
        del start
        return {}

    # Texts that a teacher answers

    def unanswered(self, paths: Sequence[str], skipped: BadRows | None = None) -> Iterator[Any]:
        """Read texts without answers, as examples whose answer is empty."""
        raise NotImplementedError

    def answered(self, examples: Sequence[Any], model: Any, labels: Sequence[str]) -> Iterator[Any]:
        """Yield examples with the answers of a `qkv.Model`, without those that it has no answer to.

        Args:
            examples: the examples; their own answers do not matter.
            model: the model.
            labels: what the files call its classes; empty if they do not tell.
        """
        raise NotImplementedError

    def answered_changes(self, model: Any) -> dict[str, Any]:
        """Return the keys of a recipe that go with the answers of a `qkv.Model`."""
        del model
        return {}

    def record(self, example: Any) -> dict[str, Any]:
        """Return an example as a row of a JSON file that `examples` reads."""
        raise NotImplementedError

    # The model

    def adapted(self, config: Any, base: Any) -> Any:
        """Return the model config with what the settings need; `base` is the preset's or that of `model.init`."""
        del base
        return config

    def build(self, config: Any) -> nn.Module:
        """Build the model to train."""
        return catalogue.build(config)

    def check_model(self, model: nn.Module, context: Context) -> None:
        """Raise an error before training if the model does not fit the task."""
        del context
        if missing := set(self.model_heads()) - {"pool"} - set(getattr(model, "heads", ())):
            raise UsageError(f"this task needs a model with the head {min(missing)}, which this family does not have")

    def load_start(self, model: nn.Module, start: Folder, path: Path, context: Context) -> None:
        """Copy the weights of `model.init`, read from `path`, into the model; missing heads keep their new weights."""
        del path
        transfer(model, start, context.labels)

    def taught_facts(self, facts: dict[str, Any], found: Folder, name: str) -> dict[str, Any]:
        """Return the facts of a student: it has the classes of its teacher, read from `name`, in the same order."""
        return taught_labels(facts, found, name)

    def student(self, config: Any) -> Any:
        """Return the config of a model that learns from a teacher."""
        return config

    def teacher(self, found: Folder, name: str, context: Context) -> Teacher:
        """Return the model that a student learns from; raise an error if it lacks a head for the task.

        Args:
            found: its folder.
            name: how the user calls it.
            context: the student's.
        """
        del context
        missing = [head for head in self.model_heads() if head != "pool" and head not in found.model.heads]
        if missing:
            have = ", ".join(found.model.heads) or "none"
            raise UsageError(f"distill.teacher: {name} has no head {missing[0]} for the task to learn (it has {have})")
        return Teacher(found.model)

    def saved(self, model: nn.Module, config: Any, context: Context) -> dict[str, tuple[Any, Any]]:
        """Return what to save: the config and model of each folder by name; "" is the run's own folder."""
        del context
        return {"": (config, model)}

    def folder_facts(self, context: Context) -> dict[str, Any]:
        """Return additional fields of the model folder (`Folder`)."""
        return {"labels": context.labels}

    # From examples to batches

    def rows(self, examples: Iterable[Any], context: Context) -> Iterator[Row]:
        """Tokenise examples and yield the columns of each row of the store."""
        raise NotImplementedError

    def lengths(self, store: Store) -> Array:
        """Return the number of tokens of each row, for the token budget."""
        return store.lengths("ids")

    def sampler(self, store: Any, context: Context, *, tokens: int, seed: int, shuffle: bool) -> Sampler:
        """Return the sampler that groups rows into batches."""
        del context
        return BucketSampler(self.lengths(store), tokens=tokens, seed=seed, shuffle=shuffle)

    def collate(self, store: Any, context: Context) -> Collate:
        """Return a pure function from row numbers to a batch."""
        raise NotImplementedError

    # Objective and scoring

    def objective(self) -> Any:
        """Return the objective; by default, the settings are the objective."""
        return self.settings

    def objective_for(self, context: Context) -> Any:
        """Return the objective once the training examples are known."""
        del context
        return self.objective()

    def after_training(self, found: Folder, model: Any, context: Context, train: Any, valid: Any) -> Folder | None:
        """Finish a trained model, for example by choosing a threshold.

        Args:
            found: the model folder.
            model: the same model as a `qkv.Model`.
            context: as in training.
            train: the training store.
            valid: the validation store.

        Returns:
            The folder to write instead, or None to keep it.
        """
        del found, model, context, train, valid
        return None

    @classmethod
    def can_score(cls, model: Any) -> bool:
        """Whether this task can score a `qkv.Model`, judging by its family and heads."""
        del model
        return False

    @classmethod
    def can_teach(cls, model: Any) -> bool:
        """Whether a `qkv.Model` can be the teacher of a student of this task, judging by its family and heads."""
        return cls.can_score(model)

    @classmethod
    def taught_settings(cls, model: Any) -> dict[str, Any]:
        """Return keys of `[objective]` that follow from a teacher."""
        del model
        return {}

    @classmethod
    def default_data(cls, model: Any) -> DataConfig:
        """Return how to read files for scoring a `qkv.Model` by default."""
        del model
        return DataConfig()

    @classmethod
    def for_model(cls, model: Any, data: DataConfig | None = None, name: str | None = None) -> Task:
        """Return the task that scores a `qkv.Model` on files.

        Args:
            model: the model.
            data: how to read the files; by default as `default_data` says.
            name: of a model with several text-to-text tasks, the one that the files are for.
        """
        if name is not None:
            raise UsageError(
                f"a task is for text-to-text models, and this {model.family} is not one: leave out {name!r}"
            )
        return cls(cls.Settings(), data or cls.default_data(model))

    def tester(self, model: Any, data: DataConfig) -> Task:
        """Return the task that scores the trained model on the test files of its recipe, which `data` reads."""
        return self.for_model(model, data)

    def metrics(self, exam: Exam) -> list[Metric]:
        """Return new metrics for the model of an exam, the most important one first."""
        raise NotImplementedError

    def predictions(self, exam: Exam) -> Iterator[Prediction]:
        """Yield the model's answer to each example of an exam."""
        raise NotImplementedError

    def trivial(self, exam: Exam, known: Iterable[Any], *, trained: bool) -> dict[str, Trivial]:
        """Return the answers that need no model, by name, such as the most frequent class.

        Args:
            exam: the model and its examples.
            known: the training examples, or the scored examples themselves if the training examples are not known.
            trained: whether `known` are the training examples.
        """
        del exam, known, trained
        return {}

    def score(self, exam: Exam) -> list[Score]:
        """Score a model on examples."""
        return graded(self.metrics(exam), exam.answers(self.predictions(exam)))

    def score_longer(self, exam: Exam, times: Sequence[int]) -> list[Score | None]:
        """Score a model on inputs 1, 2, 4 times as long as in training; None where its positions end before."""
        del exam, times
        raise UsageError("lengths beyond training can be scored for language models and translators only")


def has_head(model: Any, *names: str) -> bool:
    """Whether a `qkv.Model` has at least one of the given heads."""
    return bool(set(names) & set(getattr(model.config, "heads", ())))


def has_decoder(model: Any) -> bool:
    """Whether a `qkv.Model` is an encoder-decoder."""
    return getattr(model.module, "decoder", None) is not None
