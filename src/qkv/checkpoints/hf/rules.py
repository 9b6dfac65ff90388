"""Rules for converting weights: each maps one of our tensors to one or more of theirs, in both directions."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from qkv.common.errors import QkvError


@dataclass(frozen=True)
class Rule:
    """`ours` = join(theirs) and theirs = cut(ours)."""

    ours: str
    theirs: tuple[str, ...]
    join: Callable[[list[Tensor]], Tensor] = lambda tensors: tensors[0]
    cut: Callable[[Tensor], Sequence[Tensor]] = lambda tensor: [tensor]


@dataclass(frozen=True)
class Format:
    """How Hugging Face stores a family.

    Attributes:
        model_types: the values of `model_type` in config.json.
        prefix: the prefix that a task model adds to the tensor names of the base model.
        read: converts config.json and the tensors by name to our config.
        write: converts our config to config.json, or raises `Unwritable`.
        rules: the conversion rules for a config.
        ignored: patterns of tensors that are not weights.
        repeats: tensors that a file may contain as copies, such as tied embeddings, and the original of each.
        computed: tensors that Hugging Face stores although a formula gives them.
    """

    model_types: tuple[str, ...]
    prefix: Callable[[Any], str]
    read: Callable[[Mapping[str, Any], Mapping[str, Tensor]], Any]
    write: Callable[[Any], dict[str, Any]]
    rules: Callable[[Any], list[Rule]]
    ignored: tuple[str, ...] = ()
    repeats: Callable[[Any], dict[str, str]] = lambda _: {}
    computed: Callable[[Any], dict[str, Tensor]] = lambda _: {}


class Unwritable(Exception):
    """Hugging Face cannot express this config; the message gives the reason."""


def check_heads(config: Any, kind: str) -> None:
    """Refuse heads of a width of their own, as after pruning: most formats derive it from dim and num_heads."""
    width, numbers = config.head_dim, (config.num_heads, getattr(config, "num_decoder_heads", None))
    if width is not None and any(number is not None and number * width != config.dim for number in numbers):
        raise Unwritable(f"{kind} has heads of width dim / num_heads, and these are {width} wide")


def same(ours: str, theirs: str) -> list[Rule]:
    """Map one tensor to one tensor."""
    return [Rule(ours, (theirs,))]


def linear(ours: str, theirs: str, *, bias: bool = True) -> list[Rule]:
    """Map a weight and, with `bias`, a bias; also used for norms."""
    return [Rule(f"{ours}.{part}", (f"{theirs}.{part}",)) for part in (["weight", "bias"] if bias else ["weight"])]


def fused(ours: str, theirs: Sequence[str], *, bias: bool = True) -> list[Rule]:
    """Map one of our linear layers to several of theirs, of equal sizes."""
    return [
        Rule(f"{ours}.{part}", tuple(f"{name}.{part}" for name in theirs), torch.cat, lambda t: t.chunk(len(theirs)))
        for part in (["weight", "bias"] if bias else ["weight"])
    ]


def turned(ours: str, theirs: Sequence[str], num_heads: int) -> list[Rule]:
    """Map our qkv layer to their q, k and v, where the rotary channel pairs of q and k are interleaved."""

    def apart(tensor: Tensor) -> Tensor:
        return tensor.unflatten(0, (num_heads, -1, 2)).transpose(1, 2).flatten(0, 2)

    def side_by_side(tensor: Tensor) -> Tensor:
        return tensor.unflatten(0, (num_heads, 2, -1)).transpose(1, 2).flatten(0, 2)

    def join(tensors: list[Tensor]) -> Tensor:
        q, k, v = tensors
        return torch.cat([apart(q), apart(k), v])

    def cut(tensor: Tensor) -> Sequence[Tensor]:
        q, k, v = tensor.chunk(3)
        return [side_by_side(q), side_by_side(k), v]

    return [
        Rule(f"{ours}.{part}", tuple(f"{name}.{part}" for name in theirs), join, cut) for part in ("weight", "bias")
    ]


def transposed(ours: str, theirs: str) -> list[Rule]:
    """Map a linear layer whose weight has shape [in, out], as in GPT-2."""
    weight = Rule(f"{ours}.weight", (f"{theirs}.weight",), lambda ts: ts[0].t(), lambda t: [t.t()])
    return [weight, Rule(f"{ours}.bias", (f"{theirs}.bias",))]


def reshaped(ours: str, theirs: Sequence[str], inner: tuple[int, ...], outer: tuple[int, ...]) -> list[Rule]:
    """Map tensors that differ only in shape; several of theirs are concatenated in ours."""
    return [
        Rule(
            ours,
            tuple(theirs),
            lambda ts: torch.cat([t.reshape(inner) for t in ts]),
            lambda t: [part.reshape(outer) for part in t.chunk(len(theirs))],
        )
    ]


def skipping(ours: str, theirs: str, rows: int) -> list[Rule]:
    """Map a table that begins with unused rows (RoBERTa's positions start at 2)."""
    return [
        Rule(
            ours,
            (theirs,),
            lambda ts: ts[0][rows:],
            lambda t: [torch.cat([t.new_zeros(rows, t.shape[1]), t])],
        )
    ]


def import_tensors(theirs: Mapping[str, Tensor], style: Format, config: Any) -> dict[str, Tensor]:
    """Convert a file's tensors to ours. Raises an error that names a missing or unexpected tensor."""
    prefix, repeats = style.prefix(config), style.repeats(config)
    held = {_modern(name): tensor for name, tensor in theirs.items()}
    left = set(held)

    def find(name: str) -> str | None:
        # Base models have no prefix and task models have one; either can be loaded as the other.
        return next((n for n in (name, name.removeprefix(prefix), prefix + name) if n in held), None)

    def take(name: str) -> Tensor:
        found = find(name) or find(repeats.get(name, name))
        if found is None:
            raise QkvError(f"the weights lack {name}")
        left.discard(found)
        return held[found]

    def join(rule: Rule) -> Tensor:
        parts = [take(name) for name in rule.theirs]
        try:
            return rule.join(parts)
        except (RuntimeError, IndexError):
            shapes = ", ".join(f"{name} {list(part.shape)}" for name, part in zip(rule.theirs, parts, strict=True))
            raise QkvError(f"these weights do not fit together: {shapes}") from None

    ours = {rule.ours: join(rule) for rule in style.rules(config)}
    for name, main in repeats.items():
        mine, other = find(name), find(main)
        if mine in left and mine is not None and other is not None:
            if not torch.equal(held[mine], held[other]):
                raise QkvError(f"the weights contain {mine}, which should equal {other} but differs from it")
            left.discard(mine)
    for name in sorted(left):
        if not any(fnmatch.fnmatch(name, pattern) for pattern in style.ignored):
            raise QkvError(f"the weights contain {name}, which this model does not have")
    return ours


def export_tensors(ours: Mapping[str, Tensor], style: Format, config: Any) -> dict[str, Tensor]:
    """Convert our tensors to theirs."""
    theirs = style.computed(config)
    for rule in style.rules(config):
        theirs |= zip(rule.theirs, rule.cut(ours[rule.ours]), strict=True)
    return theirs


def own_table(raw: Mapping[str, Any], tensors: Mapping[str, Tensor], output: str, table: str) -> bool:
    """Return whether the output table is untied, by config.json or by its values in the file, as in `transformers`."""
    if not raw.get("tie_word_embeddings", True):
        return True
    tokens = next((tensor for name, tensor in tensors.items() if name.endswith(table)), None)
    return output in tensors and tokens is not None and not torch.equal(tensors[output], tokens)


def _modern(name: str) -> str:
    """Rename gamma and beta, the weight and bias of a norm in old files converted from TensorFlow."""
    for old, new in ((".gamma", ".weight"), (".beta", ".bias")):
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name
