"""Hugging Face's vit and deit formats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from qkv.checkpoints.hf.activations import ours_of, theirs_of
from qkv.checkpoints.hf.rules import Format, Rule, Unwritable, check_heads, fused, linear, reshaped
from qkv.common.errors import QkvError
from qkv.models.vit import ViTConfig

TASKS: dict[str, tuple[str, ...]] = {
    "ViTModel": ("pool",),
    "ViTForImageClassification": ("classify",),
    "DeiTModel": ("pool",),
    "DeiTForImageClassification": ("classify",),
    "DeiTForImageClassificationWithTeacher": ("distilled",),
}


def _name(config: ViTConfig) -> str:
    return "deit" if config.distilled else "vit"


def _rules(config: ViTConfig) -> list[Rule]:
    base = "" if not set(config.heads) - {"pool"} else f"{_name(config)}."
    tokens = ["cls_token", "distillation_token"] if config.distilled else ["cls_token"]
    flat, deep = (-1, config.dim), (1, -1, config.dim)
    rules = reshaped("embeddings.leading", [f"{base}embeddings.{token}" for token in tokens], flat, deep)
    rules += reshaped("embeddings.position.table.weight", [f"{base}embeddings.position_embeddings"], flat, deep)
    rules += linear("embeddings.project", f"{base}embeddings.patch_embeddings.projection")
    for i in range(config.num_layers):
        ours, theirs = f"stack.blocks.{i}.", f"{base}encoder.layer.{i}."
        attention = f"{theirs}attention.attention."
        rules += linear(f"{ours}attention.norm", f"{theirs}layernorm_before")
        rules += fused(f"{ours}attention.part.qkv", [attention + x for x in ("query", "key", "value")])
        rules += linear(f"{ours}attention.part.out", f"{theirs}attention.output.dense")
        rules += linear(f"{ours}feedforward.norm", f"{theirs}layernorm_after")
        rules += linear(f"{ours}feedforward.part.up", f"{theirs}intermediate.dense")
        rules += linear(f"{ours}feedforward.part.down", f"{theirs}output.dense")
    rules += linear("stack.norm", f"{base}layernorm")
    if "pool" in config.heads:
        rules += linear("pooler.dense", f"{base}pooler.dense")
    if "classify" in config.heads:
        rules += linear("heads.classify.linear", "classifier")
    if "distilled" in config.heads:
        rules += linear("heads.distilled.label", "cls_classifier")
        rules += linear("heads.distilled.teacher", "distillation_classifier")
    return rules


def _read(raw: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> ViTConfig:
    distilled = raw["model_type"] == "deit"
    architecture = (raw.get("architectures") or ["DeiTModel" if distilled else "ViTModel"])[0]
    if architecture not in TASKS:
        raise QkvError(f"the architecture {architecture} is not supported (allowed: {', '.join(TASKS)})")
    if not raw.get("qkv_bias", True):
        raise QkvError("vit with qkv_bias = false is not supported")
    heads = TASKS[architecture]
    if heads == ("pool",) and not any(name.endswith("pooler.dense.weight") for name in tensors):
        heads = ()
    return ViTConfig(
        image_size=raw["image_size"],
        patch_size=raw["patch_size"],
        channels=raw.get("num_channels", 3),
        dim=raw["hidden_size"],
        num_layers=raw["num_hidden_layers"],
        num_heads=raw["num_attention_heads"],
        ff_dim=raw["intermediate_size"],
        activation=ours_of(raw.get("hidden_act", "gelu")),
        norm_eps=raw.get("layer_norm_eps", 1e-12),
        dropout=raw.get("hidden_dropout_prob", 0.0),
        attention_dropout=raw.get("attention_probs_dropout_prob", 0.0),
        distilled=distilled,
        heads=heads,
        num_labels=len(raw.get("id2label", "ab")),
    )


def _write(config: ViTConfig) -> dict[str, Any]:
    name = _name(config)
    if config.position.name != "learned":
        raise Unwritable(f"{name} has no {config.position.name} positions")
    check_heads(config, name)
    if config.patches.stem != "plain":
        raise Unwritable(f"{name} has no {config.patches.stem} stem")
    if config.patches.window:
        raise Unwritable(f"{name} has no attention within windows")
    classes = "DeiT" if config.distilled else "ViT"
    heads = config.heads or ("pool",)
    task = next((task for task, known in TASKS.items() if task.startswith(classes) and known == heads), None)
    if task is None:
        raise Unwritable(f"{name} has no class with the heads {', '.join(config.heads)}")
    return {
        "model_type": name,
        "architectures": [task],
        "image_size": config.image_size,
        "patch_size": config.patch_size,
        "num_channels": config.channels,
        "hidden_size": config.dim,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "intermediate_size": config.ff_dim,
        "hidden_act": theirs_of(config.activation),
        "layer_norm_eps": config.norm_eps,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        "qkv_bias": True,
    }


FORMAT = Format(
    model_types=("vit", "deit"),
    prefix=lambda config: f"{_name(config)}.",
    read=_read,
    write=_write,
    rules=_rules,
)
