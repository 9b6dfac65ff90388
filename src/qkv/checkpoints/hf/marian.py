"""Hugging Face's marian and pegasus formats: the original Transformer, with its norms after or before each sublayer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from qkv.checkpoints.hf.activations import ours_of, theirs_of
from qkv.checkpoints.hf.rules import Format, Rule, Unwritable, check_heads, fused, linear, reshaped, same
from qkv.common.errors import QkvError
from qkv.models.transformer import TransformerConfig
from qkv.nn.positions import SinusoidalPosition

CLASSES = {"marian": "MarianMTModel", "pegasus": "PegasusForConditionalGeneration"}
COPIES = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")


def _rules(config: TransformerConfig) -> list[Rule]:
    rules = same("embeddings.token.weight", "model.shared.weight")
    for side, layers in (("encoder", config.num_layers), ("decoder", config.num_decoder_layers)):
        for i in range(layers):
            ours, theirs = f"{side}.blocks.{i}.", f"model.{side}.layers.{i}."
            attention = f"{theirs}self_attn."
            rules += fused(f"{ours}attention.part.qkv", [f"{attention}{x}_proj" for x in "qkv"])
            rules += linear(f"{ours}attention.part.out", f"{attention}out_proj")
            rules += linear(f"{ours}attention.norm", f"{theirs}self_attn_layer_norm")
            if side == "decoder":
                cross = f"{theirs}encoder_attn."
                rules += linear(f"{ours}cross.part.q", f"{cross}q_proj")
                rules += fused(f"{ours}cross.part.kv", [f"{cross}k_proj", f"{cross}v_proj"])
                rules += linear(f"{ours}cross.part.out", f"{cross}out_proj")
                rules += linear(f"{ours}cross.norm", f"{theirs}encoder_attn_layer_norm")
            rules += linear(f"{ours}feedforward.part.up", f"{theirs}fc1")
            rules += linear(f"{ours}feedforward.part.down", f"{theirs}fc2")
            rules += linear(f"{ours}feedforward.norm", f"{theirs}final_layer_norm")
        if config.pre_norm:
            rules += linear(f"{side}.norm", f"model.{side}.layer_norm")
    return rules + reshaped("heads.lm.bias", ["final_logits_bias"], (-1,), (1, -1))


def _read(raw: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> TransformerConfig:
    kind = raw["model_type"]
    architecture = (raw.get("architectures") or [CLASSES[kind]])[0]
    if architecture != CLASSES[kind]:
        raise QkvError(f"the architecture {architecture} is not supported (allowed: {CLASSES[kind]})")
    if not raw.get("share_encoder_decoder_embeddings", True):
        raise QkvError("marian with separate vocabularies is not supported (share_encoder_decoder_embeddings = false)")
    _check_positions(tensors, raw["d_model"])
    heads, width = raw["encoder_attention_heads"], raw["encoder_ffn_dim"]
    return TransformerConfig(
        vocab_size=raw["vocab_size"],
        dim=raw["d_model"],
        num_layers=raw["encoder_layers"],
        num_decoder_layers=raw["decoder_layers"],
        num_heads=heads,
        num_decoder_heads=None if raw["decoder_attention_heads"] == heads else raw["decoder_attention_heads"],
        ff_dim=width,
        decoder_ff_dim=None if raw["decoder_ffn_dim"] == width else raw["decoder_ffn_dim"],
        max_length=raw["max_position_embeddings"],
        activation=ours_of(raw.get("activation_function", "gelu")),
        pre_norm=kind == "pegasus",
        scaled=raw.get("scale_embedding", False),
        dropout=raw.get("dropout", 0.1),
        attention_dropout=raw.get("attention_dropout", 0.0),
        activation_dropout=raw.get("activation_dropout", 0.0),
        start_id=raw.get("decoder_start_token_id", raw.get("pad_token_id", 0)),
        end_id=raw.get("eos_token_id", int(kind == "pegasus")),
    )


def _positions(rows: int, dim: int) -> Tensor:
    return SinusoidalPosition(dim)(torch.arange(rows), rows)


def _check_positions(tensors: Mapping[str, Tensor], dim: int) -> None:
    """Raise an error if a file has positions other than the formula's, such as learned ones."""
    for name in POSITIONS:
        table = tensors.get(name)
        if table is None or table.ndim != 2 or table.shape[1] != dim:
            continue
        if not torch.allclose(table.float(), _positions(*table.shape), rtol=0, atol=1e-2):  # rounded to bfloat16
            raise QkvError(f"{name} is not the table of sinusoidal positions: learned positions are not supported")


def _write(config: TransformerConfig) -> dict[str, Any]:
    kind = "pegasus" if config.pre_norm else "marian"
    if config.position.name != "sinusoidal":
        raise Unwritable(f"{kind} has no {config.position.name} positions")
    check_heads(config, kind)
    own = {"decoder_vocab_size": config.vocab_size, "share_encoder_decoder_embeddings": True}
    if config.pre_norm:  # transformers knows by the class, but CTranslate2 reads these
        own = {"normalize_before": True, "normalize_embedding": False}
    return {
        "model_type": kind,
        "architectures": [CLASSES[kind]],
        "is_encoder_decoder": True,
        "vocab_size": config.vocab_size,
        "d_model": config.dim,
        "encoder_layers": config.num_layers,
        "decoder_layers": config.num_decoder_layers,
        "encoder_attention_heads": config.num_heads,
        "decoder_attention_heads": config.num_decoder_heads or config.num_heads,
        "encoder_ffn_dim": config.ff_dim,
        "decoder_ffn_dim": config.decoder_ff_dim or config.ff_dim,
        "max_position_embeddings": config.max_length,
        "activation_function": theirs_of(config.activation),
        "scale_embedding": config.scaled,
        "static_position_embeddings": True,
        "tie_word_embeddings": True,
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": config.activation_dropout,
        "decoder_start_token_id": config.start_id,
        "pad_token_id": config.start_id,
        "eos_token_id": config.end_id,
        "forced_eos_token_id": config.end_id,
        **own,
    }


def _computed(config: TransformerConfig) -> dict[str, Tensor]:
    """Return the sinusoidal positions: without them, transformers reports Pegasus' weights as missing."""
    return {name: _positions(config.max_length, config.dim) for name in POSITIONS} if config.pre_norm else {}


FORMAT = Format(
    model_types=tuple(CLASSES),
    prefix=lambda _: "",
    read=_read,
    write=_write,
    rules=_rules,
    ignored=POSITIONS,
    repeats=lambda _: dict.fromkeys(COPIES, "model.shared.weight"),
    computed=_computed,
)
