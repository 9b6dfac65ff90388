"""Hugging Face's t5 format, versions 1.0 and 1.1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from qkv.checkpoints.hf.activations import ours_of, theirs_of
from qkv.checkpoints.hf.rules import Format, Rule, Unwritable, fused, linear, same
from qkv.common.errors import QkvError
from qkv.models.position import PositionConfig
from qkv.models.t5 import T5Config
from qkv.nn.feedforward import GATED

# Heads, whether there is a decoder, and the prefix of the base model's tensor names.
TASKS: dict[str, tuple[tuple[str, ...], bool, str]] = {
    "T5ForConditionalGeneration": (("lm",), True, ""),
    "T5Model": ((), True, ""),
    "T5EncoderModel": ((), False, ""),
    "T5ForSequenceClassification": (("classify",), True, "transformer."),
    "T5ForTokenClassification": (("tag",), False, "transformer."),
    "T5ForQuestionAnswering": (("span",), True, ""),
}


def _task(config: T5Config) -> str:
    for task, (heads, decoder, _) in TASKS.items():
        if heads == config.heads and decoder == bool(config.num_decoder_layers):
            return task
    raise Unwritable(f"t5 has no class with the heads {', '.join(config.heads)}")


def _rules(config: T5Config) -> list[Rule]:
    base = TASKS[_task(config)][2]
    rules = same("embeddings.token.weight", f"{base}shared.weight")
    for side, layers in (("encoder", config.num_layers), ("decoder", config.num_decoder_layers)):
        for i in range(layers):
            rules += _block(config, f"{side}.blocks.{i}.", f"{base}{side}.block.{i}.layer.", side == "decoder")
        if layers:
            table = f"{base}{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
            rules += same(f"{side}.position.table.weight", table)
            rules += linear(f"{side}.norm", f"{base}{side}.final_layer_norm", bias=False)
    if "lm" in config.heads and config.output == "own":
        rules += same("heads.lm.weight", "lm_head.weight")
    if "classify" in config.heads:
        rules += linear("pooler.dense", "classification_head.dense")
        rules += linear("heads.classify.linear", "classification_head.out_proj")
    if "tag" in config.heads:
        rules += linear("heads.tag.linear", "classifier")
    if "span" in config.heads:
        rules += linear("heads.span.linear", "qa_outputs")
    return rules


def _block(config: T5Config, ours: str, theirs: str, decoder: bool) -> list[Rule]:
    attention = f"{theirs}0.SelfAttention."
    rules = fused(f"{ours}attention.part.qkv", [attention + x for x in "qkv"], bias=False)
    rules += linear(f"{ours}attention.part.out", f"{attention}o", bias=False)
    rules += linear(f"{ours}attention.norm", f"{theirs}0.layer_norm", bias=False)
    last = f"{theirs}1."
    if decoder:
        cross, last = f"{theirs}1.EncDecAttention.", f"{theirs}2."
        rules += linear(f"{ours}cross.part.q", f"{cross}q", bias=False)
        rules += fused(f"{ours}cross.part.kv", [f"{cross}k", f"{cross}v"], bias=False)
        rules += linear(f"{ours}cross.part.out", f"{cross}o", bias=False)
        rules += linear(f"{ours}cross.norm", f"{theirs}1.layer_norm", bias=False)
    dense = f"{last}DenseReluDense."
    if config.activation in GATED:
        rules += fused(f"{ours}feedforward.part.up", [f"{dense}wi_0", f"{dense}wi_1"], bias=False)
    else:
        rules += linear(f"{ours}feedforward.part.up", f"{dense}wi", bias=False)
    rules += linear(f"{ours}feedforward.part.down", f"{dense}wo", bias=False)
    return rules + linear(f"{ours}feedforward.norm", f"{last}layer_norm", bias=False)


def _read(raw: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> T5Config:
    architecture = (raw.get("architectures") or ["T5ForConditionalGeneration"])[0]
    if architecture not in TASKS:
        raise QkvError(f"the architecture {architecture} is not supported (allowed: {', '.join(TASKS)})")
    heads, decoder, _ = TASKS[architecture]
    if decoder and (raw.get("decoder_start_token_id") or 0) != 0:
        raise QkvError(f"decoder_start_token_id {raw['decoder_start_token_id']!r} is not supported for t5 (allowed: 0)")
    feedforward = raw.get("feed_forward_proj", "relu")
    if feedforward.startswith("gated-") and feedforward not in ("gated-gelu", "gated-silu"):
        raise QkvError(f"unsupported feed_forward_proj {feedforward!r} (allowed: relu, gelu, gated-gelu, gated-silu)")
    gated = {"gated-gelu": "geglu", "gated-silu": "swiglu"}
    return T5Config(
        vocab_size=raw["vocab_size"],
        dim=raw["d_model"],
        num_layers=raw["num_layers"],
        num_decoder_layers=(raw.get("num_decoder_layers") or raw["num_layers"]) if decoder else 0,
        num_heads=raw["num_heads"],
        head_dim=raw["d_kv"],
        ff_dim=raw["d_ff"],
        max_length=raw.get("n_positions", 512),
        activation=gated.get(feedforward) or ours_of(feedforward),
        norm_eps=raw.get("layer_norm_epsilon", 1e-6),
        dropout=raw.get("dropout_rate", 0.1),
        position=PositionConfig(
            name="bucketed",
            num_buckets=raw.get("relative_attention_num_buckets", 32),
            max_distance=raw.get("relative_attention_max_distance", 128),
        ),
        output=_output(raw, tensors),
        heads=heads,
        num_labels=len(raw.get("id2label", "ab")),
        end_id=raw.get("eos_token_id", 1),
    )


def _output(raw: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    """Version 1.1 sets tie_word_embeddings = false, but transformers 5 ties them anyway and then stores no table."""
    if raw.get("scale_decoder_outputs", raw.get("tie_word_embeddings", True)):
        return "scaled"
    return "own" if "lm_head.weight" in tensors else "tied"


def _write(config: T5Config) -> dict[str, Any]:
    if config.position.name != "bucketed":
        raise Unwritable(f"t5 has no {config.position.name} positions")
    gated = {"geglu": "gated-gelu", "swiglu": "gated-silu"}
    depth = {"num_layers": config.num_layers}
    if config.num_decoder_layers:
        depth["num_decoder_layers"] = config.num_decoder_layers
    return {
        "model_type": "t5",
        "architectures": [_task(config)],
        "is_encoder_decoder": bool(config.num_decoder_layers),
        "vocab_size": config.vocab_size,
        "d_model": config.dim,
        **depth,
        "num_heads": config.num_heads,
        "d_kv": config.head_dim,
        "d_ff": config.ff_dim,
        "n_positions": config.max_length,
        "feed_forward_proj": gated.get(config.activation) or theirs_of(config.activation),
        "layer_norm_epsilon": config.norm_eps,
        "dropout_rate": config.dropout,
        "relative_attention_num_buckets": config.position.num_buckets,
        "relative_attention_max_distance": config.position.max_distance or 128,
        "tie_word_embeddings": config.output == "scaled",
        "eos_token_id": config.end_id,
        "pad_token_id": 0,
        "decoder_start_token_id": 0,
    }


def _repeats(config: T5Config) -> dict[str, str]:
    base = TASKS[_task(config)][2]
    copies = [f"{base}{side}.embed_tokens.weight" for side in ("encoder", "decoder")]
    return dict.fromkeys([*copies, *(["lm_head.weight"] if config.output != "own" else [])], f"{base}shared.weight")


FORMAT = Format(
    model_types=("t5",),
    prefix=lambda _: "transformer.",
    read=_read,
    write=_write,
    rules=_rules,
    ignored=("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",),  # never used
    repeats=_repeats,
)
