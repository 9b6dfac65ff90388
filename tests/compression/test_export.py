"""Exported folders run with another engine; PyTorch is the oracle."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import qkv
from qkv.checkpoints.folder import Folder
from qkv.common.batch import Tokens
from qkv.compression.export.folder import write_export
from qkv.predict.export import export
from tests.contracts.entries import MODELS, make, sequences
from tests.predict.conftest import make_translator
from tests.predict.readers import NER, make_reader
from tests.predict.writers import TEXTS, writer

pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

SENTENCES = ["the big dog sleeps", "a cat", "she saw the small house and he read a book", "the dog"]


def exported(model, folder: Path):
    """The same model, in PyTorch and from its export."""
    model.save(folder / "model")
    export(folder / "model", folder / "export")
    return qkv.load(folder / "model", device="cpu"), qkv.load(folder / "export")


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    model = make_reader("mlm", "classify", "tag", "span", labels=NER)
    return exported(model, tmp_path_factory.mktemp("reader"))


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    return exported(make_translator("transformer-tiny"), tmp_path_factory.mktemp("translator"))


@pytest.fixture(scope="module")
def gpt(tmp_path_factory):
    return exported(writer(), tmp_path_factory.mktemp("gpt"))


def test_an_encoder_answers_with_every_head(reader) -> None:
    ours, theirs = reader
    assert theirs.verbs == ours.verbs
    assert np.allclose(ours.embed(SENTENCES), theirs.embed(SENTENCES), atol=1e-4)
    for mine, other in zip(ours.classify(SENTENCES, every=True), theirs.classify(SENTENCES, every=True), strict=True):
        assert [label.label for label in mine] == [label.label for label in other]
        assert np.allclose([label.score for label in mine], [label.score for label in other], atol=1e-4)
    assert [label.label for label in ours.classify(SENTENCES, SENTENCES[::-1])] == [
        label.label for label in theirs.classify(SENTENCES, SENTENCES[::-1])
    ]
    tags = [[(entity.label, entity.start, entity.end) for entity in row] for row in ours.tag(SENTENCES)]
    assert tags == [[(entity.label, entity.start, entity.end) for entity in row] for row in theirs.tag(SENTENCES)]
    context = "the big dog sleeps in the small house and a cat reads a book"
    assert ours.answer(["the dog"], context)[0].text == theirs.answer(["the dog"], context)[0].text
    masked = ["the [MASK] sleeps in the [MASK]", "a [MASK]"]
    words = [[[choice.word for choice in place] for place in text] for text in ours.fill(masked)]
    assert words == [[[choice.word for choice in place] for place in text] for text in theirs.fill(masked)]


@settings(max_examples=25, deadline=None)
@given(lengths=st.lists(st.integers(1, 30), min_size=1, max_size=8), seed=st.integers(0, 99))
def test_any_lengths_and_any_neighbours_give_the_same_numbers(reader, lengths, seed) -> None:
    ours, theirs = reader
    ids = sequences(lengths, seed, vocab=ours.config.vocab_size)
    for head in ("classify", "tag", "mlm"):
        together = theirs.logits(ids, head=head)
        for wanted, found in zip(ours.logits(ids, head=head), together, strict=True):
            assert torch.allclose(wanted, found, atol=2e-3, rtol=1e-4)
        assert torch.allclose(theirs.logits(ids[-1:], head=head)[0], together[-1], atol=2e-3, rtol=1e-4)


@pytest.mark.parametrize(
    "options",
    [
        {"beam": 1},
        {"beam": 4},
        {"beam": 5, "nbest": 3, "length_penalty": 0.4},
        {"beam": 3, "no_repeat_ngram": 2, "min_length": 3},
        {"sample": True, "seed": 3, "top_k": 20, "nbest": 3},
        {"beam": 2, "prefix": "the dog"},
    ],
    ids=str,
)
def test_a_translator_says_the_same_with_every_search(translator, options) -> None:
    from qkv.predict.translate import translate

    _, theirs = translator
    mine, other = (translate(model, [*TEXTS[:9], "cat"], **options) for model in translator)
    assert [one.tokens for one in mine] == [one.tokens for one in other]
    assert [[rest.text for rest in one.others] for one in mine] == [[rest.text for rest in one.others] for one in other]
    assert np.allclose([one.score for one in mine], [one.score for one in other], atol=1e-3)
    if "sample" not in options:  # samples depend on the place of a text among the others
        assert [one.tokens for one in translate(theirs, TEXTS[3:4], **options)] == [mine[3].tokens]


def test_a_translator_embeds_and_scores_targets(translator) -> None:
    ours, theirs = translator
    assert np.allclose(ours.embed(TEXTS[:5]), theirs.embed(TEXTS[:5]), atol=1e-4)
    ids = sequences([4, 1, 7], vocab=ours.config.vocab_size)
    for wanted, found in zip(ours.log_probs(ids, ids[::-1]), theirs.log_probs(ids, ids[::-1]), strict=True):
        assert torch.allclose(wanted, found, atol=1e-3)


@pytest.mark.parametrize(
    "options", [{}, {"beam": 3}, {"samples": 2, "seed": 5, "temperature": 0.8}, {"repetition_penalty": 1.3}], ids=str
)
def test_a_language_model_writes_the_same(gpt, options) -> None:
    prompts = ["the", *(text[:30] for text in TEXTS[:4]), "she saw the big dog and"]
    mine, other = (model.generate(prompts, max_length=12, **options) for model in gpt)
    assert [one.text for one in mine] == [one.text for one in other]
    assert [[rest.text for rest in one.others] for one in mine] == [[rest.text for rest in one.others] for one in other]


def test_a_language_model_scores_and_embeds_the_same(gpt) -> None:
    ours, theirs = gpt
    pairs = (TEXTS[:5], [" and the dog", " a", " saw it", " or", " the end of the story"])
    for mine, other in zip(ours.score(*pairs), theirs.score(*pairs), strict=True):
        assert np.allclose(mine.token_scores, other.token_scores, atol=1e-3)
    assert np.allclose(ours.embed(TEXTS[:5]), theirs.embed(TEXTS[:5]), atol=1e-3)


def test_the_graphs_name_their_inputs_and_outputs(reader, gpt) -> None:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(Path(reader[1].place) / "model.onnx"))
    assert [one.name for one in session.get_inputs()] == ["input_ids", "attention_mask", "token_type_ids"]
    assert [one.shape for one in session.get_inputs()] == [["batch", "sequence"]] * 3
    names = ["last_hidden_state", "logits", "logits_classify", "logits_tag", "start_logits", "end_logits"]
    assert [one.name for one in session.get_outputs()] == names
    session = onnxruntime.InferenceSession(str(Path(gpt[1].place) / "model.onnx"))
    assert "past_key_values.1.value" in [one.name for one in session.get_inputs()]
    assert "present.1.value" in [one.name for one in session.get_outputs()]


def test_images(tmp_path) -> None:
    for name in ("vit-mini", "deit-ti16", "convnet-mini"):
        config = MODELS[name]
        module = make(config)
        write_export(Folder(config, module), tmp_path / name, "onnx")
        theirs = qkv.load(tmp_path / name)
        pixels = torch.randn(3, config.channels, config.image_size, config.image_size)
        wanted = qkv.predict.Model(Folder(config, make(config)), device="cpu").logits(pixels)
        for one, other in zip(wanted, theirs.logits(pixels), strict=True):
            assert torch.allclose(one, other, atol=1e-4)


def test_prompts_can_join_those_that_are_being_continued(gpt) -> None:
    for model in gpt:
        start, step = model.module.start, torch.tensor([3, 4])
        for first, later in (([[5, 6, 7], [8]], [[9, 10, 11, 12, 6]]), ([[5, 6, 7, 9, 10, 11]], [[8], [4, 5]])):
            stepper = start(Tokens.of(first))
            begun = stepper.step(stepper.first)
            stepper.join(Tokens.of(later))
            ids = torch.cat([step[: len(first)], stepper.first])
            alone = start(Tokens.of([[*ids_of, token] for ids_of, token in zip(first, step.tolist(), strict=False)]))
            fresh = start(Tokens.of(later))
            expected = torch.cat([alone.step(alone.first), fresh.step(fresh.first)])
            assert begun.shape[0] == len(first)
            torch.testing.assert_close(stepper.step(ids), expected, atol=1e-4, rtol=1e-4)
