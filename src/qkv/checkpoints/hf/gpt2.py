"""Hugging Face's gpt2 format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from qkv.checkpoints.hf.activations import ours_of, theirs_of
from qkv.checkpoints.hf.rules import Format, Rule, Unwritable, check_heads, linear, own_table, same, transposed
from qkv.common.errors import QkvError
from qkv.models.gpt import GPTConfig

TASKS: dict[str, tuple[str, ...]] = {
    "GPT2LMHeadModel": ("lm",),
    "GPT2Model": (),
    "GPT2ForSequenceClassification": ("classify",),
    "GPT2ForTokenClassification": ("tag",),
    "GPT2ForQuestionAnswering": ("span",),
}


def _rules(config: GPTConfig) -> list[Rule]:
    base = "transformer." if config.heads else ""
    rules = same("embeddings.token.weight", f"{base}wte.weight")
    rules += same("embeddings.position.table.weight", f"{base}wpe.weight")
    for i in range(config.num_layers):
        ours, theirs = f"stack.blocks.{i}.", f"{base}h.{i}."
        rules += linear(f"{ours}attention.norm", f"{theirs}ln_1")
        rules += transposed(f"{ours}attention.part.qkv", f"{theirs}attn.c_attn")
        rules += transposed(f"{ours}attention.part.out", f"{theirs}attn.c_proj")
        rules += linear(f"{ours}feedforward.norm", f"{theirs}ln_2")
        rules += transposed(f"{ours}feedforward.part.up", f"{theirs}mlp.c_fc")
        rules += transposed(f"{ours}feedforward.part.down", f"{theirs}mlp.c_proj")
    rules += linear("stack.norm", f"{base}ln_f")
    for head in config.heads:
        if head == "classify":
            rules += linear("heads.classify.linear", "score", bias=False)
        elif head == "lm":
            rules += same("heads.lm.weight", "lm_head.weight") if config.output == "own" else []
        else:
            rules += linear(f"heads.{head}.linear", {"tag": "classifier", "span": "qa_outputs"}[head])
    return rules


def _read(raw: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> GPTConfig:
    architecture = (raw.get("architectures") or ["GPT2LMHeadModel"])[0]
    if architecture not in TASKS:
        raise QkvError(f"the architecture {architecture} is not supported (allowed: {', '.join(TASKS)})")
    if raw.get("scale_attn_by_inverse_layer_idx") or not raw.get("scale_attn_weights", True):
        raise QkvError("gpt2 with scale_attn_by_inverse_layer_idx or without scale_attn_weights is not supported")
    return GPTConfig(
        vocab_size=raw["vocab_size"],
        dim=raw["n_embd"],
        num_layers=raw["n_layer"],
        num_heads=raw["n_head"],
        ff_dim=raw.get("n_inner") or 4 * raw["n_embd"],
        max_length=raw["n_positions"],
        activation=ours_of(raw.get("activation_function", "gelu_new")),
        norm_eps=raw.get("layer_norm_epsilon", 1e-5),
        dropout=raw.get("resid_pdrop", 0.1),
        attention_dropout=raw.get("attn_pdrop", 0.1),
        heads=TASKS[architecture],
        num_labels=len(raw.get("id2label", "ab")),
        output="own" if own_table(raw, tensors, "lm_head.weight", "wte.weight") else "tied",
        end_id=_known(raw, "eos_token_id"),
        pad_id=_known(raw, "pad_token_id"),
    )


def _known(raw: Mapping[str, Any], key: str) -> Any:
    """Return a token id, or None if it is outside the vocabulary: small models often keep GPT-2's original ids."""
    number = raw.get(key)
    outside = isinstance(number, int) and isinstance(raw["vocab_size"], int) and not 0 <= number < raw["vocab_size"]
    return None if outside else number


def _write(config: GPTConfig) -> dict[str, Any]:
    if config.position.name != "learned":
        raise Unwritable(f"gpt2 has no {config.position.name} positions")
    if config.norm != "layer" or config.window is not None or config.num_kv_heads not in (None, config.num_heads):
        raise Unwritable("gpt2 has layer norms, no window and as many key/value heads as query heads")
    check_heads(config, "gpt2")
    task = next((task for task, heads in TASKS.items() if heads == config.heads), None)
    if task is None:
        raise Unwritable(f"gpt2 has no class with the heads {', '.join(config.heads)}")
    return {
        "model_type": "gpt2",
        "architectures": [task],
        "vocab_size": config.vocab_size,
        "n_embd": config.dim,
        "n_layer": config.num_layers,
        "n_head": config.num_heads,
        "n_inner": config.ff_dim,
        "n_positions": config.max_length,
        "activation_function": theirs_of(config.activation),
        "layer_norm_epsilon": config.norm_eps,
        "resid_pdrop": config.dropout,
        "embd_pdrop": config.dropout,
        "attn_pdrop": config.attention_dropout,
        "tie_word_embeddings": config.output == "tied",
        "bos_token_id": config.end_id,
        "eos_token_id": config.end_id,
        "pad_token_id": config.pad_id,
    }


def _repeats(config: GPTConfig) -> dict[str, str]:
    own = config.output == "own" and "lm" in config.heads
    return {} if own else {"lm_head.weight": "transformer.wte.weight"}


FORMAT = Format(
    model_types=("gpt2",),
    prefix=lambda _: "transformer.",
    read=_read,
    write=_write,
    rules=_rules,
    ignored=("*attn.bias", "*attn.masked_bias"),
    repeats=_repeats,
)
