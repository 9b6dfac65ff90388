"""What readers say against `transformers`: its own folders read here, and folders written here read there."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

import qkv
from qkv.tokenizers.text import TextTokenizer
from tests.tokenizers.conftest import CORPUS, train

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
DISTIL = {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48}
FLAVOURS: dict[str, tuple[str, type, dict[str, Any]]] = {
    "Bert": ("wordpiece", hf.BertConfig, SIZES),
    "DistilBert": ("wordpiece", hf.DistilBertConfig, DISTIL),
    "Electra": ("unigram", hf.ElectraConfig, SIZES | {"embedding_size": 16}),
    "Roberta": ("byte-bpe", hf.RobertaConfig, SIZES | {"type_vocab_size": 1}),
}
TEXTS = [*CORPUS[:4], "the cat", "Two dogs"]
NER = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


def folders(place: Path, flavour: str, task: str, labels: list[str] | None = None, **numbers: Any) -> tuple[Path, Path]:
    """Write a random model of theirs with a tokenizer, and once more as qkv writes it."""
    kind, config, sizes = FLAVOURS[flavour]
    tokenizer = train(kind, specials="bert", min_frequency=1)
    named = (
        {}
        if labels is None
        else {"id2label": dict(enumerate(labels)), "label2id": {n: i for i, n in enumerate(labels)}}
    )
    torch.manual_seed(0)
    sizes = sizes | {"vocab_size": tokenizer.vocab_size, "max_position_embeddings": 90}
    model = getattr(hf, flavour + task)(config(**sizes, **named, **numbers)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(place / "theirs")
    tokenizer.save(place / "theirs")
    qkv.load(place / "theirs", device="cpu").save(place / "ours")
    return place / "theirs", place / "ours"


def pipeline(task: str, folder: Path, **options: Any) -> Any:
    return hf.pipeline(task, model=str(folder), device="cpu", **options)


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_labels(flavour: str, tmp_path: Path) -> None:
    theirs, ours = folders(tmp_path, flavour, "ForSequenceClassification", ["good", "bad", "so so"])
    model = qkv.load(theirs, device="cpu")
    for folder in (theirs, ours):
        ask = pipeline("text-classification", folder)
        for found, wanted in zip(model.classify(TEXTS), ask(TEXTS), strict=True):
            assert (found.label, found.score) == (wanted["label"], pytest.approx(wanted["score"], abs=1e-5))
        for found, wanted in zip(model.classify(TEXTS, every=True), ask(TEXTS, top_k=None), strict=True):
            assert [label.label for label in found] == [label["label"] for label in wanted]
        if flavour == "Roberta":  # of one kind of segment, and the tokenizer of the test has two
            continue
        pairs = TEXTS[::-1]
        asked = [{"text": a, "text_pair": b} for a, b in zip(TEXTS, pairs, strict=True)]
        for found, wanted in zip(model.classify(TEXTS, pairs), ask(asked), strict=True):
            assert (found.label, found.score) == (wanted["label"], pytest.approx(wanted["score"], abs=1e-5))
    assert len({round(label.score, 4) for label in model.classify(TEXTS)}) > 3


def test_any_number_of_labels_and_numbers(tmp_path: Path) -> None:
    theirs, ours = folders(
        tmp_path / "a", "Bert", "ForSequenceClassification", ["x", "y", "z"], problem_type="multi_label_classification"
    )
    model = qkv.load(theirs, device="cpu")
    for folder in (theirs, ours):
        for found, wanted in zip(
            model.classify(TEXTS), pipeline("text-classification", folder)(TEXTS, top_k=None), strict=True
        ):
            likely = {row["label"]: row["score"] for row in wanted if row["score"] > 0.5}
            assert {label.label: label.score for label in found} == pytest.approx(likely, abs=1e-5)
    theirs, ours = folders(tmp_path / "b", "Bert", "ForSequenceClassification", num_labels=1, problem_type="regression")
    model = qkv.load(theirs, device="cpu")
    for folder in (theirs, ours):
        wanted = pipeline("text-classification", folder, function_to_apply="none")(TEXTS)
        assert model.classify(TEXTS) == pytest.approx([row["score"] for row in wanted], abs=1e-5)


def test_two_classes_that_nobody_named(tmp_path: Path) -> None:
    theirs, _ = folders(tmp_path, "Bert", "ForSequenceClassification")
    found = qkv.load(theirs, device="cpu").classify(TEXTS)
    assert [label.label for label in found] == [r["label"] for r in pipeline("text-classification", theirs)(TEXTS)]


def words_only(count: int) -> list[str]:
    """Texts whose words both sides divide alike, with odd white space between them."""
    draw = random.Random(1)
    words = [word for text in CORPUS for word in text.split() if word.isalpha()]
    return [" \n"[i % 2].join(draw.choices(words, k=12)) + "\t" for i in range(count)]


@pytest.mark.parametrize("flavour", ["Bert", "DistilBert"])
def test_entities(flavour: str, tmp_path: Path) -> None:
    theirs, ours = folders(tmp_path, flavour, "ForTokenClassification", NER)
    model = qkv.load(theirs, device="cpu")
    texts = words_only(20)
    for folder in (theirs, ours):
        ask = pipeline("token-classification", folder, aggregation_strategy="first")
        for text, found in zip(texts, model.tag(texts), strict=True):
            wanted = [(e["entity_group"], e["start"], e["end"], pytest.approx(e["score"], abs=1e-5)) for e in ask(text)]
            assert [(e.label, e.start, e.end, e.score) for e in found] == wanted
    assert len({entity.label for found in model.tag(texts) for entity in found}) == 2


@pytest.mark.parametrize("flavour", ["Bert", "Roberta"])
def test_tags_of_words(flavour: str, tmp_path: Path) -> None:
    theirs, ours = folders(tmp_path, flavour, "ForTokenClassification", ["DET", "NOUN", "VERB"])
    words = [text.split() for text in TEXTS]
    found = qkv.load(ours, device="cpu").tag(words)
    network = hf.AutoModelForTokenClassification.from_pretrained(ours).eval()
    tokenizer = hf.AutoTokenizer.from_pretrained(ours, add_prefix_space=flavour == "Roberta")
    for text, said in zip(words, found, strict=True):
        ids = TextTokenizer.find(theirs).encode_words([text]) if flavour == "Roberta" else None  # type: ignore[union-attr]
        if ids is None:
            batch = tokenizer([text], is_split_into_words=True, return_tensors="pt")
            numbers, tokens = batch.word_ids(0), batch["input_ids"]
        else:
            numbers, tokens = ids.words[0], torch.tensor(ids.ids)
        with torch.no_grad():
            chances = network(tokens).logits[0].softmax(-1)
        firsts = [numbers.index(i) for i in range(len(text))]
        assert [word.label for word in said] == [
            network.config.id2label[i] for i in chances[firsts].argmax(-1).tolist()
        ]
        assert [word.score for word in said] == pytest.approx(chances[firsts].max(-1).values.tolist(), abs=1e-5)


@torch.no_grad()
def their_answer(folder: Path, question: str, context: str, limit: int) -> tuple[int, int, float]:
    """The best span of all windows as BERT's authors search for it, over their windows and their network."""
    tokenizer = hf.AutoTokenizer.from_pretrained(folder)
    network = hf.AutoModelForQuestionAnswering.from_pretrained(folder).eval()
    cut = {"truncation": "only_second", "max_length": limit, "stride": limit // 4, "return_overflowing_tokens": True}
    batch = tokenizer(question, context, return_offsets_mapping=True, return_token_type_ids=True, **cut)
    best, total = (0, 0, -math.inf), 0.0
    for number, ids in enumerate(batch["input_ids"]):
        kinds = torch.tensor([batch["token_type_ids"][number]])
        more = {} if "distil" in str(type(network)).lower() else {"token_type_ids": kinds}
        said = network(torch.tensor([ids]), **more)
        start, end = said.start_logits[0].double(), said.end_logits[0].double()
        inside = [i for i, side in enumerate(batch.sequence_ids(number)) if side == 1]
        total += float(start[[0, *inside]].exp().sum() * end[[0, *inside]].exp().sum())
        places = batch["offset_mapping"][number]
        for i in inside:
            for j in range(i, min(i + 30, inside[-1] + 1)):
                if start[i] + end[j] > best[2]:
                    best = places[i][0], places[j][1], float(start[i] + end[j])
    return best[0], best[1], math.exp(best[2]) / total


@pytest.mark.parametrize("flavour", ["Bert", "DistilBert"])
def test_answers(flavour: str, tmp_path: Path) -> None:
    theirs, ours = folders(tmp_path, flavour, "ForQuestionAnswering")
    model = qkv.load(theirs, device="cpu")
    for question, context in (("Where?", CORPUS[0]), ("the dog?", " ".join(CORPUS[:7]))):
        (found,) = model.answer([question], context)
        assert found.text == context[found.start : found.end] != ""
        for folder in (theirs, ours):
            start, end, score = their_answer(folder, question, context, 90)
            assert (found.start, found.end, found.score) == (start, end, pytest.approx(score, rel=1e-3))


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_masks(flavour: str, tmp_path: Path) -> None:
    theirs, ours = folders(tmp_path, flavour, "ForMaskedLM")
    model = qkv.load(theirs, device="cpu")
    for text in ("The [MASK] sat on the mat.", "Two [MASK] play in the [MASK]; the cats"):
        (found,) = model.fill([text], top=3)
        for folder in (theirs, ours):
            wanted = pipeline("fill-mask", folder)(text, top_k=3)
            wanted = wanted if isinstance(wanted[0], list) else [wanted]
            assert len(found) == len(wanted) == text.count("[MASK]")
            for choices, rows in zip(found, wanted, strict=True):
                assert [c.score for c in choices] == pytest.approx([row["score"] for row in rows], abs=1e-5)
                assert [c.word for c in choices] == [
                    row["token_str"].strip() or model.tokenizer.token_of(row["token"]) for row in rows
                ]
