"""What `qkv info` prints."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from qkv.checkpoints.folder import OURS, Folder, config_json, why_ours
from qkv.compression.engine import engine_of
from qkv.models import catalogue
from qkv.nn import kernels
from qkv.nn.kernels import Bias


def describe(config: Any, folder: Folder, device: torch.device, kernel: str) -> dict[str, Any]:
    """Collect the facts of a model."""
    parameters = sum(parameter.numel() for parameter in folder.model.parameters())
    sizes = {f.name: getattr(config, f.name) for f in dataclasses.fields(config)}
    position = sizes.pop("position", None)
    tokenizer = folder.tokenizer
    return {
        "family": catalogue.family_of(config),
        "stored_as": folder.stored_as or config_json(config)["model_type"],
        "stored_note": _note(config, folder),
        "parameters": parameters,
        "memory_bytes": {"float32": 4 * parameters, "bfloat16": 2 * parameters},
        "position": None if position is None else position.name,
        "sizes": {key: _plain(value) for key, value in sizes.items()},
        "attention_kernel": {"none": "convolutions, no attention"}
        if position is None and catalogue.reads_images(config)
        else _kernels(folder, position.name if position else None, device, kernel),
        "engine": engine_of(folder.model),
        "tokenizer": None
        if tokenizer is None
        else {"kind": tokenizer.kind, "vocab_size": tokenizer.vocab_size, "fingerprint": tokenizer.fingerprint},
        "labels": list(folder.labels) if {"classify", "tag", "distilled"} & set(getattr(config, "heads", ())) else [],
        "tasks": {name: task.prefix for name, task in folder.text_tasks.items()},
    }


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return list(value) if isinstance(value, tuple) else value


def _note(config: Any, folder: Folder) -> str:
    """Return why other libraries cannot read the folder, or what to do so that they can."""
    if folder.exported:
        return "graphs, made from another folder"
    if folder.int8:
        return "the weights are stored in int8"
    written = config_json(config)["model_type"]
    if folder.stored_as.startswith(OURS) and not written.startswith(OURS):
        return f"from an earlier version; saved again, it becomes {written}"
    return "" if folder.stored_as and not folder.stored_as.startswith(OURS) else why_ours(config)


def _kernels(folder: Folder, position: str | None, device: torch.device, kernel: str) -> dict[str, str]:
    """Return the attention kernel for each precision."""
    if folder.exported:
        return {"any": "in the graph"}
    if not any(hasattr(module, "kernel") for module in folder.model.modules()):
        return {"none": "recurrent: attention over segments of the row, no kernel to choose"}
    if kernel != "auto":
        return {"any": kernel}
    table = torch.empty(1, 1)
    biases = {"relative": Bias(table, table), "bucketed": Bias(table), "alibi": Bias(table)}
    dtypes = {"float32": torch.float32, "bfloat16": torch.bfloat16}
    return {name: kernels.choice(device.type, dtype, biases.get(position or "none")) for name, dtype in dtypes.items()}
