"""`qkv.latency` on tiny models of each kind."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import qkv
from qkv.checkpoints.folder import Folder
from qkv.common.errors import QkvError, UsageError
from qkv.compression.engine import engine_of
from qkv.native import library
from qkv.predict.latency.engines import ENGINES, made
from qkv.predict.latency.work import Inputs, Work, longest, work_for
from qkv.predict.quantize import quantize
from tests.contracts.entries import MODELS, make
from tests.predict.latency.conftest import KINDS

QUICK = {"rounds": 1, "seconds": 0.001}
NATIVE = library.variant() is not None
needs_native = pytest.mark.skipif(not NATIVE, reason="the CPU engine is not compiled")


def measured(model, **options):
    """Measure without exporting, which takes seconds."""
    given = {"engines": ["torch", "native", "native-int8"], "batches": [1, 3], "lengths": [5, 12]} | QUICK
    return qkv.latency(model, **given | options)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "images"])
def test_texts_of_every_kind(folders, kind) -> None:
    found = measured(str(folders / kind), device="cpu")
    verb = {"t5": "generate", "rnn": "translate"}.get(kind, kind)
    assert found.verb == verb
    names = [side.name for side in found.engines]
    assert names[0] == "torch"
    assert set(names) | set(found.missing) == {"torch", "native", "native-int8"}
    assert [(one.batch, one.length, one.engine) for one in found.timings] == [
        (batch, length, name) for batch in (1, 3) for length in (5, 12) for name in names
    ]
    generates = verb in ("generate", "translate")
    assert (found.new_tokens is not None) == (found.beam is not None) == generates
    for one in found.timings:
        assert 0 < one.p50_ms <= one.p99_ms
        assert one.calls >= 1
        assert one.tokens_per_second == pytest.approx(one.per_second * (found.new_tokens or one.length))
    agreement = {side.name: side.agreement for side in found.engines}
    assert agreement["torch"] == pytest.approx(1)
    assert agreement.get("native", 1) == pytest.approx(1, abs=1e-4)
    assert found.recommendation.text.count("Use ") == 1 or "is the fastest" in found.recommendation.text


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_every_entry_of_the_catalogue_can_be_measured(name) -> None:
    model = qkv.predict.Model(Folder(MODELS[name], make(MODELS[name])), device="cpu")
    lengths = None if model.reads_images else [5]
    found = measured(model, lengths=lengths)
    assert found.engines[0].agreement == pytest.approx(1)
    assert all(side.agreement == pytest.approx(1, abs=1e-3) for side in found.engines if side.exact)


def test_images_have_batches_only(folders) -> None:
    found = measured(str(folders / "images"), device="cpu", lengths=None)
    assert found.verb == "classify"
    assert {(one.batch, one.length, one.tokens_per_second) for one in found.timings} == {
        (1, None, None),
        (3, None, None),
    }
    with pytest.raises(UsageError, match="a model of images has no lengths to choose"):
        measured(str(folders / "images"), device="cpu")


def test_numbers_add_up(folders, tick) -> None:
    found = measured(str(folders / "translate"), device="cpu", new_tokens=7, rounds=3, seconds=0.0119, beam=2)
    for one in found.timings:
        assert (one.calls, one.p50_ms, one.p99_ms) == (3, pytest.approx(4), pytest.approx(4))
        assert one.per_second == pytest.approx(one.batch / 0.004)
        assert one.tokens_per_second == pytest.approx(one.batch * 7 / 0.004)
    assert (found.new_tokens, found.beam) == (7, 2)
    assert found.recommendation.alone == found.default  # nothing is faster


def test_everything_is_json_with_these_keys(folders, tick) -> None:
    told = json.loads(json.dumps(measured(str(folders / "classify"), device="cpu").to_dict()))
    assert set(told) == {
        *("model", "verb", "device", "threads", "new_tokens", "beam", "agreement_of", "default", "engines"),
        *("missing", "timings", "recommendation"),
    }
    assert set(told["engines"][0]) == {"name", "runs_on", "how", "exact", "agreement"}
    keys = {"engine", "batch", "length", "calls", "p50_ms", "p99_ms", "per_second", "tokens_per_second"}
    assert all(set(one) == keys for one in told["timings"])
    assert set(told["recommendation"]) == {"alone", "batched", "faster", "text"}


def test_a_loaded_model_stays_as_it_is(folders) -> None:
    model = qkv.load(folders / "classify", device="cpu")
    texts = ["the big dog sleeps", "a cat"]
    before, engine = model.classify(texts, every=True), model.module.stack.engine
    weights = {name: (tensor, tensor.clone()) for name, tensor in model.module.state_dict().items()}
    found = measured(model, threads=1)
    assert found.model == str(folders / "classify")
    assert model.module.stack.engine is engine
    for name, tensor in model.module.state_dict().items():
        assert tensor.data_ptr() == weights[name][0].data_ptr()
        assert torch.equal(tensor, weights[name][1])
    assert model.classify(texts, every=True) == before
    assert not model.module.training


def test_nothing_is_left_on_the_disk(folders, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    measured(str(folders / "classify"), device="cpu")
    assert list(tmp_path.iterdir()) == []


@needs_native
@pytest.mark.parametrize("kind", ["classify", "generate", "translate", "images"])
def test_each_engine_runs_as_itself_and_shares_the_weights(folders, tmp_path, kind) -> None:
    model = qkv.load(folders / kind, device="cpu")
    models, missing = made(model, ["torch", "native", "native-int8"], tmp_path)
    assert missing == {}
    variant = library.variant()
    runs_on = {name: engine_of(one.module) for name, one in models.items()}
    assert runs_on == {"torch": "torch", "native": f"{variant} float32", "native-int8": f"{variant} int8"}
    ours = {tensor.data_ptr() for tensor in model.module.state_dict().values()}
    for name in ("torch", "native"):
        assert {tensor.data_ptr() for tensor in models[name].module.state_dict().values()} == ours
        assert models[name].module is not model.module


@needs_native
def test_int8_is_what_quantize_writes(folders, tmp_path) -> None:
    model = qkv.load(folders / "embed", device="cpu")
    quantize(folders / "embed", tmp_path / "small")
    models, _ = made(model, ["native-int8"], tmp_path)
    theirs = qkv.load(tmp_path / "small", device="cpu")
    texts = ["the big dog sleeps", "a cat"]
    assert (models["native-int8"].embed(texts) == theirs.embed(texts)).all()


@needs_native
def test_a_folder_in_int8_keeps_its_engine(folders, tmp_path) -> None:
    quantize(folders / "classify", tmp_path / "small")
    found = qkv.latency(tmp_path / "small", device="cpu", batches=[1], lengths=[4], **QUICK)
    assert found.default == "native-int8"
    assert [side.name for side in found.engines] == ["torch", "native", "native-int8"]
    assert "the weights are in int8, which exports do not have" in found.missing["onnxruntime"]
    assert found.engines[2].how == "which qkv.load chooses"


def test_ctranslate2_gives_the_same_answers(folders) -> None:
    pytest.importorskip("ctranslate2")
    pytest.importorskip("transformers")
    found = qkv.latency(folders / "generate", device="cpu", engines=["ctranslate2"], batches=[2], lengths=[4], **QUICK)
    assert [(side.name, side.agreement) for side in found.engines] == [("ctranslate2", pytest.approx(1))]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classify", "generate", "translate", "images"])
def test_onnx_gives_the_same_answers(folders, tmp_path, kind) -> None:
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    lengths = None if kind == "images" else [4]
    found = qkv.latency(folders / kind, device="cpu", engines=["onnxruntime"], batches=[2], lengths=lengths, **QUICK)
    assert [(side.name, side.agreement) for side in found.engines] == [("onnxruntime", pytest.approx(1))]
    assert found.recommendation.alone == "onnxruntime"


@pytest.mark.slow
def test_an_export_is_measured_as_it_is(folders, tmp_path) -> None:
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    from qkv.predict.export import export

    export(folders / "classify", tmp_path / "onnx")
    found = qkv.latency(tmp_path / "onnx", batches=[1], lengths=[4], **QUICK)
    assert [(side.name, side.agreement) for side in found.engines] == [("onnxruntime", None)]
    assert found.default == "onnxruntime"
    assert set(found.missing) == set(ENGINES) - {"onnxruntime"}
    assert "measure the folder it was made from" in found.missing["torch"]


def test_engines_that_are_not_there_say_why(folders, monkeypatch, tmp_path) -> None:
    model = qkv.load(folders / "classify", device="cpu")
    monkeypatch.setenv("QKV_NATIVE", "0")
    for name in ("onnx", "ctranslate2.converters"):
        monkeypatch.setitem(__import__("sys").modules, name, None)
    models, missing = made(model, [], tmp_path)
    assert list(models) == ["torch"]
    assert missing["native"] == missing["native-int8"] == "QKV_NATIVE=0 switches it off"
    assert missing["onnxruntime"] == "exporting to ONNX needs the package onnx: pip install 'qkv[export]'"
    assert "only if you ask for it" in missing["torch-bf16"]
    monkeypatch.delenv("QKV_NATIVE")
    monkeypatch.setattr(library, "file_of", lambda name: Path("/nowhere"))
    assert made(model, ["native"], tmp_path)[1] == {"native": "it is not compiled for this processor"}


def test_a_kernel_of_choice_has_no_other_engine(folders, tmp_path) -> None:
    model = qkv.load(folders / "classify", device="cpu", kernel="eager")
    models, missing = made(model, ["torch", "native"], tmp_path)
    assert list(models) == ["torch"]
    assert models["torch"].kernel == "eager"
    assert "the kernel eager" in missing["native"]


def test_bfloat16_on_a_cpu_is_asked_for_and_probed(folders, tmp_path, monkeypatch) -> None:
    model = qkv.load(folders / "classify", device="cpu")
    probed = []
    monkeypatch.setattr("qkv.predict.latency.engines.cpu_multiplies", lambda kind: bool(probed.append(kind)))
    assert "torch-bf16" in made(model, [], tmp_path / "a")[1]
    assert probed == []
    assert made(model, ["torch-bf16"], tmp_path)[1] == {"torch-bf16": "bfloat16 products kill the process on this CPU"}
    assert probed == [torch.bfloat16]
    with pytest.raises(UsageError, match=r"no engine can run .*: torch-bf16: bfloat16 products kill"):
        measured(model, engines=["torch-bf16"])
    monkeypatch.setattr("qkv.predict.latency.engines.cpu_multiplies", lambda kind: True)
    models, _ = made(model, ["torch-bf16"], tmp_path)  # not run: on some CPUs that kills the process
    assert {one.dtype for one in models["torch-bf16"].module.parameters()} == {torch.bfloat16}
    assert {one.dtype for one in model.module.parameters()} == {torch.float32}


def test_agreement_is_with_float32_in_pytorch(folders, monkeypatch, tick) -> None:
    """An engine with other weights must not look like the model."""
    other = qkv.load(folders / "embed", device="cpu")
    with torch.no_grad():
        for parameter in other.module.parameters():
            parameter.mul_(torch.randn_like(parameter))
    table = dict(ENGINES)
    table["native"] = replace(ENGINES["native"], make=lambda model, place: other, exact=False)
    monkeypatch.setattr("qkv.predict.latency.engines.ENGINES", table)
    monkeypatch.setattr("qkv.predict.latency.measure.ENGINES", table)
    found = measured(str(folders / "embed"), device="cpu", engines=["native"])
    assert found.engines[0].agreement < 0.9
    assert found.recommendation.alone is None


def test_weights_that_are_damaged_are_an_error(folders) -> None:
    model = qkv.load(folders / "classify", device="cpu")
    with torch.no_grad():
        model.module.stack.blocks[0].attention.part.out.weight.fill_(float("nan"))
    with pytest.raises(QkvError, match="not numbers"):
        measured(model)


@pytest.mark.parametrize("kind", ["generate", "translate", "t5", "rnn"])
def test_every_answer_has_all_its_tokens(folders, kind) -> None:
    model = qkv.load(folders / kind, device="cpu")
    for beam in (1, 3):
        work = work_for(model, 9, beam)
        answers = work(model, Inputs(model)(5, 6))
        assert [len(one) for one in answers] == [9] * 5


@pytest.mark.parametrize(
    ("mine", "other", "share"),
    [
        ([5, 6, 9, 7], [5, 6, 9, 8], 1),
        ([5, 6, 9, 7], [5, 7, 9, 7], 1 / 2),
        ([9, 9, 9, 9], [5, 9, 9, 9], 0),
        ([5, 6, 7, 8], [5, 9, 7, 8], 3 / 4),
    ],
)
def test_answers_are_compared_up_to_their_end(mine, other, share) -> None:
    work = Work("translate", None, 4, 1, end_id=9)
    assert work.same([torch.tensor(mine)], [torch.tensor(other)]) == [pytest.approx(share)]


def test_answers_are_compared_by_what_they_choose() -> None:
    scores, others = torch.tensor([[0.1, 0.9], [0.8, 0.2]]), torch.tensor([[0.6, 0.7], [0.1, 0.2]])
    assert Work("classify", "classify").same(list(scores), list(others)) == [1, 0]
    assert Work("tag", "tag").same([scores], [others]) == [0.5]
    assert Work("answer", "span").same([scores], [scores * torch.tensor([1, -1])]) == [0.5]
    assert Work("embed").same(list(scores), list(2 * scores)) == pytest.approx([1, 1])


@pytest.mark.parametrize("kind", ["classify", "generate", "translate"])
def test_inputs_have_the_length_that_is_asked_for(folders, kind) -> None:
    model = qkv.load(folders / kind, device="cpu")
    inputs, again = Inputs(model), Inputs(model)
    (around,) = model.tokenizer.encode([""]).ids
    for length in (1, 2, 3, 7, 30):
        given = inputs(9, length)
        assert [len(ids) for ids in given] == [length] * 9
        assert all(0 <= i < model.config.vocab_size for ids in given for i in ids)
        assert given == again(9, length)
        if length > len(around):
            assert all(ids[-1] == around[-1] for ids in given if around)
    assert len({tuple(ids) for ids in inputs(9, 30)}) == 9


def test_words_that_the_tokenizer_does_not_know_are_drawn(bert_folder) -> None:
    model = qkv.load(bert_folder, device="cpu")
    given = Inputs(model)(4, 12)
    assert len({i for ids in given for i in ids[1:-1]}) > 8


def test_usual_lengths_end_where_the_model_does(folders, tick) -> None:
    found = qkv.latency(folders / "classify", device="cpu", engines=["torch"], quick=True)
    assert {one.length for one in found.timings} == {16, 40}
    assert {one.batch for one in found.timings} == {1, 8}
    model = qkv.load(folders / "generate", device="cpu")  # 48 tokens with the answer
    assert longest(model, work_for(model, 20, None)) == 28
    assert work_for(model, None, None).new_tokens == 23


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("classify", {"batches": [0]}, "a batch size must be from 1 to 4,096, got 0"),
        ("classify", {"batches": []}, "give at least one batch size"),
        ("classify", {"batches": [1.5]}, "a batch size must be from 1 to 4,096, got 1.5"),
        ("classify", {"lengths": [41]}, "a length must be from 1 to 40, got 41"),
        ("classify", {"rounds": 0}, "rounds must be at least 1"),
        ("classify", {"seconds": float("nan")}, "seconds must be at least 0"),
        ("classify", {"seconds": -1}, "seconds must be at least 0"),
        ("classify", {"threads": 0}, "threads must be at least 1"),
        ("classify", {"threads": 10**6}, "threads must be at least 1 and below"),
        ("classify", {"engines": ["natve"]}, "unknown engine 'natve'; did you mean 'native'"),
        ("classify", {"new_tokens": 5}, "this model generates no text"),
        ("classify", {"beam": 2}, "this model generates no text"),
        ("classify", {"device": "cuda:99"}, "device 'cuda:99' is not available"),
        ("generate", {"new_tokens": 48}, "the number of new tokens must be from 1 to 47, got 48"),
        ("generate", {"new_tokens": 0}, "the number of new tokens must be from 1 to 47, got 0"),
        ("generate", {"new_tokens": 20, "lengths": [29]}, "a length must be from 1 to 28 with 20 new tokens, got 29"),
        ("translate", {"new_tokens": 0}, "the number of new tokens must be from 1 to 4,096, got 0"),
        ("translate", {"beam": 0}, "the beam must be from 1 to 300, got 0"),
        ("translate", {"beam": 301}, "the beam must be from 1 to 300, got 301"),
    ],
)
def test_what_is_not_allowed(folders, kind, options, message) -> None:
    with pytest.raises(UsageError) as error:
        measured(str(folders / kind), **{"device": "cpu"} | options)
    assert message in str(error.value)


def test_a_loaded_model_has_its_device_and_precision(folders) -> None:
    model = qkv.load(folders / "classify", device="cpu")
    with pytest.raises(UsageError, match="the model is loaded on cpu: leave out device"):
        measured(model, device="cpu")
    model.module.to(torch.bfloat16)  # never run
    with pytest.raises(UsageError, match="engines start from weights in float32"):
        measured(model)


def test_the_picture_has_a_line_for_each_engine(folders, tmp_path, tick) -> None:
    found = measured(str(folders / "classify"), device="cpu", engines=["torch"])
    found.save(tmp_path / "a.svg")
    drawn = (tmp_path / "a.svg").read_text()
    assert drawn == found.svg()
    assert drawn.count("<polyline") == 4  # two batch sizes, two lengths
    assert "time of a call, batch 3" in drawn
    assert "throughput, 12 tokens" in drawn
    pictures = measured(str(folders / "images"), device="cpu", engines=["torch"], lengths=None).svg()
    assert pictures.count("<polyline") == 2
