"""Parameter counts of every preset on the meta device, against a count that does not come from qkv."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers as hf

from qkv.models import catalogue


def bert(layers: int, dim: int, **rest: Any) -> dict[str, Any]:
    sizes = {
        "num_hidden_layers": layers,
        "hidden_size": dim,
        "num_attention_heads": dim // 64,
        "intermediate_size": 4 * dim,
    }
    return sizes | rest


def t5(layers: int, dim: int, heads: int, ff: int, kv: int = 64, **rest: Any) -> dict[str, Any]:
    return {"num_layers": layers, "d_model": dim, "num_heads": heads, "d_ff": ff, "d_kv": kv, **rest}


def marian(layers: int, dim: int, ff: int, heads: int, vocab: int) -> dict[str, Any]:
    sides = {f"{side}_layers": layers for side in ("encoder", "decoder")}
    sides |= {f"{side}_ffn_dim": ff for side in ("encoder", "decoder")}
    sides |= {f"{side}_attention_heads": heads for side in ("encoder", "decoder")}
    return {"d_model": dim, "vocab_size": vocab, "pad_token_id": 0, "max_position_embeddings": 512, **sides}


# preset -> (their class, their config class, numbers as published)
THEIRS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert-tiny": ("BertModel", "BertConfig", bert(2, 128)),
    "bert-mini": ("BertModel", "BertConfig", bert(4, 256)),
    "bert-small": ("BertModel", "BertConfig", bert(4, 512)),
    "bert-medium": ("BertModel", "BertConfig", bert(8, 512)),
    "bert-base": ("BertModel", "BertConfig", bert(12, 768)),
    "bert-large": ("BertModel", "BertConfig", bert(24, 1024)),
    "bert-small-rotary": ("RoFormerModel", "RoFormerConfig", bert(4, 512, vocab_size=30_522)),
    "distilbert-base": ("DistilBertModel", "DistilBertConfig", {}),
    "albert-base": ("AlbertModel", "AlbertConfig", bert(12, 768, vocab_size=30_000, embedding_size=128)),
    "electra-small": ("ElectraForPreTraining", "ElectraConfig", bert(12, 256, embedding_size=128)),
    "electra-small-rotary": ("ElectraForPreTraining", "ElectraConfig", bert(12, 256, embedding_size=128)),
    "electra-base": ("ElectraForPreTraining", "ElectraConfig", bert(12, 768, embedding_size=768)),
    "electra-large": ("ElectraForPreTraining", "ElectraConfig", bert(24, 1024, embedding_size=1024)),
    "electra-small-generator": ("ElectraForMaskedLM", "ElectraConfig", bert(12, 64, embedding_size=128)),
    "electra-base-generator": ("ElectraForMaskedLM", "ElectraConfig", bert(12, 256, embedding_size=768)),
    "electra-large-generator": ("ElectraForMaskedLM", "ElectraConfig", bert(24, 256, embedding_size=1024)),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", {}),
    "gpt2-medium": ("GPT2LMHeadModel", "GPT2Config", {"n_layer": 24, "n_embd": 1024, "n_head": 16}),
    "gpt2-large": ("GPT2LMHeadModel", "GPT2Config", {"n_layer": 36, "n_embd": 1280, "n_head": 20}),
    "gpt2-xl": ("GPT2LMHeadModel", "GPT2Config", {"n_layer": 48, "n_embd": 1600, "n_head": 25}),
    "gpt3": ("GPT2LMHeadModel", "GPT2Config", {"n_layer": 96, "n_embd": 12_288, "n_head": 96, "n_positions": 2048}),
    "t5-small": ("T5ForConditionalGeneration", "T5Config", t5(6, 512, 8, 2048)),
    "t5-base": ("T5ForConditionalGeneration", "T5Config", t5(12, 768, 12, 3072)),
    "t5-large": ("T5ForConditionalGeneration", "T5Config", t5(24, 1024, 16, 4096)),
    "t5-3b": ("T5ForConditionalGeneration", "T5Config", t5(24, 1024, 32, 16_384, 128)),
    "t5-11b": ("T5ForConditionalGeneration", "T5Config", t5(24, 1024, 128, 65_536, 128)),
    "vit-mini": (
        "ViTForImageClassification",
        "ViTConfig",
        {
            **bert(6, 128, num_labels=1000, image_size=28, patch_size=4, num_channels=1),
            "num_attention_heads": 4,
            "intermediate_size": 256,
        },
    ),
    "vit-ti16": ("ViTForImageClassification", "ViTConfig", bert(12, 192, num_labels=1000)),
    "vit-s16": ("ViTForImageClassification", "ViTConfig", bert(12, 384, num_labels=1000)),
    "vit-b16": ("ViTForImageClassification", "ViTConfig", bert(12, 768, num_labels=1000)),
    "vit-l16": ("ViTForImageClassification", "ViTConfig", bert(24, 1024, num_labels=1000)),
    "deit-ti16": ("DeiTForImageClassificationWithTeacher", "DeiTConfig", bert(12, 192, num_labels=1000)),
    "deit-s16": ("DeiTForImageClassificationWithTeacher", "DeiTConfig", bert(12, 384, num_labels=1000)),
    "deit-b16": ("DeiTForImageClassificationWithTeacher", "DeiTConfig", bert(12, 768, num_labels=1000)),
    "transformer-tiny": ("MarianMTModel", "MarianConfig", marian(2, 128, 512, 4, 8000)),
    "transformer-mini": ("MarianMTModel", "MarianConfig", marian(4, 128, 256, 4, 10_000)),
    "transformer-small": ("MarianMTModel", "MarianConfig", marian(4, 256, 1024, 4, 10_000)),
    "transformer-base": ("MarianMTModel", "MarianConfig", marian(6, 512, 2048, 8, 37_000)),
    "transformer-big": ("MarianMTModel", "MarianConfig", marian(6, 1024, 4096, 16, 37_000)),
}
# Totals as published or as the released files hold; where both exist they agree with the table above.
PUBLISHED = {
    "bert-base": 109_482_240,
    "bert-large": 335_141_888,
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "t5-small": 60_506_624,
    "t5-base": 222_903_552,
    "t5-1.1-small": 76_961_152,
    "t5-1.1-base": 247_577_856,
    "t5-1.1-large": 783_150_080,
    "t5-1.1-xl": 2_849_757_184,
    "t5-1.1-xxl": 11_135_332_352,
    "vit-b16": 86_567_656,
    # RoBERTa's files hold two position rows that are never used: 124,645,632, 355,359,744 and 278,043,648 with them.
    "roberta-base": 124_645_632 - 2 * 768,
    "roberta-large": 355_359_744 - 2 * 1024,
    "xlm-roberta-base": 278_043_648 - 2 * 768,
}


def count(name: str) -> int:
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in catalogue.build(catalogue.preset(name)).parameters())


def rnn(dim: int, layers: int, score: str, vocab: int = 10_000) -> int:
    """LSTM sizes by the formula 4 · (in + out + 2) · out, counted by hand."""

    def lstm(inputs: int, outputs: int) -> int:
        return 4 * (inputs + outputs + 2) * outputs

    encoder = sum(2 * lstm(dim, dim // 2) for _ in range(layers))
    decoder = lstm(2 * dim, dim) + (layers - 1) * lstm(dim, dim)
    attention = {"dot": 0, "additive": dim * dim + dim * (dim + 1) + dim}[score]
    combine, bridge, bias = (2 * dim + 1) * dim, (dim + 1) * dim, vocab
    return vocab * dim + encoder + decoder + attention + combine + bridge + bias


RECURRENT = {
    "rnn-small": rnn(256, 1, "additive"),
    "rnn-base": rnn(512, 1, "additive"),
    "rnn-base-dot": rnn(512, 1, "dot"),
    "rnn-large": rnn(1024, 2, "additive"),
}


def convnet(widths: list[int], labels: int = 10) -> int:
    """A first convolution of 3 x 3, blocks of two with a norm before each, and a linear layer, counted by hand."""
    blocks = 0
    for old, new in zip([widths[0], *widths[:-1]], widths, strict=True):
        blocks += 2 * old + 9 * old * new + 2 * new + 9 * new * new + (old * new if old != new else 0)
    return 9 * 3 * widths[0] + blocks + 2 * widths[-1] + (widths[-1] + 1) * labels


CONVOLUTIONAL = {
    "convnet-mini": convnet([32, 32, 64, 64, 128, 128]),
    "convnet-small": convnet([64] * 3 + [128] * 3 + [256] * 3),
    "convnet-base": convnet([64] * 3 + [128] * 3 + [256] * 3 + [512] * 3),
}


def convolutional(layers: int, dim: int, ff: int, vocab: int, width: int = 3) -> int:
    """Gated convolutions, attention over the encoder in the decoder, feed-forward and norms, counted by hand."""
    convolution, norm = width * dim * 2 * dim + 2 * dim, 2 * dim
    feedforward, cross = 2 * dim * ff + ff + dim, 4 * (dim * dim + dim)
    encoder = layers * (convolution + feedforward + 2 * norm) + norm
    decoder = layers * (convolution + cross + feedforward + 3 * norm) + norm
    return vocab * dim + vocab + encoder + decoder


CONVOLUTIONAL |= {
    "convs2s-tiny": convolutional(2, 128, 256, 8000),
    "convs2s-small": convolutional(4, 256, 512, 10_000),
}

WORDS = {"word2vec-small": 2 * 10_000 * 100, "word2vec-base": 2 * 30_000 * 300, "word2vec-news": 2 * 3_000_000 * 300}


def test_every_preset_is_counted() -> None:
    assert set(catalogue.PRESETS) == set(THEIRS) | set(PUBLISHED) | set(RECURRENT) | set(CONVOLUTIONAL) | set(WORDS)


@pytest.mark.parametrize("name", CONVOLUTIONAL)
def test_count_of_convolutional_networks(name: str) -> None:
    assert count(name) == CONVOLUTIONAL[name]


@pytest.mark.parametrize("name", WORDS)
def test_count_of_word_vectors(name: str) -> None:
    assert count(name) == WORDS[name]


@pytest.mark.parametrize("name", THEIRS)
def test_count_equals_transformers(name: str) -> None:
    model, config, numbers = THEIRS[name]
    with torch.device("meta"):
        other = getattr(hf, model)(getattr(hf, config)(**numbers))
        other.tie_weights()
    # Sinusoidal tables are frozen parameters there and computed here; their output bias is a buffer, ours a parameter.
    without = ["embed_positions"] + ["position_embeddings"] * name.endswith("-rotary")
    theirs = sum(p.numel() for n, p in other.named_parameters() if not any(part in n for part in without))
    theirs += sum(b.numel() for n, b in other.named_buffers() if n == "final_logits_bias")
    assert count(name) == theirs


@pytest.mark.parametrize("name", PUBLISHED)
def test_count_equals_the_published_one(name: str) -> None:
    assert count(name) == PUBLISHED[name]


@pytest.mark.parametrize("name", RECURRENT)
def test_count_of_recurrent_presets(name: str) -> None:
    assert count(name) == RECURRENT[name]


@pytest.mark.parametrize("name", CONVOLUTIONAL)
def test_count_of_convolutional_presets(name: str) -> None:
    assert count(name) == CONVOLUTIONAL[name]
