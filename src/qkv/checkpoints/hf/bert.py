"""Hugging Face's bert, roberta, xlm-roberta, distilbert, albert, electra and roformer formats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from qkv.checkpoints.hf.activations import ours_of, theirs_of
from qkv.checkpoints.hf.rules import (
    Format,
    Rule,
    Unwritable,
    check_heads,
    fused,
    linear,
    own_table,
    same,
    skipping,
    turned,
)
from qkv.common.errors import QkvError
from qkv.models.bert import BertConfig
from qkv.models.position import PositionConfig
from qkv.nn.positions import SinusoidalPosition


@dataclass(frozen=True)
class _Names:
    """The tensor names of a flavour, where `{i}` is the layer."""

    model_type: str
    classes: str
    layer: str = "encoder.layer.{i}."
    attention: tuple[str, str, str, str] = (
        "attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
    )  # fmt: skip
    rest: tuple[str, str, str, str] = (
        "attention.output.LayerNorm", "intermediate.dense", "output.dense", "output.LayerNorm",
    )  # fmt: skip
    project: str = ""
    base_pooler: str = "pooler.dense"
    task_pooler: str = ""  # if the pooler is part of the classifier instead
    masked: tuple[str, str, str] = (
        "cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.bias",
    )  # fmt: skip
    decoder: str = "cls.predictions.decoder"  # the output table, if it is not tied
    pair: str = "cls.seq_relationship"
    classify: str = "classifier"

    @property
    def prefix(self) -> str:
        return self.model_type.replace("xlm-", "") + "."


_ROBERTA = {
    "task_pooler": "classifier.dense",
    "masked": ("lm_head.dense", "lm_head.layer_norm", "lm_head.bias"),
    "decoder": "lm_head.decoder",
    "classify": "classifier.out_proj",
}
NAMES: dict[str, _Names] = {
    "bert": _Names("bert", "Bert"),
    "roberta": _Names("roberta", "Roberta", **_ROBERTA),  # type: ignore[arg-type]
    "xlm-roberta": _Names("xlm-roberta", "XLMRoberta", **_ROBERTA),  # type: ignore[arg-type]
    "distilbert": _Names(
        "distilbert", "DistilBert",
        layer="transformer.layer.{i}.",
        attention=("attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin"),
        rest=("sa_layer_norm", "ffn.lin1", "ffn.lin2", "output_layer_norm"),
        task_pooler="pre_classifier",
        masked=("vocab_transform", "vocab_layer_norm", "vocab_projector.bias"),
        decoder="vocab_projector",
    ),
    "albert": _Names(
        "albert", "Albert",
        layer="encoder.albert_layer_groups.{i}.albert_layers.0.",
        attention=("attention.query", "attention.key", "attention.value", "attention.dense"),
        rest=("attention.LayerNorm", "ffn", "ffn_output", "full_layer_layer_norm"),
        project="encoder.embedding_hidden_mapping_in",
        base_pooler="pooler",
        masked=("predictions.dense", "predictions.LayerNorm", "predictions.bias"),
        decoder="predictions.decoder",
        pair="sop_classifier.classifier",
    ),
    "electra": _Names(
        "electra", "Electra",
        project="embeddings_project",
        task_pooler="classifier.dense",
        masked=("generator_predictions.dense", "generator_predictions.LayerNorm", "generator_lm_head.bias"),
        decoder="generator_lm_head",
        classify="classifier.out_proj",
    ),
    "roformer": _Names(
        "roformer", "RoFormer",
        project="embeddings_project",
        task_pooler="classifier.dense",
        classify="classifier.out_proj",
    ),
}  # fmt: skip

# Their class names, without the flavour, and the heads of each.
TASKS: dict[str, tuple[str, ...]] = {
    "Model": ("pool",),
    "ForPreTraining": ("pool", "mlm", "nsp"),
    "ForMaskedLM": ("mlm",),
    "ForNextSentencePrediction": ("pool", "nsp"),
    "ForSequenceClassification": ("pool", "classify"),
    "ForTokenClassification": ("tag",),
    "ForQuestionAnswering": ("span",),
}


def _base(config: BertConfig) -> str:
    """Return the prefix of the encoder's tensor names, which is empty for a model without heads."""
    return NAMES[config.flavour].prefix if set(config.heads) - {"pool"} else ""


def _rules(config: BertConfig) -> list[Rule]:
    names = NAMES[config.flavour]
    base = _base(config)
    q, k, v, out = names.attention
    norm1, up, down, norm2 = names.rest
    rules = same("embeddings.token.weight", f"{base}embeddings.word_embeddings.weight")
    if config.position.name == "learned":
        table = f"{base}embeddings.position_embeddings.weight"
        rules += skipping("embeddings.position.table.weight", table, _unused(config.flavour, config.pad_id))
    if config.num_segments:
        rules += same("embeddings.segment.weight", f"{base}embeddings.token_type_embeddings.weight")
    rules += linear("embeddings.norm", f"{base}embeddings.LayerNorm")
    if config.embedding_dim not in (None, config.dim):
        rules += linear("embeddings.project", base + names.project)
    for i in range(config.num_groups if config.flavour == "albert" else config.num_layers):
        ours, theirs = f"stack.blocks.{i}.", base + names.layer.format(i=i)
        product, parts = f"{ours}attention.part.qkv", [theirs + q, theirs + k, theirs + v]
        rules += turned(product, parts, config.num_heads) if config.flavour == "roformer" else fused(product, parts)
        rules += linear(f"{ours}attention.part.out", theirs + out)
        rules += linear(f"{ours}attention.norm", theirs + norm1)
        rules += linear(f"{ours}feedforward.part.up", theirs + up)
        rules += linear(f"{ours}feedforward.part.down", theirs + down)
        rules += linear(f"{ours}feedforward.norm", theirs + norm2)
    return rules + _head_rules(config, names, base)


def _head_rules(config: BertConfig, names: _Names, base: str) -> list[Rule]:
    rules: list[Rule] = []
    sequence = {"classify", "regress"} & set(config.heads)
    if sequence and names.task_pooler:
        rules += linear("pooler.dense", names.task_pooler)
    elif sequence or {"pool", "nsp"} & set(config.heads):
        rules += linear("pooler.dense", base + names.base_pooler)
    dense, norm, bias = names.masked
    for head in config.heads:
        if head == "mlm":
            rules += linear("heads.mlm.dense", dense) + linear("heads.mlm.norm", norm)
            rules += _output_rules(config, names, bias)
        elif head == "replaced":
            rules += linear("heads.replaced.dense", "discriminator_predictions.dense")
            rules += linear("heads.replaced.linear", "discriminator_predictions.dense_prediction")
        elif head != "pool":
            theirs = {"nsp": names.pair, "tag": "classifier", "span": "qa_outputs"}.get(head, names.classify)
            rules += linear(f"heads.{head}.linear", theirs)
    return rules


def _output_rules(config: BertConfig, names: _Names, bias: str) -> list[Rule]:
    """An untied output table has its own bias; the bias of the tied table is then stored but not used."""
    if config.output == "tied":
        return same("heads.mlm.decoder.bias", bias)
    both = tuple(dict.fromkeys((f"{names.decoder}.bias", bias)))
    own = Rule("heads.mlm.decoder.bias", both, cut=lambda tensor: [tensor.clone() for _ in both])
    return [*same("heads.mlm.decoder.weight", f"{names.decoder}.weight"), own]


def _repeats(config: BertConfig) -> dict[str, str]:
    names = NAMES[config.flavour]
    bias, decoder = names.masked[2], names.decoder
    found = {} if bias == f"{decoder}.bias" else {f"{decoder}.bias": bias}
    if config.output == "tied":
        found[f"{decoder}.weight"] = f"{names.prefix}embeddings.word_embeddings.weight"
    return found


def _unused(flavour: str, pad_id: int) -> int:
    """Return the number of unused position rows: RoBERTa's positions start after the padding id."""
    return pad_id + 1 if "roberta" in flavour else 0


def _heads(raw: Mapping[str, Any], flavour: str, tensors: Mapping[str, Tensor]) -> tuple[str, ...]:
    """Return the heads of the class, and any others in the file: BERT's original releases contain more."""
    names = NAMES[flavour]
    architecture = (raw.get("architectures") or [f"{names.classes}Model"])[0]
    task = architecture.removeprefix(names.classes)
    if task not in TASKS:
        allowed = ", ".join(names.classes + known for known in TASKS)
        raise QkvError(f"the architecture {architecture} is not supported (allowed: {allowed})")
    heads = list(TASKS[task])
    if flavour == "electra" and task == "ForPreTraining":
        heads = ["replaced"]
    if "classify" in heads and (raw.get("problem_type") == "regression" or len(raw.get("id2label", "ab")) == 1):
        heads[heads.index("classify")] = "regress"

    def held(*parts: str) -> bool:
        return any(name.endswith((f"{part}.weight", part)) for name in tensors for part in parts)

    pooled = held(names.base_pooler) or ("classify" in heads or "regress" in heads)
    if "pool" in heads and not pooled:
        heads.remove("pool")
    if "pool" not in heads and pooled:
        heads.insert(0, "pool")
    for head, evidence in (("mlm", names.masked[0]), ("nsp", names.pair)):
        if head not in heads and held(evidence):
            heads.append(head)
    return tuple(heads)


def _read(raw: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> BertConfig:
    flavour = raw["model_type"]
    if raw.get("position_embedding_type", "absolute") != "absolute":
        raise QkvError(f"unsupported position_embedding_type {raw['position_embedding_type']!r} (allowed: absolute)")
    if raw.get("rotary_value"):
        raise QkvError("rotary_value true is not supported (allowed: false)")
    if flavour == "albert" and raw.get("inner_group_num", 1) != 1:
        raise QkvError(f"inner_group_num {raw['inner_group_num']!r} is not supported (allowed: 1)")
    distil, names = flavour == "distilbert", NAMES[flavour]
    dim = raw["dim" if distil else "hidden_size"]
    pad = raw.get("pad_token_id", 1 if "roberta" in flavour else 0)
    own = own_table(raw, tensors, f"{names.decoder}.weight", "embeddings.word_embeddings.weight")
    return BertConfig(
        vocab_size=raw["vocab_size"],
        dim=dim,
        num_layers=raw["n_layers" if distil else "num_hidden_layers"],
        num_heads=raw["n_heads" if distil else "num_attention_heads"],
        ff_dim=raw["hidden_dim" if distil else "intermediate_size"],
        max_length=raw["max_position_embeddings"] - _unused(flavour, pad),
        num_segments=0 if distil else raw.get("type_vocab_size", 2),
        embedding_dim=raw.get("embedding_size") if names.project else None,
        activation=ours_of(raw.get("activation" if distil else "hidden_act", "gelu")),
        norm_eps=raw.get("layer_norm_eps", 1e-12),
        dropout=raw.get("dropout" if distil else "hidden_dropout_prob", 0.1),
        attention_dropout=raw.get("attention_dropout" if distil else "attention_probs_dropout_prob", 0.1),
        position=PositionConfig(name="rotary" if flavour == "roformer" else "learned"),
        heads=_heads(raw, flavour, tensors),
        num_labels=len(raw.get("id2label", "ab")),
        flavour=flavour,
        output="own" if own else "tied",
        num_groups=raw.get("num_hidden_groups", 1) if flavour == "albert" else 1,
        pad_id=0 if pad is None else pad,
    )


def _task(config: BertConfig) -> str:
    heads = tuple("classify" if head == "regress" else head for head in config.heads if head != "pool")
    if config.flavour == "electra" and heads == ("replaced",):
        return "ForPreTraining"
    if config.flavour == "roformer" and set(heads) == {"mlm", "nsp"}:
        return "ForMaskedLM"  # it has no class for both, but the file may contain the weights of the nsp head
    for task, carried in TASKS.items():
        if set(heads) == set(carried) - {"pool"} and len(heads) == len(set(heads)):
            return task
    raise Unwritable(f"{config.flavour} has no class with the heads {', '.join(config.heads)}")


def _write(config: BertConfig) -> dict[str, Any]:
    names = NAMES[config.flavour]
    if config.position.name != ("rotary" if config.flavour == "roformer" else "learned"):
        raise Unwritable(f"{names.model_type} has no {config.position.name} positions")
    if config.flavour == "roformer" and config.position.base != PositionConfig.base:
        raise Unwritable(f"{names.model_type} has rotary positions of base {PositionConfig.base:g}")
    check_heads(config, names.model_type)
    if config.conv_width > 1:
        raise Unwritable(f"{names.model_type} has no convolution over its embeddings")
    if config.flavour == "albert" and config.embedding_dim in (None, config.dim):
        raise Unwritable("albert has a token table narrower than dim")
    if config.embedding_dim not in (None, config.dim) and not names.project:
        raise Unwritable(f"{names.model_type} has no token table narrower than dim")
    if config.flavour == "distilbert" and (config.num_segments or config.norm_eps != 1e-12):
        raise Unwritable("distilbert has no segments, and its norm_eps is 1e-12")
    act = theirs_of(config.activation)
    raw: dict[str, Any] = {
        "model_type": names.model_type,
        "architectures": [names.classes + _task(config)],
        "vocab_size": config.vocab_size,
        "max_position_embeddings": config.max_length + _unused(config.flavour, config.pad_id),
        "pad_token_id": config.pad_id,
        "tie_word_embeddings": config.output == "tied",
    }
    if config.flavour == "distilbert":
        return raw | {
            "dim": config.dim,
            "n_layers": config.num_layers,
            "n_heads": config.num_heads,
            "hidden_dim": config.ff_dim,
            "activation": act,
            "dropout": config.dropout,
            "attention_dropout": config.attention_dropout,
        }
    raw |= {
        "hidden_size": config.dim,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "intermediate_size": config.ff_dim,
        "hidden_act": act,
        "layer_norm_eps": config.norm_eps,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        "type_vocab_size": config.num_segments,
    }
    if config.flavour == "albert":
        raw["num_hidden_groups"] = config.num_groups
    if names.project and (config.embedding_dim or config.flavour != "roformer"):  # its default is hidden_size
        raw["embedding_size"] = config.embedding_dim or config.dim
    return raw


def _computed(config: BertConfig) -> dict[str, Tensor]:
    """Return the sines and cosines of the rotary angles, which RoFormer stores."""
    if config.flavour != "roformer":
        return {}
    angles = SinusoidalPosition(config.dim // config.num_heads)
    return {
        f"{_base(config)}encoder.embed_positions.weight": angles(torch.arange(config.max_length), config.max_length)
    }


FORMAT = Format(
    model_types=tuple(NAMES),
    prefix=lambda config: NAMES[config.flavour].prefix,
    read=_read,
    write=_write,
    rules=_rules,
    ignored=("*position_ids", "*token_type_ids", "*embed_positions.weight"),
    repeats=_repeats,
    computed=_computed,
)
