"""A pre-norm translator is a Pegasus folder: `transformers` and CTranslate2 translate with it as qkv does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from safetensors.torch import load_file

import qkv
from qkv.checkpoints.folder import OURS, read_folder
from qkv.common.errors import QkvError
from qkv.predict.loading import find
from tests.checkpoints.earlier import in_our_names
from tests.parity.test_hf import MARIAN, PEGASUS, Case, rewritten, sequences, theirs
from tests.parity.test_round_trip import saved

CASE = Case(hf.PegasusForConditionalGeneration, hf.PegasusConfig, PEGASUS)
TINY = {"vocab_size": 40, "dim": 16, "num_layers": 2, "num_decoder_layers": 1, "num_heads": 2, "ff_dim": 24}
TEXTS = [
    "Two dogs play in the snow.", "He is old.", "I don't know what you are talking about, but I like it.",
    "The children were playing in the garden while their parents were cooking dinner.", "a ☃ woman",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A built-in translator, which was stored in our own names, saved again."""
    place = tmp_path_factory.mktemp("pegasus") / "en-de"
    qkv.load("en-de", device="cpu").save(place)
    return place


@pytest.fixture(scope="module")
def ours(folder: Path) -> qkv.Model:
    return qkv.load(folder, device="cpu")


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Any:
    return hf.AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    found, report = hf.AutoModelForSeq2SeqLM.from_pretrained(folder, output_loading_info=True)
    assert not any(report.values())
    return found.eval()


def test_the_same_weights_in_other_names(folder: Path, ours: qkv.Model) -> None:
    old = read_folder(find("en-de"))
    assert (old.stored_as, ours.describe()["stored_as"]) == ("qkv-transformer", "pegasus")
    assert old.config == ours.config
    for name, tensor in old.model.state_dict().items():
        assert torch.equal(tensor, ours.module.state_dict()[name])


@torch.no_grad()
def test_equal_ids_and_logits(ours: qkv.Model, tokenizer: Any, model: Any) -> None:
    encoded = ours.encode(TEXTS).ids
    assert tokenizer(TEXTS)["input_ids"] == encoded
    targets = [[0, *ids[:-1]] for ids in encoded[::-1]]
    for source, target, mine in zip(encoded, targets, ours.logits(encoded, targets), strict=True):
        other = model(input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([target])).logits[0]
        torch.testing.assert_close(mine, other, atol=1e-5, rtol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("beam", [{"num_beams": 1}, {}], ids=["greedy", "by default a beam of 4"])
def test_generate_says_what_translate_says(ours: qkv.Model, tokenizer: Any, model: Any, beam: dict[str, int]) -> None:
    found = model.generate(**tokenizer(TEXTS, padding=True, return_tensors="pt"), **beam)
    wanted = ours.translate(TEXTS, beam=beam.get("num_beams", 4))
    assert tokenizer.batch_decode(found, skip_special_tokens=True) == wanted
    assert len(set(wanted)) == len(TEXTS)


@pytest.mark.parametrize("beam", [1, 4])
def test_ctranslate2_says_what_translate_says(
    folder: Path, ours: qkv.Model, tokenizer: Any, beam: int, tmp_path: Path
) -> None:
    ctranslate2 = pytest.importorskip("ctranslate2", reason="needs CTranslate2: pip install ctranslate2")
    ctranslate2.converters.TransformersConverter(str(folder)).convert(str(tmp_path / "ct2"))
    translator = ctranslate2.Translator(str(tmp_path / "ct2"), compute_type="float32", intra_threads=1)
    rows = [tokenizer.convert_ids_to_tokens(ids) for ids in tokenizer(TEXTS)["input_ids"]]
    found = [result.hypotheses[0] for result in translator.translate_batch(rows, beam_size=beam)]
    assert [tokenizer.decode(tokenizer.convert_tokens_to_ids(tokens)) for tokens in found] == ours.translate(
        TEXTS, beam=beam
    )


@torch.no_grad()
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bits(dtype: str, tmp_path: Path) -> None:
    qkv.build("transformer-tiny", **TINY, pre_norm=True, device="cpu").save(tmp_path, dtype=dtype)
    ours = qkv.load(tmp_path, device="cpu")
    model = hf.AutoModelForSeq2SeqLM.from_pretrained(tmp_path, dtype=torch.float32).eval()
    # Their table of positions is rounded too.
    model.model.encoder.resize_position_embeddings(512)
    model.model.decoder.resize_position_embeddings(512)
    other = model(input_ids=torch.tensor([[5, 6, 1]]), decoder_input_ids=torch.tensor([[0, 7]])).logits[0]
    torch.testing.assert_close(ours.logits([[5, 6, 1]], [[0, 7]])[0], other, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_the_tokenizer_is_ours_and_not_pegasus_own(kind: str, tmp_path: Path) -> None:
    """PegasusTokenizer would normalise anew and add a hundred tokens."""
    ours = saved(tmp_path, "transformer-tiny", kind, "translate", num_decoder_layers=1, pre_norm=True)
    tokenizer = hf.AutoTokenizer.from_pretrained(tmp_path)
    texts = ["A naïve café owner paid 1,234.56 € for (old) tea!", "two  spaces\nand a line", "☃", ""]
    assert tokenizer(texts)["input_ids"] == ours.encode(texts).ids
    assert len(tokenizer) == ours.config.vocab_size


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"position": "rotary"}, "pegasus has no rotary positions"),
        ({"activation": "swiglu"}, "Hugging Face has no activation swiglu"),
    ],
    ids=["rotary", "swiglu"],
)
def test_what_pegasus_cannot_express_keeps_our_names(changes: dict[str, str], reason: str, tmp_path: Path) -> None:
    ours = qkv.build("transformer-tiny", **TINY, pre_norm=True, device="cpu", **changes)
    ours.save(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "qkv-transformer"
    assert not (tmp_path / "generation_config.json").exists()
    found = qkv.info(str(tmp_path))
    assert (found["stored_as"], found["stored_note"]) == ("qkv-transformer", reason)


def test_a_folder_of_an_earlier_version_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = qkv.build("transformer-tiny", **TINY, pre_norm=True, device="cpu")
    with monkeypatch.context() as patch:
        in_our_names(patch)
        ours.save(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["model_type"].startswith(OURS)
    old = qkv.load(tmp_path, device="cpu")
    source, target = sequences()[:2], [[0, 5], [0]]
    source = [[number % 40 for number in ids] for ids in source]
    wanted = ours.logits(source, target)
    assert all(map(torch.equal, old.logits(source, target), wanted))
    assert old.describe()["stored_note"] == "from an earlier version; saved again, it becomes pegasus"
    old.save(tmp_path)
    assert "model.encoder.layer_norm.weight" in load_file(tmp_path / "model.safetensors")
    assert all(map(torch.equal, qkv.load(tmp_path, device="cpu").logits(source, target), wanted))


def test_positions_that_were_learned_are_refused(tmp_path: Path) -> None:
    theirs(CASE).save_pretrained(tmp_path)
    rewritten(tmp_path, lambda tensors: tensors["model.decoder.embed_positions.weight"].add_(0.05))
    with pytest.raises(QkvError, match=r"decoder\.embed_positions\.weight is not the table of sinusoidal positions"):
        qkv.load(tmp_path)


def test_an_output_table_of_its_own_is_refused(tmp_path: Path) -> None:
    theirs(Case(CASE.model, CASE.config, PEGASUS | {"tie_word_embeddings": False})).save_pretrained(tmp_path)
    with pytest.raises(QkvError, match=r"embed_tokens\.weight, which should equal model\.shared\.weight"):
        qkv.load(tmp_path)


@pytest.mark.parametrize(
    ("name", "config"), [("PegasusModel", hf.PegasusConfig), ("MarianForCausalLM", hf.MarianConfig)]
)
def test_other_classes_are_refused_by_name(name: str, config: type, tmp_path: Path) -> None:
    getattr(hf, name)(config(**MARIAN)).save_pretrained(tmp_path)
    with pytest.raises(QkvError, match=f"the architecture {name} is not supported"):
        qkv.load(tmp_path)
