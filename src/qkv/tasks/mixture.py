"""Several tasks on one model: a batch of each at every step, the losses weighted and added.

[data]               train = ["notes.txt", "topics.tsv"]
[data.mix]           masked.files = ["*.txt"]    classify.files = ["*.tsv"]
[objective.mix]      masked.weight = 1.0         classify.weight = 0.5

All parts lie in one store, in columns of their own: masked_ids, classify_ids, classify_label and so on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from torch import nn

from qkv.common.errors import UsageError, unknown
from qkv.data.config import DataConfig
from qkv.data.order import Sampler
from qkv.data.store import Store
from qkv.objectives.mixture import Mixture
from qkv.tasks.base import Array, Collate, Context, Row, Task
from qkv.tasks.mixed_order import MixedSampler, Share
from qkv.tasks.mixed_tables import chosen_files, own_data, tables_of
from qkv.tasks.sentences import with_heads


@dataclass(frozen=True)
class MixedTask(Task):
    """A task over other tasks; a tokenizer trained for it has BERT's special tokens.

    Attributes:
        known: the tasks that can be parts.
    """

    known: Mapping[str, Task]

    def texts(self, paths: Sequence[str], data: DataConfig) -> Iterator[str]:
        """Yield the texts of all parts."""
        for name, (files, own) in self._sources(paths, data).items():
            yield from self.known[name].texts(files, own)

    def labels(self, paths: Sequence[str], data: DataConfig) -> tuple[str, ...]:
        """Find the classes of the one part that has any."""
        found = {name: self.known[name].labels(*source) for name, source in self._sources(paths, data).items()}
        having = [name for name, labels in found.items() if labels]
        if len(having) > 1:
            raise UsageError(f"a model has one set of classes, and {' and '.join(having)} of the mixture have one each")
        return found[having[0]] if having else ()

    def no_answer(self, paths: Sequence[str], data: DataConfig) -> bool | None:
        """Ask the part that answers questions, where there is one."""
        found = (self.known[name].no_answer(*source) for name, source in self._sources(paths, data).items())
        return next((said for said in found if said is not None), None)

    def build(self, config: Any, settings: Mapping[str, Any]) -> nn.Module:
        """Build a model with the heads of all parts."""
        return super().build(self._config(config, settings), settings)

    def saved(self, model: nn.Module, config: Any, settings: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
        """Keep all heads."""
        return {"": (self._config(config, settings), model)}

    def rows(self, paths: Sequence[str], context: Context) -> Iterator[Row]:
        """Yield the rows of each part behind each other; the columns of the others are empty in them."""
        sources = self._sources(paths, context.data)
        streams = {name: self.known[name].rows(sources[name][0], own) for name, own in self._contexts(context).items()}
        firsts = {name: next(stream, None) for name, stream in streams.items()}
        for name, first in firsts.items():
            if first is None:
                raise UsageError(f"the part {name} of the mixture has no examples in {', '.join(sources[name][0])}")
        empty: Row = {f"{name}_{column}": [] for name, first in firsts.items() for column in first or ()}
        for number, (name, stream) in enumerate(streams.items()):
            for row in chain([firsts[name] or {}], stream):
                yield {"part": number, **empty, **{f"{name}_{column}": value for column, value in row.items()}}

    def sampler(self, store: Store, context: Context, *, tokens: int, seed: int, shuffle: bool) -> Sampler:
        """Take a batch of each part at a time, each with its share of the tokens; to evaluate, each part once."""
        contexts = self._contexts(context)
        shares, tokens = _shares(store, contexts), max(1, tokens // len(contexts))
        parts = [
            self.known[name].sampler(shares[name], own, tokens=tokens, seed=seed, shuffle=shuffle)
            for name, own in contexts.items()
        ]
        return MixedSampler(tuple(parts), once=not shuffle)

    def collate(self, store: Store, context: Context) -> Collate:
        """Make a batch of each part that has rows."""
        contexts = self._contexts(context)
        shares = _shares(store, contexts)
        makers = {name: self.known[name].collate(shares[name], own) for name, own in contexts.items()}

        def make(rows: Array, rng: np.random.Generator) -> dict[str, Any]:
            mine = {name: rows[rows[:, 0] == number, 1] for number, name in enumerate(makers)}
            return {name: makers[name](part, rng) for name, part in mine.items() if len(part)}

        return make

    def objective(self, settings: Mapping[str, Any]) -> Mixture:
        """The losses of all parts, by their weights."""
        parts = self._settings(settings)
        return Mixture({name: (self.known[name].objective(own), weight) for name, (weight, own) in parts.items()})

    def _config(self, config: Any, settings: Mapping[str, Any]) -> Any:
        parts = self._settings(settings)
        pairs = ["nsp"] if any(own.get("next_sentence") for _, own in parts.values()) else []
        return with_heads(config, [*(head for name in parts for head in self.known[name].heads), *pairs])

    def _contexts(self, context: Context) -> dict[str, Context]:
        """Give each part a context of its own."""
        settings, data = self._settings(context.settings), tables_of(context.data.mix, "data.mix", self.known)
        if settings.keys() != data.keys():
            both = f"objective.mix has {', '.join(settings)} and data.mix has {', '.join(data)}"
            raise UsageError(f"{both}: they must name the same parts")
        return {
            name: replace(context, data=own_data(context.data, data[name]), settings=own)
            for name, (_, own) in settings.items()
        }

    def _sources(self, paths: Sequence[str], data: DataConfig) -> dict[str, tuple[list[str], DataConfig]]:
        """Give each part its files and its data table."""
        tables = tables_of(data.mix, "data.mix", self.known)
        return {name: (chosen_files(paths, name, table), own_data(data, table)) for name, table in tables.items()}

    def _settings(self, settings: Mapping[str, Any]) -> dict[str, tuple[float, dict[str, Any]]]:
        """Give each part its weight and its settings."""
        found = dict(settings)
        multi_label = {"multi_label": True} if found.pop("multi_label", False) else {}
        if other := found.keys() - {"mix"}:
            raise unknown("key of a mixture's objective", min(other), ["mix"])
        parts = {}
        for name, table in tables_of(found.get("mix", {}), "objective.mix", self.known).items():
            weight = table.pop("weight", None)
            if isinstance(weight, bool) or not isinstance(weight, int | float) or weight < 0:
                raise UsageError(f"objective.mix.{name}.weight must be a number from 0 up, got {weight!r}")
            parts[name] = (float(weight), table | (multi_label if name == "classify" else {}))
        return parts


def _shares(store: Store, names: Mapping[str, Any]) -> dict[str, Share]:
    """See the rows of each part as a store of their own."""
    owners = np.asarray(store.values("part"))
    edges = owners.searchsorted(np.arange(len(names) + 1))
    for number, name in enumerate(names):
        if edges[number] == edges[number + 1]:
            where = f"the {store.folder.name} examples: name files in data.valid, or raise data.held_out"
            raise UsageError(f"the part {name} of the mixture has no row among {where}")
    return {name: Share(store, name, *edges[number : number + 2].tolist()) for number, name in enumerate(names)}
