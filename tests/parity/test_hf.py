"""Every family and head against `transformers`: tiny random models, fp32, ragged batches, folders both ways."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import transformers as hf

import qkv
from qkv.common.errors import QkvError

V = 61
BERT = {
    "vocab_size": V, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48,
    "max_position_embeddings": 40, "num_labels": 3,
}  # fmt: skip
DISTIL = {
    "vocab_size": V, "dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 48, "max_position_embeddings": 40,
    "num_labels": 3,
}  # fmt: skip
GPT2 = {"vocab_size": V, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 40, "num_labels": 3, "pad_token_id": 0}
T5 = {
    "vocab_size": V, "d_model": 32, "d_kv": 6, "d_ff": 48, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 4,
    "relative_attention_num_buckets": 12, "relative_attention_max_distance": 14, "num_labels": 3,
    "decoder_start_token_id": 0,
}  # fmt: skip
T5_11 = T5 | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
VIT = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "image_size": 24,
    "patch_size": 8, "num_labels": 3,
}  # fmt: skip
MARIAN = {
    "vocab_size": V, "d_model": 32, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 40,
    "pad_token_id": 0, "decoder_start_token_id": 0, "eos_token_id": 1, "forced_eos_token_id": 1,
}  # fmt: skip
PEGASUS = MARIAN | {"activation_function": "relu"}
OWN = {"tie_word_embeddings": False}


@dataclass(frozen=True)
class Case:
    model: type
    config: type
    numbers: dict[str, Any]
    heads: dict[str, str] = field(default_factory=lambda: {"": "logits"})  # our head -> their output
    segments: bool = False

    @property
    def name(self) -> str:
        extra = sorted(
            set(map(str, self.numbers.items())) - set(map(str, {**BERT, **GPT2, **T5, **VIT, **MARIAN}.items()))
        )
        return (
            "-".join([self.model.__name__, *extra]) if self.config is not hf.DistilBertConfig else self.model.__name__
        )


def bert_like(prefix: str, config: type, numbers: dict[str, Any], **rest: Any) -> list[Case]:
    tasks = {"MaskedLM": "mlm", "SequenceClassification": "classify", "TokenClassification": "tag"}
    cases = [
        Case(getattr(hf, f"{prefix}For{task}"), config, numbers, {h: "logits"}, **rest) for task, h in tasks.items()
    ]
    span = Case(
        getattr(hf, f"{prefix}ForQuestionAnswering"),
        config,
        numbers | {"num_labels": 2},
        {"span": "start_logits"},
        **rest,
    )
    return [*cases, span]


ENCODERS = [
    *bert_like("Bert", hf.BertConfig, BERT, segments=True),
    Case(
        hf.BertForPreTraining, hf.BertConfig, BERT,
        {"mlm": "prediction_logits", "nsp": "seq_relationship_logits"}, segments=True,
    ),
    Case(hf.BertForNextSentencePrediction, hf.BertConfig, BERT, {"nsp": "logits"}, segments=True),
    Case(hf.BertForMaskedLM, hf.BertConfig, BERT | {"hidden_act": "gelu_new", "layer_norm_eps": 1e-3}),
    Case(hf.BertForSequenceClassification, hf.BertConfig, BERT | {"num_labels": 1}, {"regress": "logits"}),
    *bert_like("Roberta", hf.RobertaConfig, BERT | {"max_position_embeddings": 42, "type_vocab_size": 1}),
    *bert_like("XLMRoberta", hf.XLMRobertaConfig, BERT | {"max_position_embeddings": 42, "type_vocab_size": 1}),
    *bert_like("DistilBert", hf.DistilBertConfig, DISTIL),
    *bert_like("Albert", hf.AlbertConfig, BERT | {"embedding_size": 16}, segments=True),
    Case(
        hf.AlbertForPreTraining, hf.AlbertConfig, BERT | {"embedding_size": 16, "num_labels": 2},
        {"mlm": "prediction_logits", "nsp": "sop_logits"},
    ),
    *bert_like("Electra", hf.ElectraConfig, BERT | {"embedding_size": 16}, segments=True),
    Case(hf.ElectraForPreTraining, hf.ElectraConfig, BERT | {"embedding_size": 16}, {"replaced": "logits"}),
    Case(hf.ElectraForPreTraining, hf.ElectraConfig, BERT | {"embedding_size": 32}, {"replaced": "logits"}),
    *bert_like("RoFormer", hf.RoFormerConfig, BERT, segments=True),
    Case(hf.RoFormerForMaskedLM, hf.RoFormerConfig, BERT | {"embedding_size": 16, "hidden_act": "gelu_new"}),
    Case(hf.RoFormerForSequenceClassification, hf.RoFormerConfig, BERT | {"hidden_act": "relu"}),
    Case(hf.GPT2LMHeadModel, hf.GPT2Config, GPT2),
    Case(hf.GPT2LMHeadModel, hf.GPT2Config, GPT2 | {"n_inner": 40, "activation_function": "relu"}),
    Case(hf.GPT2ForSequenceClassification, hf.GPT2Config, GPT2),
    Case(hf.GPT2ForTokenClassification, hf.GPT2Config, GPT2),
    Case(hf.GPT2ForQuestionAnswering, hf.GPT2Config, GPT2, {"span": "start_logits"}),
    Case(hf.T5ForTokenClassification, hf.T5Config, T5),
    *(
        Case(getattr(hf, f"{name}ForMaskedLM"), getattr(hf, f"{name}Config"), numbers | OWN, {"mlm": "logits"})
        for name, numbers in {
            "Bert": BERT, "Roberta": BERT | {"max_position_embeddings": 42}, "DistilBert": DISTIL, "RoFormer": BERT,
            "XLMRoberta": BERT | {"max_position_embeddings": 42}, "Electra": BERT | {"embedding_size": 16},
            "Albert": BERT | {"embedding_size": 16},
        }.items()
    ),
    Case(hf.GPT2LMHeadModel, hf.GPT2Config, GPT2 | OWN),
    *(
        Case(hf.RobertaForMaskedLM, hf.RobertaConfig, BERT | {"max_position_embeddings": 50, "pad_token_id": pad})
        for pad in (0, 5)
    ),
    *(
        Case(hf.AlbertForMaskedLM, hf.AlbertConfig, BERT | {"embedding_size": 16, **more}, {"mlm": "logits"})
        for more in ({"num_hidden_groups": 3}, {"num_hidden_layers": 7, "num_hidden_groups": 3})
    ),
]  # fmt: skip
BASES = [
    Case(hf.BertModel, hf.BertConfig, BERT, segments=True),
    Case(hf.RobertaModel, hf.RobertaConfig, BERT | {"type_vocab_size": 1}),
    Case(hf.DistilBertModel, hf.DistilBertConfig, DISTIL),
    Case(hf.AlbertModel, hf.AlbertConfig, BERT | {"embedding_size": 16}),
    Case(hf.ElectraModel, hf.ElectraConfig, BERT | {"embedding_size": 16}),
    Case(hf.RoFormerModel, hf.RoFormerConfig, BERT | {"embedding_size": 16}),
    Case(hf.GPT2Model, hf.GPT2Config, GPT2),
    Case(hf.T5EncoderModel, hf.T5Config, T5),
]
ENCODER_DECODERS = [
    Case(hf.MarianMTModel, hf.MarianConfig, MARIAN),
    Case(hf.MarianMTModel, hf.MarianConfig, MARIAN | {"scale_embedding": True, "activation_function": "swish"}),
    Case(
        hf.MarianMTModel,
        hf.MarianConfig,
        MARIAN | {"encoder_attention_heads": 2, "decoder_attention_heads": 8, "decoder_ffn_dim": 40},
    ),
    Case(hf.PegasusForConditionalGeneration, hf.PegasusConfig, PEGASUS),
    Case(
        hf.PegasusForConditionalGeneration,
        hf.PegasusConfig,
        MARIAN | {"scale_embedding": True, "decoder_attention_heads": 8, "decoder_ffn_dim": 40, "eos_token_id": 3},
    ),
    Case(hf.T5ForConditionalGeneration, hf.T5Config, T5),
    Case(hf.T5ForConditionalGeneration, hf.T5Config, T5_11),
    Case(hf.T5ForSequenceClassification, hf.T5Config, T5),
    Case(hf.T5ForQuestionAnswering, hf.T5Config, T5 | {"num_labels": 2}, {"span": "start_logits"}),
]
IMAGES = [
    Case(hf.ViTForImageClassification, hf.ViTConfig, VIT),
    Case(hf.DeiTForImageClassification, hf.DeiTConfig, VIT),
    Case(hf.DeiTForImageClassificationWithTeacher, hf.DeiTConfig, VIT),
]


def theirs(case: Case) -> Any:
    """A random model of theirs; every weight is drawn, so that no zero bias or unit norm hides a mistake."""
    torch.manual_seed(0)
    model = case.model(case.config(**case.numbers)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" not in name:  # the sinusoids of Marian and Pegasus are a formula, not weights
                parameter.add_(torch.randn_like(parameter) * 0.15)
        if isinstance(model, hf.MarianMTModel | hf.PegasusForConditionalGeneration):
            model.final_logits_bias.normal_()
    return model


def sequences(longest: int = 17, *, last: int | None = None) -> list[list[int]]:
    draw = random.Random(1)
    found = [[draw.randrange(2, V) for _ in range(length)] for length in (5, 1, longest, 9, 2)]
    return [ids if last is None else [*ids[:-1], last] for ids in found]


def agree(ours: list[torch.Tensor], reference: list[torch.Tensor]) -> None:
    assert len(ours) == len(reference)
    for mine, other in zip(ours, reference, strict=True):
        torch.testing.assert_close(mine, other, atol=1e-4, rtol=0)


@torch.no_grad()
def their_encoder(
    model: Any, ids: list[list[int]], output: str, segments: list[list[int]] | None
) -> list[torch.Tensor]:
    """One sequence at a time, so that nothing of theirs is padded."""
    found = []
    for number, sequence in enumerate(ids):
        extra = {} if segments is None else {"token_type_ids": torch.tensor([segments[number]])}
        result = model(input_ids=torch.tensor([sequence]), **extra)
        if output == "start_logits":
            found.append(torch.stack([result.start_logits[0], result.end_logits[0]], dim=-1))
        else:
            found.append(result[output][0])
    return found


def there_and_back(case: Case, tmp_path: Any) -> tuple[Any, qkv.Model, Any]:
    """Their model, ours read from their folder, and theirs read from the folder ours wrote."""
    model = theirs(case)
    model.save_pretrained(tmp_path / "theirs")
    ours = qkv.load(tmp_path / "theirs")
    qkv.save(ours, tmp_path / "ours")
    back, report = case.model.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert qkv.load(tmp_path / "ours").config == ours.config
    return model, ours, back.eval()


@pytest.mark.parametrize("case", ENCODERS, ids=lambda case: case.name)
def test_heads_over_tokens_and_sequences(case: Case, tmp_path: Any) -> None:
    model, ours, back = there_and_back(case, tmp_path)
    ids = sequences()
    segments = [[int(i >= len(s) // 2) for i in range(len(s))] for s in ids] if case.segments else None
    for head, output in case.heads.items():
        mine = ours.logits(ids, head=head or None, segments=segments)
        mine = [m.unsqueeze(0) if head == "regress" else m for m in mine]
        agree(mine, their_encoder(model, ids, output, segments))
        agree(mine, their_encoder(back, ids, output, segments))


@pytest.mark.parametrize("case", BASES, ids=lambda case: case.name)
def test_hidden_states_of_base_models(case: Case, tmp_path: Any) -> None:
    model, ours, back = there_and_back(case, tmp_path)
    ids = sequences()
    mine = ours.hidden(ids)
    agree(mine, their_encoder(model, ids, "last_hidden_state", None))
    agree(mine, their_encoder(back, ids, "last_hidden_state", None))


@pytest.mark.parametrize("case", ENCODER_DECODERS, ids=lambda case: case.name)
def test_encoder_decoders(case: Case, tmp_path: Any) -> None:
    model, ours, back = there_and_back(case, tmp_path)
    classify = case.model is hf.T5ForSequenceClassification
    source = sequences(last=1 if classify else None)
    target = [[0, *ids[:-1]] for ids in (source if classify else sequences(11)[::-1])]
    output = next(iter(case.heads.values()))
    for reference in (model, back):
        found = []
        for s, t in zip(source, target, strict=True):
            with torch.no_grad():
                result = reference(input_ids=torch.tensor([s]), decoder_input_ids=torch.tensor([t]))
            both = output == "start_logits"
            found.append(torch.stack([result.start_logits[0], result.end_logits[0]], -1) if both else result[output][0])
        agree(ours.logits(source, target), found)


@pytest.mark.parametrize("case", IMAGES, ids=lambda case: case.name)
def test_images(case: Case, tmp_path: Any) -> None:
    model, ours, back = there_and_back(case, tmp_path)
    pixels = torch.randn(3, 3, 24, 24)
    for reference in (model, back):
        with torch.no_grad():
            agree(ours.logits(pixels), list(reference(pixel_values=pixels).logits))


@pytest.mark.parametrize("name", ["ViTModel", "DeiTModel"])
def test_pooled_images(name: str, tmp_path: Any) -> None:
    case = Case(getattr(hf, name), getattr(hf, name.replace("Model", "Config")), VIT)
    model, ours, _ = there_and_back(case, tmp_path)
    pixels = torch.randn(2, 3, 24, 24)
    with torch.no_grad():
        reference = model(pixel_values=pixels)
    agree(ours.hidden(pixels), list(reference.last_hidden_state))
    hidden = ours.module(qkv.common.batch.Images(pixels))
    assert ours.module.pooler is not None
    agree(list(ours.module.pooler(hidden)), list(reference.pooler_output))


def test_pooled_sentences(tmp_path: Any) -> None:
    model, ours, _ = there_and_back(Case(hf.BertModel, hf.BertConfig, BERT), tmp_path)
    ids = sequences()
    with torch.no_grad():
        reference = [model(input_ids=torch.tensor([s])).pooler_output[0] for s in ids]
        assert ours.module.pooler is not None
        mine = ours.module.pooler(ours.module(qkv.common.batch.Tokens.of(ids)))
    agree(list(mine), reference)


@pytest.mark.parametrize(
    "case",
    [
        Case(hf.MarianMTModel, hf.MarianConfig, MARIAN),
        Case(hf.PegasusForConditionalGeneration, hf.PegasusConfig, PEGASUS),
        Case(hf.T5ForConditionalGeneration, hf.T5Config, T5),
    ],
    ids=lambda case: case.name,
)
def test_cached_decoding_over_an_encoder(case: Case, tmp_path: Any) -> None:
    """Step by step with our cache against their whole pass."""
    from qkv.common.batch import Tokens
    from qkv.nn.cache import KeyValueCache

    model, ours, _ = there_and_back(case, tmp_path)
    source, target = sequences(), [[0, *ids] for ids in [sequences()[2][:8]] * 5]
    module: Any = ours.module
    with torch.no_grad():
        memory = module.encode(Tokens.of(source))
        cache = KeyValueCache(len(source), capacity=3)
        steps = [
            module.logits(module.decode(Tokens.of([[t[i]] for t in target]), memory, cache))
            for i in range(len(target[0]))
        ]
        for row, (s, t) in enumerate(zip(source, target, strict=True)):
            reference = model(input_ids=torch.tensor([s]), decoder_input_ids=torch.tensor([t])).logits[0]
            torch.testing.assert_close(torch.stack([step[row] for step in steps]), reference, atol=1e-4, rtol=0)


def test_cached_decoding_of_gpt2(tmp_path: Any) -> None:
    """Ragged prompts first, then one token at a time, against their whole pass."""
    from qkv.common.batch import Tokens
    from qkv.nn.cache import KeyValueCache

    model, ours, _ = there_and_back(Case(hf.GPT2LMHeadModel, hf.GPT2Config, GPT2), tmp_path)
    ids, split = sequences(), [3, 0, 9, 8, 1]
    longest = max(len(s) - k for s, k in zip(ids, split, strict=True))
    ids = [s[:k] + (s[k:] * 20)[:longest] for s, k in zip(ids, split, strict=True)]
    split = [max(k, 1) for k in split]
    module: Any = ours.module
    cache = KeyValueCache(len(ids), capacity=4)
    with torch.no_grad():
        first = module(Tokens.of([s[:k] for s, k in zip(ids, split, strict=True)]), cache)
        rows = [[logits] for logits in first.layout.split(module.logits(first))]
        for i in range(longest - 1):
            step = module.logits(module(Tokens.of([[s[k + i]] for s, k in zip(ids, split, strict=True)]), cache))
            for row, logits in zip(rows, step, strict=True):
                row.append(logits.unsqueeze(0))
        for row, s in zip(rows, ids, strict=True):
            reference = model(input_ids=torch.tensor([s])).logits[0]
            mine = torch.cat(row)
            torch.testing.assert_close(mine, reference[: len(mine)], atol=1e-4, rtol=0)


def test_old_names_extra_heads_and_prefixes_are_read(tmp_path: Any) -> None:
    """BERT's own release calls norms gamma and beta, and its MaskedLM file holds a pooler and the pair head too."""
    import json

    from safetensors.torch import load_file, save_file

    model = theirs(Case(hf.BertForPreTraining, hf.BertConfig, BERT))
    model.save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    tensors = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in load_file(file).items()
    }
    save_file(tensors, file)
    raw = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(raw | {"architectures": ["BertForMaskedLM"]}))
    ours = qkv.load(tmp_path)
    assert ours.config.heads == ("pool", "mlm", "nsp")
    ids = sequences()
    agree(ours.logits(ids, head="mlm"), their_encoder(model, ids, "prediction_logits", None))

    base = theirs(Case(hf.BertModel, hf.BertConfig, BERT))
    base.save_pretrained(tmp_path / "base")
    file = tmp_path / "base" / "model.safetensors"
    save_file({f"bert.{name}": tensor for name, tensor in load_file(file).items()}, file)
    agree(qkv.load(tmp_path / "base").hidden(ids), their_encoder(base, ids, "last_hidden_state", None))


def test_shards_and_labels_are_read(tmp_path: Any) -> None:
    case = Case(hf.BertForSequenceClassification, hf.BertConfig, BERT | {"id2label": {0: "no", 1: "maybe", 2: "yes"}})
    model = theirs(case)
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    assert (tmp_path / "model.safetensors.index.json").is_file()
    ours = qkv.load(tmp_path)
    assert ours.labels == ("no", "maybe", "yes")
    ids = sequences()
    agree(ours.logits(ids), their_encoder(model, ids, "logits", None))
    qkv.save(ours, tmp_path / "ours")
    assert hf.AutoConfig.from_pretrained(tmp_path / "ours").id2label == {0: "no", 1: "maybe", 2: "yes"}


def test_t5_with_its_own_output_table(tmp_path: Any) -> None:
    """Released 1.1 files hold an output table that is not the token table; `transformers` must find both."""
    sizes = {
        "dim": 32,
        "num_layers": 2,
        "num_decoder_layers": 2,
        "num_heads": 4,
        "head_dim": 8,
        "ff_dim": 48,
        "vocab_size": V,
    }
    ours = qkv.build("t5-1.1-small", **sizes)
    qkv.save(ours, tmp_path / "ours")
    back = hf.T5ForConditionalGeneration.from_pretrained(tmp_path / "ours").eval()
    source, target = sequences(), [[0, 5, 6]] * 5
    with torch.no_grad():
        reference = [
            back(input_ids=torch.tensor([s]), decoder_input_ids=torch.tensor([[0, 5, 6]])).logits[0] for s in source
        ]
    agree(ours.logits(source, target), reference)
    agree(qkv.load(tmp_path / "ours").logits(source, target), reference)


def rewritten(folder: Any, change: Any) -> None:
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize("same", [True, False], ids=["a copy", "another"])
@pytest.mark.parametrize(
    ("case", "table", "tokens"),
    [
        (Case(hf.GPT2LMHeadModel, hf.GPT2Config, GPT2), "lm_head.weight", "transformer.wte.weight"),
        (
            Case(hf.BertForMaskedLM, hf.BertConfig, BERT, {"mlm": "logits"}),
            "cls.predictions.decoder.weight",
            "bert.embeddings.word_embeddings.weight",
        ),
    ],
    ids=["gpt2", "bert"],
)
def test_a_table_that_the_file_holds_though_it_is_tied(
    case: Case, table: str, tokens: str, same: bool, tmp_path: Any
) -> None:
    """Old files hold the tied table twice; where the two differ, transformers unties them, and so does qkv."""
    theirs(case).save_pretrained(tmp_path)
    rewritten(tmp_path, lambda t: t.update({table: t[tokens].clone() if same else torch.randn_like(t[tokens])}))
    ours, model = qkv.load(tmp_path), case.model.from_pretrained(tmp_path).eval()
    assert ours.config.output == ("tied" if same else "own")
    ids = sequences()
    agree(ours.logits(ids), their_encoder(model, ids, "logits", None))


@pytest.mark.parametrize(
    ("case", "name", "copied"),
    [
        (Case(hf.MarianMTModel, hf.MarianConfig, MARIAN), "model.encoder.embed_tokens.weight", "model.shared.weight"),
        (Case(hf.MarianMTModel, hf.MarianConfig, MARIAN), "lm_head.weight", "model.shared.weight"),
        (Case(hf.PegasusForConditionalGeneration, hf.PegasusConfig, PEGASUS), "lm_head.weight", "model.shared.weight"),
        (Case(hf.T5ForConditionalGeneration, hf.T5Config, T5), "encoder.embed_tokens.weight", "shared.weight"),
        (Case(hf.T5ForConditionalGeneration, hf.T5Config, T5), "lm_head.weight", "shared.weight"),
        (Case(hf.GPT2ForSequenceClassification, hf.GPT2Config, GPT2), "lm_head.weight", "transformer.wte.weight"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.model.__name__,
)
def test_a_tensor_that_should_repeat_another_and_does_not_is_an_error(
    case: Case, name: str, copied: str, tmp_path: Any
) -> None:
    theirs(case).save_pretrained(tmp_path)
    rewritten(tmp_path, lambda t: t.update({name: t[copied].clone()}))
    qkv.load(tmp_path)
    rewritten(tmp_path, lambda t: t[name].add_(1))
    with pytest.raises(QkvError, match=name):
        qkv.load(tmp_path)


@pytest.mark.parametrize("case", [*ENCODERS[::4], *BASES, *ENCODER_DECODERS[::3], *IMAGES], ids=lambda case: case.name)
def test_an_extra_tensor_is_an_error_in_every_family(case: Case, tmp_path: Any) -> None:
    theirs(case).save_pretrained(tmp_path)
    for name in ("head.extra.weight", "decoder.weight", "extra.decoder.bias"):
        rewritten(tmp_path, lambda t, name=name: t.update({name: torch.randn(3)}))
        with pytest.raises(QkvError, match=name):
            qkv.load(tmp_path)
        rewritten(tmp_path, lambda t, name=name: t.pop(name))
    qkv.load(tmp_path)


def test_albert_s_inner_groups_are_refused_in_words(tmp_path: Any) -> None:
    theirs(Case(hf.AlbertModel, hf.AlbertConfig, BERT | {"embedding_size": 16, "inner_group_num": 2})).save_pretrained(
        tmp_path
    )
    with pytest.raises(QkvError, match=r"inner_group_num 2 .*allowed: 1"):
        qkv.load(tmp_path)
