"""The model folder: config.json, model.safetensors, tokenizer.json, in Hugging Face's own names where it has them.

What Hugging Face has no name for (a recurrent network, a BERT with rotary positions) is the same folder with
`model_type = "qkv-<family>"`, our config under `"qkv"` and our own tensor names.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from qkv.checkpoints.hf.rules import Unwritable, export_tensors, import_tensors
from qkv.checkpoints.hf.table import FORMATS
from qkv.checkpoints.weights import WHOLE, read_weights, weight_bytes
from qkv.common import disk
from qkv.common.config import from_dict, override, to_dict
from qkv.common.errors import QkvError, UsageError, unknown
from qkv.models.catalogue import FAMILIES, build, family_of
from qkv.models.skeleton import Headed
from qkv.tokenizers.text import TextTokenizer

OURS = "qkv-"
POOLING = "1_Pooling/config.json"  # sentence-transformers' file
DTYPES = ("float32", "float16", "bfloat16")  # of weights on disk
RENAMED = {"reach": "conv_width"}  # keys of our own configs that had another name before
MULTI_LABEL = "multi_label_classification"  # transformers' problem_type


@dataclass(frozen=True)
class Folder:
    """Everything a model folder holds.

    Attributes:
        config: the family's config.
        model: the model with its weights, in `eval()`.
        tokenizer: or None for models without text.
        labels: names of the classes, in order, where the folder names them.
        pooling: how sentences are pooled, mean or first.
        multi_label: an example may have any number of the labels, not just one.
        threshold: how likely a label must be to be given, where there are several.
        no_answer: whether a reader may say that there is no answer; None where the folder does not tell.
        no_answer_threshold: by how much no answer must score above the best span to be given.
    """

    config: Any
    model: Headed
    tokenizer: TextTokenizer | None = None
    labels: tuple[str, ...] = ()
    pooling: str = "mean"
    multi_label: bool = False
    threshold: float = 0.5
    no_answer: bool | None = None
    no_answer_threshold: float = 0.0


def read_folder(path: str | Path, *, dtype: torch.dtype = torch.float32) -> Folder:
    """Load a model folder, ours or Hugging Face's."""
    folder = Path(path)
    disk.recover(folder)
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder")
    raw = _read_json(folder / "config.json")
    tensors = read_weights(folder)
    try:
        config = override(read_config(raw, set(tensors)), {})  # their values are checked as ours are
        labels, threshold, no_answer = _labels(raw), _threshold(raw), _no_answer(raw)
        with torch.device("meta"):
            model = build(config)
    except KeyError as error:
        raise QkvError(f"{folder / 'config.json'} lacks the key {error}") from None
    except (TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError, UsageError) as error:
        raise QkvError(f"{folder / 'config.json'} holds what cannot be: {error}") from None
    if not str(raw["model_type"]).startswith(OURS):
        tensors = _named(folder, lambda: import_tensors(tensors, FORMATS[family_of(config)], config))
    _fill(model, tensors, dtype, folder)
    multi_label = raw.get("problem_type") == MULTI_LABEL
    tokenizer, pooling = TextTokenizer.find(folder), _pooling(folder)
    return Folder(config, model.eval(), tokenizer, labels, pooling, multi_label, threshold, *no_answer)


def read_config(raw: Mapping[str, Any], tensors: set[str]) -> Any:
    """Turn a config.json into a family's config."""
    kind = raw.get("model_type")
    if isinstance(kind, str) and kind.startswith(OURS):
        family = kind.removeprefix(OURS)
        if family not in FAMILIES:
            raise unknown("family", family, FAMILIES)
        return from_dict(FAMILIES[family].config, {RENAMED.get(key, key): value for key, value in raw["qkv"].items()})
    for style in FORMATS.values():
        if kind in style.model_types:
            return style.read(raw, tensors)
    known = [name for style in FORMATS.values() for name in style.model_types]
    raise unknown("model_type", kind, [*known, *(OURS + family for family in FAMILIES)])


def write_folder(folder: Folder, path: str | Path, *, dtype: str = "float32") -> None:
    """Write a model folder: it is whole or not there. A run's own folder keeps its other files."""
    target = Path(path).absolute()
    disk.recover(target)
    if target.exists() and not (target.is_dir() and (not any(target.iterdir()) or (target / "config.json").is_file())):
        raise UsageError(f"{target} exists and is not a model folder: choose another place")
    with disk.no_space(str(target)):
        disk.replace_folder(target, folder_files(folder, dtype=dtype), manifest=False)


def folder_files(folder: Folder, *, dtype: str = "float32") -> dict[str, bytes]:
    """Return the files of a model folder, by name; weights in one of `DTYPES`."""
    if dtype not in DTYPES:
        raise unknown("dtype", dtype, DTYPES)
    raw = config_json(folder.config, folder.labels, multi_label=folder.multi_label) | {"dtype": dtype}
    if folder.multi_label:
        raw["threshold"] = folder.threshold
    if folder.no_answer is not None:
        raw["no_answer"] = folder.no_answer
    if folder.no_answer:
        raw["no_answer_threshold"] = folder.no_answer_threshold
    ours = {name: tensor.float() for name, tensor in folder.model.state_dict().items()}
    foreign = not raw["model_type"].startswith(OURS)
    theirs = export_tensors(ours, FORMATS[family_of(folder.config)], folder.config) if foreign else ours
    stored = {name: tensor.to(getattr(torch, dtype)) for name, tensor in theirs.items()}
    files = {WHOLE: weight_bytes(stored), "config.json": _json_bytes(raw)}
    if folder.tokenizer is not None:
        files |= folder.tokenizer.files()
    if folder.pooling != "mean":
        files[POOLING] = _json_bytes({"pooling_mode_cls_token": True, "word_embedding_dimension": folder.config.dim})
    return files


def config_json(config: Any, labels: tuple[str, ...] = (), *, multi_label: bool = False) -> dict[str, Any]:
    """Return the config.json of a config; `multi_label` is whether an example may have any number of the labels."""
    family = family_of(config)
    try:
        if family not in FORMATS:
            raise Unwritable("no such family")
        raw = FORMATS[family].write(config)
    except Unwritable:
        raw = {"model_type": OURS + family, "qkv": to_dict(config)}
    if hasattr(config, "num_labels"):
        names = labels or tuple(f"LABEL_{i}" for i in range(config.num_labels))
        if "regress" in config.heads:
            names, raw["problem_type"] = names[:1], "regression"
        elif multi_label and "classify" in config.heads:
            raw["problem_type"] = MULTI_LABEL
        raw["id2label"] = {str(i): name for i, name in enumerate(names)}
        raw["label2id"] = {name: i for i, name in enumerate(names)}
    return raw | {"dtype": "float32"}


def _fill(model: Headed, tensors: Mapping[str, Tensor], dtype: torch.dtype, folder: Path) -> None:
    """Put tensors into a model built on the meta device; each must be there, and of its shape."""
    wanted = model.state_dict()
    for name, place in wanted.items():
        if name not in tensors:
            raise QkvError(f"{folder}: the weights lack {name}")
        if tensors[name].shape != place.shape:
            got, want = list(tensors[name].shape), list(place.shape)
            raise QkvError(f"{folder}: {name} has the shape {got}, and config.json asks for {want}")
    if extra := sorted(set(tensors) - set(wanted)):
        raise QkvError(f"{folder}: the weights hold {extra[0]}, which this model has no place for")
    # A copy lies at a round address, where a file's tensors need not, and matrix products round by where things lie.
    copies = {name: tensors[name].to(dtype, copy=True, memory_format=torch.contiguous_format) for name in wanted}
    model.load_state_dict(copies, assign=True)


def _named(folder: Path, work: Any) -> Any:
    try:
        return work()
    except QkvError as error:
        raise QkvError(f"{folder}: {error}") from None


def _labels(raw: Mapping[str, Any]) -> tuple[str, ...]:
    names = raw.get("id2label") or {}
    return tuple(str(names[key]) for key in sorted(names, key=int))


def _threshold(raw: Mapping[str, Any]) -> float:
    threshold = raw.get("threshold", 0.5)
    if not isinstance(threshold, int | float) or not 0 <= threshold <= 1:
        raise UsageError(f"the threshold must be from 0 to 1, got {threshold!r}")
    return float(threshold)


def _no_answer(raw: Mapping[str, Any]) -> tuple[bool | None, float]:
    allowed, threshold = raw.get("no_answer"), raw.get("no_answer_threshold", 0.0)
    if allowed is not None and not isinstance(allowed, bool):
        raise UsageError(f"no_answer must be true or false, got {allowed!r}")
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not math.isfinite(threshold):
        raise UsageError(f"no_answer_threshold must be a finite number, got {threshold!r}")
    return allowed, float(threshold)


def _pooling(folder: Path) -> str:
    if not (folder / POOLING).is_file():
        return "mean"
    return "first" if _read_json(folder / POOLING).get("pooling_mode_cls_token") else "mean"


def _read_json(file: Path) -> dict[str, Any]:
    if not file.is_file():
        raise QkvError(f"{file.parent} is not a model folder: it has no {file.name}")
    try:
        raw = json.loads(file.read_text("utf-8"))
    except (ValueError, OSError) as error:
        raise QkvError(f"{file} is damaged: {error}") from None
    if not isinstance(raw, dict):
        raise QkvError(f"{file} is damaged: it holds no table of keys")
    return raw


def _json_bytes(raw: Mapping[str, Any]) -> bytes:
    return (json.dumps(raw, indent=2, ensure_ascii=False) + "\n").encode()
