"""Hugging Face's marian format: the original Transformer as trained by Marian."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from qkv.checkpoints.hf.activations import ours_of, theirs_of
from qkv.checkpoints.hf.rules import Format, Rule, Unwritable, fused, linear, reshaped, same
from qkv.common.errors import QkvError
from qkv.models.transformer import TransformerConfig

COPIES = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")


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
    return rules + reshaped("heads.lm.bias", ["final_logits_bias"], (-1,), (1, -1))


def _read(raw: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> TransformerConfig:
    del tensors
    if not raw.get("share_encoder_decoder_embeddings", True):
        raise QkvError("marian with separate vocabularies is not supported (share_encoder_decoder_embeddings = false)")
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
        scaled=raw.get("scale_embedding", False),
        dropout=raw.get("dropout", 0.1),
        attention_dropout=raw.get("attention_dropout", 0.0),
        activation_dropout=raw.get("activation_dropout", 0.0),
        start_id=raw.get("decoder_start_token_id", raw.get("pad_token_id", 0)),
        end_id=raw.get("eos_token_id", 0),
    )


def _write(config: TransformerConfig) -> dict[str, Any]:
    if config.position.name != "sinusoidal":
        raise Unwritable(f"marian has no {config.position.name} positions")
    if config.pre_norm:
        raise Unwritable("marian applies its norms after each sublayer")
    return {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        "is_encoder_decoder": True,
        "vocab_size": config.vocab_size,
        "decoder_vocab_size": config.vocab_size,
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
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": config.activation_dropout,
        "decoder_start_token_id": config.start_id,
        "pad_token_id": config.start_id,
        "eos_token_id": config.end_id,
        "forced_eos_token_id": config.end_id,
    }


FORMAT = Format(
    model_types=("marian",),
    prefix=lambda _: "",
    read=_read,
    write=_write,
    rules=_rules,
    ignored=("model.*.embed_positions.weight",),
    repeats=lambda _: dict.fromkeys(COPIES, "model.shared.weight"),
)
