"""Exports to CTranslate2 and to AOTInductor, and what an export of any kind refuses; PyTorch is the oracle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qkv
from qkv.common.batch import Tokens
from qkv.decoding.generate import generate
from qkv.predict.export import export
from qkv.predict.translate import translate
from tests.cli.conftest import shell as shell
from tests.predict.conftest import make_translator
from tests.predict.readers import NER, make_reader
from tests.predict.writers import TEXTS, writer

pytest.importorskip("ctranslate2")
pytest.importorskip("transformers")
SENTENCES = ["the big dog sleeps", "a cat", "she saw the small house and he read a book", "the dog"]


def exported(model: qkv.Model, folder: Path, to: str) -> tuple[qkv.Model, qkv.Model]:
    """The same model, in PyTorch and from its export."""
    model.save(folder / "model")
    export(folder / "model", folder / "export", to=to)
    return qkv.load(folder / "model", device="cpu"), qkv.load(folder / "export")


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> tuple[qkv.Model, qkv.Model]:
    return exported(make_translator("transformer-tiny", pre_norm=True), tmp_path_factory.mktemp("tr"), "ctranslate2")


@pytest.fixture(scope="module")
def gpt(tmp_path_factory: pytest.TempPathFactory) -> tuple[qkv.Model, qkv.Model]:
    return exported(writer(), tmp_path_factory.mktemp("gpt"), "ctranslate2")


@pytest.mark.parametrize("heads", [("mlm", "classify", "tag", "span"), ("classify",), ("pool",)])
def test_an_encoder_of_ctranslate2_has_its_heads(tmp_path: Path, heads: tuple[str, ...]) -> None:
    ours, theirs = exported(make_reader(*heads, labels=NER), tmp_path, "ctranslate2")
    assert theirs.verbs == ours.verbs
    assert np.allclose(ours.embed(SENTENCES), theirs.embed(SENTENCES), atol=1e-4)
    if "classify" in heads:
        one, other = (model.classify(SENTENCES, SENTENCES[::-1], every=True) for model in (ours, theirs))
        assert [[label.label for label in row] for row in one] == [[label.label for label in row] for row in other]
        scores = [[[label.score for label in row] for row in rows] for rows in (one, other)]
        assert np.allclose(*scores, atol=1e-4)
    if "mlm" in heads:
        masked = ["the [MASK] sleeps in the [MASK]", "a [MASK]"]
        one, other = (
            [[[choice.word for choice in place] for place in text] for text in model.fill(masked)]
            for model in (ours, theirs)
        )
        assert one == other


@pytest.mark.parametrize(
    "options",
    [
        {"beam": 1},
        {"beam": 4},
        {"beam": 5, "nbest": 3, "length_penalty": 0.4},
        {"beam": 3, "min_length": 3},
        {"beam": 1, "no_repeat_ngram": 2},
        {"beam": 1, "repetition_penalty": 1.3},
        {"beam": 1, "prefix": "the dog"},
    ],
    ids=str,
)
def test_a_translator_of_ctranslate2_says_the_same(translator: Any, options: dict[str, Any]) -> None:
    mine, other = (translate(model, [*TEXTS[:9], "cat"], **options) for model in translator)
    assert [one.tokens for one in mine] == [one.tokens for one in other]
    assert np.allclose([one.score for one in mine], [one.score for one in other], atol=1e-3)
    for one, two in zip(mine, other, strict=True):
        assert np.allclose(one.token_scores, two.token_scores, atol=1e-2)


@pytest.mark.parametrize(
    "options", [{"sample": False}, {"beam": 3}, {"sample": False, "repetition_penalty": 1.3}], ids=str
)
def test_a_language_model_of_ctranslate2_writes_the_same(gpt: Any, options: dict[str, Any]) -> None:
    prompts = ["the", *(text[:30] for text in TEXTS[:4])]
    mine, other = (model.generate(prompts, max_length=12, **options) for model in gpt)
    assert [one.text for one in mine] == [one.text for one in other]


def test_each_sequence_ends_at_its_own_limit_or_end(gpt: Any) -> None:
    """Also where CTranslate2, which has one limit for a batch, finds the end only beyond that of a sequence."""
    prompts = Tokens.of([[5, 6, 7], [5, 6, 7], [9, 8]])

    def found(model: Any, end_id: int, limits: list[int]) -> list[tuple[list[int], bool]]:
        stepper = model.module.start(prompts)
        several = generate(stepper, stepper.first, end_id=end_id, max_lengths=limits)
        return [(best.ids, best.ended) for best, *_ in several]

    said = found(gpt[0], -1, [12, 12, 12])[0][0]
    later = next(token for token in said[4:] if token not in said[:4])  # an end that comes after three tokens
    for limits in ([3, 12, 12], [12, 3, 1], [4, 5, 12]):
        assert found(gpt[1], later, limits) == found(gpt[0], later, limits)


def test_stop_strings_and_streams_of_ctranslate2(gpt: Any) -> None:
    found = []
    for model in gpt:
        pieces: list[str] = []
        (whole,) = model.generate(["the"], max_length=20, temperature=0, on_text=pieces.append)
        stop = whole.text[4:6]
        (cut,) = model.generate(["the"], max_length=20, temperature=0, stop=[stop])
        assert "".join(pieces) == whole.text
        found.append((whole.text, cut.text))
    assert found[0] == found[1]
    assert len(found[0][1]) < len(found[0][0])


def test_what_ctranslate2_does_otherwise_is_refused(translator: Any, gpt: Any) -> None:
    _, model = translator
    with pytest.raises(qkv.UsageError, match="use a beam of 1"):
        model.translate(["a cat"], beam=2, no_repeat_ngram=2)
    with pytest.raises(qkv.UsageError, match="forbidden"):
        model.translate(["a cat"], forbidden=["cat"])
    with pytest.raises(qkv.UsageError, match="use temperature 0 or a beam"):
        gpt[1].generate(["the"])
    assert model.verbs == ["translate"]
    with pytest.raises(qkv.UsageError, match="gives no hidden states"):
        model.embed(["a cat"])


def test_models_that_ctranslate2_cannot_run_are_named(tmp_path: Path) -> None:
    make_translator("transformer-tiny").save(tmp_path / "post")
    make_translator("rnn-small").save(tmp_path / "rnn")
    qkv.build("electra-small", vocab_size=300, dim=16, num_heads=2, ff_dim=16, num_layers=1).save(tmp_path / "electra")
    for name, told in (("post", "pre_norm"), ("rnn", "Transformers over text"), ("electra", "tokenizer")):
        with pytest.raises(qkv.UsageError, match=told):
            export(tmp_path / name, tmp_path / "out", to="ctranslate2")
    with pytest.raises(qkv.QkvError, match="the kind roformer"):
        export("english", tmp_path / "out", to="ctranslate2")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_aotinductor_gives_the_same_answers(tmp_path: Path) -> None:
    ours, theirs = exported(make_reader("classify", "tag", labels=NER), tmp_path / "reader", "torch")
    assert np.allclose(ours.embed(SENTENCES), theirs.embed(SENTENCES), atol=1e-4)
    one, other = ([label.label for label in model.classify(SENTENCES)] for model in (ours, theirs))
    assert one == other
    both = exported(make_translator("transformer-tiny"), tmp_path / "translator", "torch")
    for options in ({"beam": 1}, {"beam": 3, "nbest": 2}):
        mine, other_ = (translate(model, TEXTS[:9], **options) for model in both)
        assert [found.tokens for found in mine] == [found.tokens for found in other_]


def test_an_export_shows_nothing_of_its_layers(translator: Any) -> None:
    _, model = translator
    for look in (model.look, model.explain):
        with pytest.raises(qkv.UsageError, match="does not show its layers"):
            look("a cat")
    for measure in (model.heads, model.layers):
        with pytest.raises(qkv.UsageError, match="does not show its layers"):
            measure(["a cat"])
    with pytest.raises(qkv.UsageError, match="does not show its layers"):
        model.translate(["a cat"], alignments=True)
    with pytest.raises(qkv.UsageError, match="no weights to write"):
        model.save("anywhere")


def test_the_command(translator: Any, tmp_path: Path, shell: Any) -> None:
    """Right once and wrong in every way; what is refused leaves nothing behind."""
    source, place = str(Path(translator[0].place)), str(tmp_path / "out")
    told = json.loads(shell("export", source, place, "--to", "ctranslate2", "--json").out)
    assert told["engine"] == "ctranslate2 float32"
    assert told["megabytes"] > 0
    again = shell("export", source, place, "--to", "ctranslate2")  # an earlier export may be replaced
    assert "can translate" in again.out
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    other = str(tmp_path / "new")
    for words, said in (
        ((source, other, "--to", "tflite"), "unknown format 'tflite' (allowed: onnx, ctranslate2, torch)"),
        ((source, str(tmp_path / "full")), "exists and is not an export"),
        ((place, other), "is an export already"),
        ((str(tmp_path / "nothing"), other), "is not a folder"),
    ):
        failed = shell("export", *words)
        assert failed.code in (1, 2)
        assert said in failed.err
        assert "Traceback" not in failed.err
    assert not Path(other).exists()
    assert (tmp_path / "full" / "file").read_text() == "mine"


def test_damage_is_found(translator: Any, tmp_path: Path) -> None:
    folder = tmp_path / "export"
    export(Path(translator[0].place), folder, to="ctranslate2")
    file = folder / "ctranslate2" / "model.bin"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))
    with pytest.raises(qkv.QkvError, match=r"model\.bin"):
        qkv.load(folder)
    file.unlink()
    with pytest.raises(qkv.QkvError, match=r"model\.bin"):
        qkv.load(folder, verify=False)


def test_the_server_knows_what_an_export_can_do(translator: Any, gpt: Any) -> None:
    continuous = pytest.importorskip("qkv.serving.continuous")
    from qkv.serving.verbs import verbs_of

    assert verbs_of(translator[1]) == ["translate"]
    assert verbs_of(gpt[1]) == ["generate"]
    assert continuous.can_join(gpt[0], {"sample": False})
    assert not continuous.can_join(gpt[1], {"sample": False})
