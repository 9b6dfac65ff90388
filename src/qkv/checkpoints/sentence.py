"""Read and write the files with which sentence-transformers describes a text embedding model.

modules.json                        the modules in order: Transformer, Pooling, then any of Dense and Normalize
1_Pooling/config.json               how the hidden states become one vector
2_Dense/config.json, .safetensors   a linear layer and its activation
config_sentence_transformers.json   prompts, which are prepended to a text
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from qkv.checkpoints.weights import WHOLE, json_bytes, read_json, read_weights, weight_bytes
from qkv.common.errors import QkvError, UsageError
from qkv.tokenizers.loading import LIMITS

# Our name of each pooling, the name in sentence-transformers, and its key in folders written before version 5. Several
# poolings are concatenated in this order.
POOLINGS: dict[str, tuple[str, str]] = {
    "first": ("cls", "pooling_mode_cls_token"),
    "max": ("max", "pooling_mode_max_tokens"),
    "mean": ("mean", "pooling_mode_mean_tokens"),
    "mean_sqrt": ("mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens"),
    "weighted_mean": ("weightedmean", "pooling_mode_weightedmean_tokens"),
    "last": ("lasttoken", "pooling_mode_lasttoken"),
}
ACTIVATIONS = ("Tanh", "Identity", "ReLU", "GELU", "SiLU", "Sigmoid")  # classes in torch.nn
MODULES, PROMPTS = "modules.json", "config_sentence_transformers.json"


@dataclass(frozen=True, eq=False)
class Dense:
    """A linear layer applied to the vector, and the torch.nn class name of its activation."""

    weight: Tensor
    bias: Tensor | None
    activation: str = "Tanh"


@dataclass(frozen=True)
class Normalize:
    """Scales the vector to length 1."""


@dataclass(frozen=True, kw_only=True)
class SentenceModel:
    """How a text becomes a vector.

    Attributes:
        declared: whether the folder specifies all this; otherwise these are the defaults.
        pooling: how the hidden states become one vector; several poolings are concatenated.
        include_prompt: whether pooling covers the prompt too.
        after: the modules applied to the pooled vector.
        prompts: prompts by name; a prompt is prepended to the text.
        default_prompt: the name of the prompt to use if none is given.
        similarity: the similarity function in sentence-transformers; kept as it is.
    """

    declared: bool = False
    pooling: tuple[str, ...] = ("mean",)
    include_prompt: bool = True
    after: tuple[Dense | Normalize, ...] = ()
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt: str | None = None
    similarity: str | None = None

    def width(self, dim: int) -> int:
        """Return the size of the vector for hidden states of size `dim`."""
        dense = [part.weight.shape[0] for part in self.after if isinstance(part, Dense)]
        return dense[-1] if dense else len(self.pooling) * dim

    @property
    def fingerprint(self) -> str:
        """A digest of everything that determines the vector."""
        digest = hashlib.sha256()
        for name, data in sorted(sentence_files(self, dim=0, max_length=None).items()):
            digest.update(name.encode() + data)
        return digest.hexdigest()[:16]


def read_sentence(folder: Path) -> SentenceModel:
    """Read modules.json and the files it lists; without it, the pooling config that old versions of qkv wrote."""
    if not (folder / MODULES).is_file():
        file = folder / "1_Pooling" / "config.json"
        return SentenceModel(declared=True, **_pooling(file)) if file.is_file() else SentenceModel()
    rows = [(_kind(row, folder), folder / str(row.get("path", ""))) for row in _rows(folder / MODULES)]
    kinds = [kind for kind, _ in rows]
    if kinds[:2] != ["Transformer", "Pooling"] or not {"Transformer", "Pooling"}.isdisjoint(kinds[2:]):
        raise QkvError(
            f"{folder / MODULES} lists {', '.join(kinds)}; it must begin with one Transformer and one Pooling"
        )
    if rows[0][1] != folder:
        raise QkvError(
            f"{folder / MODULES} has its Transformer in {rows[0][1]}: move the files of that folder to {folder}"
        )
    after = tuple(Normalize() if kind == "Normalize" else _dense(place) for kind, place in rows[2:])
    file = rows[1][1] / "config.json"
    return SentenceModel(declared=True, after=after, **_pooling(file), **_prompts(folder / PROMPTS))


def sentence_files(sentence: SentenceModel, *, dim: int, max_length: int | None) -> dict[str, bytes]:
    """Return the sentence-transformers files, or none if the folder did not declare any."""
    if not sentence.declared:
        return {}
    parts = [type(part).__name__ for part in sentence.after]
    names = ["", *(f"{i}_{name}" for i, name in enumerate(["Pooling", *parts], 1))]
    types = [f"sentence_transformers.models.{name}" for name in ("Transformer", "Pooling", *parts)]
    rows = [{"idx": i, "name": str(i), "path": names[i], "type": types[i]} for i in range(len(types))]
    files = {MODULES: json_bytes(rows), "1_Pooling/config.json": json_bytes(_pooling_json(sentence, dim))}
    for name, part in zip(names[2:], sentence.after, strict=True):
        if isinstance(part, Dense):
            biases = {} if part.bias is None else {"linear.bias": part.bias}
            files[f"{name}/{WHOLE}"] = weight_bytes({"linear.weight": part.weight, **biases})
            files[f"{name}/config.json"] = json_bytes(_dense_json(part))
    files[LIMITS] = json_bytes({"max_seq_length": max_length, "do_lower_case": False})
    files[PROMPTS] = json_bytes({
        "prompts": dict(sentence.prompts),
        "default_prompt_name": sentence.default_prompt,
        "similarity_fn_name": sentence.similarity,
    })  # fmt: skip
    return files


def _rows(file: Path) -> list[Mapping[str, Any]]:
    try:
        rows = json.loads(file.read_text("utf-8"))
        if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
            raise ValueError("it is not a list of modules")
        return sorted(rows, key=lambda row: int(row.get("idx", 0)))
    except (ValueError, TypeError, OSError, RecursionError) as error:
        raise QkvError(f"{file} is damaged: {error}") from None


def _kind(row: Mapping[str, Any], folder: Path) -> str:
    known, kind = ("Transformer", "Pooling", "Dense", "Normalize"), str(row.get("type"))
    if not kind.startswith("sentence_transformers.") or (name := kind.rpartition(".")[2]) not in known:
        raise QkvError(f"{folder / MODULES} lists the unsupported module {kind} (allowed: {', '.join(known)})")
    return name


def _pooling(file: Path) -> dict[str, Any]:
    raw = read_json(file)
    old = {key: name for name, (_, key) in POOLINGS.items()}
    new = {theirs: name for name, (theirs, _) in POOLINGS.items()}
    if (mode := raw.get("pooling_mode")) is not None:
        asked = [mode] if isinstance(mode, str) else mode if isinstance(mode, list) else [repr(mode)]
    else:
        keys = [key for key in old if raw.get(key)]
        keys += [key for key, value in raw.items() if key.startswith("pooling_mode_") and value and key not in old]
        asked = [POOLINGS[old[key]][0] if key in old else key for key in keys] or ["mean"]
    if bad := [str(way) for way in asked if not isinstance(way, str) or way not in new]:
        raise QkvError(f"{file} has the pooling {bad[0]}, which is not supported (allowed: {', '.join(new)})")
    return {"pooling": tuple(new[way] for way in asked), "include_prompt": bool(raw.get("include_prompt", True))}


def _pooling_json(sentence: SentenceModel, dim: int) -> dict[str, Any]:
    facts = {"word_embedding_dimension": dim, "include_prompt": sentence.include_prompt}
    if list(sentence.pooling) == [name for name in POOLINGS if name in sentence.pooling]:
        return facts | {
            key: name in sentence.pooling for name, (_, key) in POOLINGS.items()
        }  # old versions can read this form
    return facts | {"pooling_mode": [POOLINGS[name][0] for name in sentence.pooling]}


def _dense(place: Path) -> Dense:
    file = place / "config.json"
    raw, tensors = read_json(file), read_weights(place)
    name = str(raw.get("activation_function", "torch.nn.modules.activation.Tanh"))
    activation = name.rpartition(".")[2]
    if not name.startswith("torch.nn.") or activation not in ACTIVATIONS:
        raise QkvError(f"{file} has the activation {name}, which is not supported (allowed: {', '.join(ACTIVATIONS)})")
    if raw.get("use_residual") or raw.get("module_input_name", "sentence_embedding") != "sentence_embedding":
        raise QkvError(f"{file} sets use_residual or changes module_input_name, which is not supported")
    weight, bias = tensors.pop("linear.weight", None), tensors.pop("linear.bias", None)
    if weight is None or weight.dim() != 2 or tensors or (bias is not None and bias.shape != weight.shape[:1]):
        raise QkvError(f"{place / WHOLE} must contain linear.weight, an optional linear.bias, and nothing else")
    return Dense(weight.float(), None if bias is None else bias.float(), activation)


def _dense_json(part: Dense) -> dict[str, Any]:
    path = "linear" if part.activation == "Identity" else "activation"
    return {
        "in_features": part.weight.shape[1],
        "out_features": part.weight.shape[0],
        "bias": part.bias is not None,
        "activation_function": f"torch.nn.modules.{path}.{part.activation}",
    }


def _prompts(file: Path) -> dict[str, Any]:
    raw = read_json(file) if file.is_file() else {}
    prompts, default = raw.get("prompts") or {}, raw.get("default_prompt_name")
    if not isinstance(prompts, dict) or not all(isinstance(text, str | None) for text in prompts.values()):
        raise QkvError(f"{file}: prompts must map names to texts, got {prompts!r}")
    prompts = {name: text or "" for name, text in prompts.items()}
    if default is not None and default not in prompts:
        raise QkvError(f"{file}: default_prompt_name {default!r} is not among the prompts ({', '.join(prompts)})")
    return {"prompts": prompts, "default_prompt": default, "similarity": raw.get("similarity_fn_name")}


def check_widths(sentence: SentenceModel, dim: int) -> None:
    """Raise an error if a dense layer does not match the size of its input."""
    size = len(sentence.pooling) * dim
    for part in sentence.after:
        if isinstance(part, Dense):
            if part.weight.shape[1] != size:
                raise UsageError(f"a Dense module expects vectors of size {part.weight.shape[1]}, but gets size {size}")
            size = part.weight.shape[0]
