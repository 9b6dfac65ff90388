"""What people type in Python: load, build, save, info, and the verbs."""

import json
import os
import shutil

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import qkv
from qkv import predict
from qkv.common import disk
from qkv.common.errors import QkvError, UsageError

TEXTS = ["the cat sat on a mat", "dogs", "a dog, a cat!", "the", "run dogs run."]
TINY = {"vocab_size": 30, "dim": 16, "num_layers": 1, "num_heads": 2, "ff_dim": 32}


@pytest.fixture(scope="module")
def bert(bert_folder):
    return qkv.load(bert_folder, device="cpu")


@pytest.fixture(scope="module")
def gpt():
    torch.manual_seed(2)
    return qkv.build("gpt2", device="cpu", max_length=12, **TINY)


@pytest.fixture(scope="module", params=["transformer-tiny", "t5-small", "rnn-small"])
def translator(request):
    torch.manual_seed(3)
    rnn = request.param.startswith("rnn")
    changes = {"vocab_size": 30, "dim": 16} if rnn else {**TINY, "num_decoder_layers": 1}
    return qkv.build(request.param, device="cpu", **changes)


@pytest.fixture(scope="module")
def vit():
    sizes = {"dim": 16, "num_layers": 1, "num_heads": 2, "ff_dim": 32, "num_labels": 5}
    return qkv.build("vit-ti16", device="cpu", image_size=8, patch_size=4, **sizes)


def test_embed_keeps_the_order_of_the_texts(bert):
    vectors = bert.embed(TEXTS)
    assert vectors.shape == (5, 16)
    assert vectors.dtype == np.float32
    for text, vector in zip(TEXTS, vectors, strict=True):
        np.testing.assert_allclose(bert.embed([text])[0], vector, atol=1e-5)
    assert np.abs(vectors[0] - vectors[1]).max() > 1e-3


def test_embed_is_the_mean_or_the_first_of_the_states(bert):
    encoded = bert.encode(TEXTS)
    states = bert.hidden(encoded.ids, segments=encoded.segments)
    mean, first = bert.embed(TEXTS, pooling="mean"), bert.embed(TEXTS, pooling="first")
    for row, state in enumerate(states):
        np.testing.assert_allclose(mean[row], state.mean(0).numpy(), atol=1e-5)
        np.testing.assert_allclose(first[row], state[0].numpy(), atol=1e-5)


def test_embed_options(bert):
    vectors = bert.embed(TEXTS, normalize=True, output="torch")
    torch.testing.assert_close(vectors.norm(dim=-1), torch.ones(5))
    assert bert.embed([]).shape == (0, 16)
    done = []
    bert.embed(TEXTS, progress=done.append)
    assert sum(done) == len(TEXTS)


def test_similar_is_the_cosine(bert):
    a, b = bert.embed(["the cat", "dogs run"])
    cosine = float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
    assert bert.similar("the cat", "dogs run") == pytest.approx(cosine, abs=1e-5)
    assert bert.similar("the cat", "the cat") == pytest.approx(1.0, abs=1e-5)


def test_embed_refuses_one_bare_text(bert):
    with pytest.raises(UsageError, match="list"):
        bert.embed("the cat")


@pytest.mark.parametrize(("option", "value"), [("pooling", "median"), ("output", "list")])
def test_embed_names_options_it_does_not_know(bert, option, value):
    with pytest.raises(UsageError, match=value):
        bert.embed(TEXTS, **{option: value})


SEQUENCES = st.lists(st.lists(st.integers(0, 17), min_size=1, max_size=12), min_size=1, max_size=8)


@given(sequences=SEQUENCES)
def test_any_company_gives_the_same_vectors_in_the_order_asked(bert, sequences):
    for ask in (bert.hidden, bert.logits):
        found = ask(sequences)
        assert [len(x) for x in found] == [len(ids) for ids in sequences]
        for ids, together in zip(sequences, found, strict=True):
            torch.testing.assert_close(ask([ids])[0], together, rtol=1e-5, atol=1e-5)


def test_many_batches_give_what_one_gives(bert, monkeypatch):
    sequences = [[(3 * i + j) % 18 for j in range(1 + i % 7)] for i in range(20)]
    whole = bert.hidden(sequences)
    monkeypatch.setitem(predict.TOKENS_PER_BATCH, "cpu", 8)
    for a, b in zip(whole, bert.hidden(sequences), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def test_logits_of_an_encoder_decoder_follow_the_targets(translator):
    sources, targets = [[1, 2, 3], [4], [5, 6, 7, 8, 9]], [[1, 2], [3, 4, 5, 6], [7]]
    found = translator.logits(sources, targets)
    assert [tuple(x.shape) for x in found] == [(2, 30), (4, 30), (1, 30)]
    for source, target, together in zip(sources, targets, found, strict=True):
        torch.testing.assert_close(translator.logits([source], [target])[0], together, rtol=1e-5, atol=1e-5)


@given(pairs=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=5))
def test_any_company_of_pairs_gives_the_same_logits(translator, pairs):
    sources = [[(b + i) % 30 for i in range(n)] for b, (n, _) in enumerate(pairs)]
    targets = [[(7 * b + i) % 30 for i in range(n)] for b, (_, n) in enumerate(pairs)]
    for b, together in enumerate(translator.logits(sources, targets)):
        alone = translator.logits([sources[b]], [targets[b]])[0]
        torch.testing.assert_close(alone, together, rtol=1e-5, atol=1e-5)


def test_a_target_changes_only_what_follows(translator):
    a, b = translator.logits([[1, 2]] * 2, [[3, 4, 5], [3, 4, 6]])
    torch.testing.assert_close(a[:2], b[:2])
    assert not torch.allclose(a[2], b[2])


def test_as_many_targets_as_sources(translator):
    with pytest.raises(UsageError, match=r"2 sources and 1 target"):
        translator.logits([[1], [2]], [[3]])


def test_images_have_one_row_of_scores_each(vit):
    pixels = torch.randn(3, 3, 8, 8)
    found = vit.logits(pixels)
    assert [tuple(x.shape) for x in found] == [(5,)] * 3
    torch.testing.assert_close(vit.logits(pixels[1:2])[0], found[1], rtol=1e-5, atol=1e-5)
    assert [tuple(x.shape) for x in vit.hidden(pixels)] == [(5, 16)] * 3


def test_images_of_another_size_are_an_error(vit):
    with pytest.raises(UsageError, match=r"\[2, 3, 9, 8\]"):
        vit.logits(torch.zeros(2, 3, 9, 8))


def test_a_model_of_images_refuses_ids(vit):
    with pytest.raises(UsageError, match=r"images|pixels"):
        vit.logits([[1, 2]])


def test_models_of_text_refuse_images(bert, translator):
    for model in (bert, translator):
        with pytest.raises(UsageError, match="token ids"):
            model.hidden(torch.zeros(1, 3, 8, 8))


def test_an_id_outside_the_vocabulary_is_named_with_its_own_sequence(bert):
    with pytest.raises(UsageError) as caught:
        bert.hidden([[1], [2, 3], [4, 99, 5, 6]])
    assert "sequence 2 holds id 99" in str(caught.value)
    assert "0 to 17" in str(caught.value)


def test_an_empty_sequence_is_named_by_its_own_number(bert):
    with pytest.raises(UsageError, match="sequence 0 is empty"):
        bert.hidden([[], [1, 2]])


def test_a_bad_target_id_is_an_error(translator):
    with pytest.raises(UsageError, match="30"):
        translator.logits([[1]], [[30]])


def test_a_sequence_that_is_too_long_is_named_with_both_numbers(bert, gpt):
    for model in (bert, gpt):
        with pytest.raises(UsageError, match=r"sequence 1 has 13 tokens.*12"):
            model.hidden([[1], [1] * 13, [2]])


def test_a_text_that_is_too_long_is_cut_and_said_aloud(bert):
    with pytest.warns(UserWarning, match="1 of 2 texts were cut to 12 tokens"):
        vectors = bert.embed(["the cat " * 20, "dogs"])
    assert vectors.shape == (2, 16)
    np.testing.assert_allclose(vectors[1], bert.embed(["dogs"])[0], atol=1e-5)


def test_segments_change_the_answer_and_must_fit(bert):
    plain, other = bert.hidden([[5, 6]])[0], bert.hidden([[5, 6]], segments=[[0, 1]])[0]
    assert not torch.allclose(plain, other)
    with pytest.raises(UsageError, match="segments"):
        bert.hidden([[5, 6]], segments=[[0]])


@pytest.mark.parametrize("segments", [[[0, 2]], [[0, -1]], []])
def test_segments_the_model_does_not_have_are_an_error_in_words(bert, segments):
    with pytest.raises(UsageError, match="segment"):
        bert.hidden([[5, 6]], segments=segments)


def test_text_without_a_tokenizer_is_an_error(gpt):
    with pytest.raises(UsageError, match="no tokenizer"):
        gpt.embed(["text"])


def test_targets_for_a_model_without_a_decoder_are_an_error(bert, gpt):
    for model in (bert, gpt):
        with pytest.raises(UsageError, match="decoder"):
            model.logits([[1]], [[2]])


def test_targets_for_an_encoder_of_t5_are_an_error():
    model = qkv.build("t5-small", device="cpu", **TINY, num_decoder_layers=0, heads=["tag"])
    assert model.logits([[1, 2]])[0].shape == (2, 2)
    with pytest.raises(UsageError, match="decoder"):
        model.logits([[1]], [[2]])


def test_an_unknown_head_is_an_error_with_those_there_are(bert):
    with pytest.raises(UsageError, match=r"'mln'; did you mean 'mlm'"):
        bert.logits([[1]], head="mln")


def test_a_model_without_a_head_says_so():
    with pytest.raises(UsageError, match="no head"):
        qkv.build("bert-tiny", device="cpu", **TINY).logits([[1]])


def test_each_head_of_several_is_reached_by_name():
    model = qkv.build("bert-tiny", device="cpu", **TINY, heads=["pool", "classify", "tag", "span"], num_labels=3)
    ids = [[1, 2, 3], [4]]
    assert [tuple(x.shape) for x in model.logits(ids)] == [(3,)] * 2
    assert [tuple(x.shape) for x in model.logits(ids, head="tag")] == [(3, 3), (1, 3)]
    assert [tuple(x.shape) for x in model.logits(ids, head="span")] == [(3, 2), (1, 2)]


def test_an_unknown_preset_names_the_nearest():
    with pytest.raises(UsageError, match=r"'bert-tiyn'; did you mean 'bert-tiny'"):
        qkv.build("bert-tiyn")


def test_an_unknown_key_names_the_nearest():
    with pytest.raises(UsageError, match=r"'num_head'; did you mean 'num_heads'"):
        qkv.build("bert-tiny", num_head=2)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"position": "rotaryy"}, "rotary"),
        ({"heads": ["mlmm"]}, "mlm"),
        ({"activation": "gleu"}, "gelu"),
        ({"flavour": "brt"}, "bert"),
        ({"dim": 15}, "15"),
        ({"dim": "wide"}, "whole number"),
        ({"position": "rotary", "num_heads": 8}, "head_dim"),
    ],
    ids=str,
)
def test_a_value_that_cannot_be_is_an_error_in_words(changes, said):
    with pytest.raises(UsageError, match=said):
        qkv.build("bert-tiny", **{**TINY, **changes})


@pytest.mark.parametrize("device", ["gpu", "cuda:x", "", "cpu:-3"])
def test_an_unknown_device_is_an_error(bert_folder, device):
    with pytest.raises(UsageError, match="device"):
        qkv.load(bert_folder, device=device)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA here")
@pytest.mark.parametrize("device", ["cuda", "cuda:1", "mps", "xpu"])
def test_a_device_that_is_not_here_is_an_error(bert_folder, device):
    with pytest.raises(UsageError, match="not available"):
        qkv.load(bert_folder, device=device)


def test_an_unknown_kernel_or_dtype_is_an_error(bert_folder):
    with pytest.raises(UsageError, match=r"'sdap'; did you mean 'sdpa'"):
        qkv.load(bert_folder, kernel="sdap")
    with pytest.raises(UsageError, match="float32"):
        qkv.load(bert_folder, dtype="float8")


@pytest.mark.filterwarnings("ignore:TF32")
def test_kernels_and_dtypes_agree(bert, bert_folder, monkeypatch):
    monkeypatch.setattr("qkv.predict.loading.cpu_multiplies", lambda dtype: True)
    wanted = bert.embed(TEXTS)
    np.testing.assert_allclose(qkv.load(bert_folder, kernel="eager", device="cpu").embed(TEXTS), wanted, atol=1e-5)
    # Some virtual CPUs promise AMX and have none: oneDNN's bf16 products kill the process there, torch's own do not.
    with torch.backends.mkldnn.flags(enabled=False):
        half = qkv.load(bert_folder, dtype="bfloat16", device="cpu").embed(TEXTS)
    assert half.dtype == np.float32
    np.testing.assert_allclose(half, wanted, atol=0.05)


def test_a_precision_that_would_kill_the_process_is_refused(bert_folder, monkeypatch):
    monkeypatch.setattr("qkv.predict.loading.cpu_multiplies", lambda dtype: dtype == torch.float32)
    with pytest.raises(UsageError, match="bfloat16 products kill the process on this CPU: use float32"):
        qkv.load(bert_folder, dtype="bfloat16", device="cpu")


def test_info_of_a_preset_counts_without_building():
    found = qkv.info("bert-base")
    assert found["family"] == found["stored_as"] == "bert"
    assert found["parameters"] == 109_482_240  # the number Hugging Face gives for bert-base-uncased
    assert found["memory_bytes"] == {"float32": 4 * 109_482_240, "bfloat16": 2 * 109_482_240}
    assert found["sizes"]["num_layers"] == 12
    json.dumps(found)


def test_info_of_every_preset_can_be_printed():
    from qkv.models.catalogue import PRESETS

    for name in PRESETS:
        assert json.loads(json.dumps(qkv.info(name)))["parameters"] > 0


def test_info_of_a_folder_knows_its_tokenizer(bert, bert_folder, words):
    found = qkv.info(str(bert_folder))
    assert found == bert.describe()
    assert found["tokenizer"]["kind"] == "WordPiece"
    assert found["tokenizer"]["vocab_size"] == len(words)
    assert found["parameters"] == sum(p.numel() for p in bert.module.parameters())


def test_info_of_nothing_names_the_nearest_preset():
    with pytest.raises(UsageError, match=r"'gpt-2'; did you mean 'gpt2'"):
        qkv.info("gpt-2")


@pytest.mark.parametrize("position", ["sinusoidal", "relative", "bucketed", "alibi", "rotary", "rotary-ntk", "none"])
def test_build_with_another_position(position):
    model = qkv.build("bert-tiny", device="cpu", **TINY, position=position)
    assert model.describe()["position"] == position
    for parameter in model.module.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    one, other = (model.hidden([ids])[0] for ids in ([1, 2, 3, 4], [2, 1, 3, 4]))
    # Only a model without positions cannot tell the order.
    assert torch.allclose(one[[1, 0, 2, 3]], other, atol=1e-4) == (position == "none")


def test_build_with_a_nested_number():
    model = qkv.build("gpt2", device="cpu", **TINY, position={"name": "rotary", "base": 500.0})
    assert model.module.stack.position.base == 500.0


def test_build_with_a_position_and_a_number_of_it():
    model = qkv.build("gpt2", device="cpu", **TINY, position="rotary", **{"position.base": 500.0})
    assert model.module.stack.position.base == 500.0


FAMILIES = {
    "gpt2": {**TINY, "num_kv_heads": 1, "position": "rotary", "norm": "rms"},
    "bert-tiny": {**TINY, "heads": ["pool", "classify"], "num_labels": 3},
    "electra-small": {**TINY, "embedding_dim": 8},
    "albert-base": {**TINY, "embedding_dim": 8},
    "roberta-base": {**TINY, "heads": ["mlm"]},
    "rnn-small": {"vocab_size": 30, "dim": 16},
}


@pytest.mark.parametrize("preset", FAMILIES)
def test_save_and_load_give_the_same_model(tmp_path, preset):
    model = qkv.build(preset, device="cpu", **FAMILIES[preset])
    qkv.save(model, tmp_path / "deep" / "model")
    again = qkv.load(tmp_path / "deep" / "model", device="cpu")
    ids = [[1, 2, 3], [4, 5]]
    for a, b in zip(model.hidden(ids), again.hidden(ids), strict=True):
        assert torch.equal(a, b)
    assert again.config == model.config


def test_a_saved_folder_keeps_tokenizer_and_answers(bert, tmp_path):
    bert.save(tmp_path / "copy")
    again = qkv.load(tmp_path / "copy", device="cpu")
    assert again.tokenizer.fingerprint == bert.tokenizer.fingerprint
    np.testing.assert_array_equal(again.embed(TEXTS), bert.embed(TEXTS))


def test_pooling_is_the_folder_s_own_and_survives_saving(bert_folder, tmp_path):
    folder = shutil.copytree(bert_folder, tmp_path / "first")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    model = qkv.load(folder, device="cpu")
    np.testing.assert_array_equal(model.embed(TEXTS), model.embed(TEXTS, pooling="first"))
    model.save(tmp_path / "again")
    np.testing.assert_array_equal(qkv.load(tmp_path / "again", device="cpu").embed(TEXTS), model.embed(TEXTS))


def files(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("content", ["notes.txt", "model.safetensors"])
def test_a_folder_of_other_things_is_refused_and_nothing_is_left_behind(gpt, tmp_path, content):
    target = tmp_path / "photos"
    target.mkdir()
    (target / content).write_text("mine")
    with pytest.raises(UsageError, match="not a model folder"):
        gpt.save(target)
    assert files(tmp_path) == {f"photos/{content}": b"mine"}
    assert os.listdir(tmp_path) == ["photos"]


def test_a_file_in_the_way_is_refused(gpt, tmp_path):
    (tmp_path / "model").write_text("mine")
    with pytest.raises(UsageError, match="not a model folder"):
        gpt.save(tmp_path / "model")
    assert files(tmp_path) == {"model": b"mine"}


def test_saving_twice_replaces(gpt, bert, tmp_path):
    (tmp_path / "model").mkdir()  # an empty folder is a place too
    bert.save(tmp_path / "model")
    assert (tmp_path / "model" / "tokenizer.json").is_file()
    gpt.save(tmp_path / "model")
    assert qkv.load(tmp_path / "model", device="cpu").family == "gpt"
    assert not (tmp_path / "model" / "tokenizer.json").exists()
    assert os.listdir(tmp_path) == ["model"]


@pytest.mark.parametrize("where", ["write", "sync"])
def test_an_interrupted_save_leaves_the_old_folder_whole(gpt, bert, tmp_path, monkeypatch, where):
    gpt.save(tmp_path / "model")
    before = files(tmp_path)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(disk, where, full)
    with pytest.raises((OSError, QkvError)):
        bert.save(tmp_path / "model")
    assert files(tmp_path) == before
    assert os.listdir(tmp_path) == ["model"]


@pytest.mark.parametrize("failing", [1, 2])
def test_a_rename_that_fails_leaves_the_old_folder_under_its_name(gpt, bert, tmp_path, monkeypatch, failing):
    gpt.save(tmp_path / "model")
    before, rename, calls = files(tmp_path), os.replace, []

    def sometimes(*paths):
        calls.append(paths)
        if len(calls) == failing:
            raise OSError(5, "Input/output error")
        rename(*paths)

    monkeypatch.setattr(os, "replace", sometimes)
    with pytest.raises((OSError, QkvError)):
        bert.save(tmp_path / "model")
    monkeypatch.undo()
    assert files(tmp_path) == before


def test_the_package_offers_what_it_says():
    assert set(qkv.__all__) <= {name for name in qkv.__all__ if getattr(qkv, name) is not None}
    with pytest.raises(AttributeError, match="nonsense"):
        _ = qkv.nonsense
