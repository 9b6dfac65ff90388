"""Models on the Hub, against a server that speaks its protocol: what is downloaded, what is kept, what is said."""

from __future__ import annotations

import json
import shutil
import sys
import time
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save, save_file

import qkv
from qkv.checkpoints.hub import download, parse, pinned
from qkv.checkpoints.weights import INDEX, WHOLE
from qkv.common.errors import QkvError, UsageError
from qkv.predict import info
from tests.hub_server import HubServer

NAME = "hf:ann/tiny"
TEXTS = ["the cat sat", "a dog"]
OTHERS = {
    "pytorch_model.bin": b"a pickle",
    "tf_model.h5": b"weights of another library",
    "modeling_tiny.py": b"raise SystemExit('never run')",
    "spiece.model": b"a vocabulary that qkv does not read",
    "README.md": b"# Tiny",
    "onnx/config.json": b"{}",
    "onnx/model.safetensors": b"a second copy",
    "model.fp16.safetensors": b"a third",
    "training_args.bin": b"another pickle",
}


@pytest.fixture
def tiny(hub: HubServer, bert_folder: Path) -> HubServer:
    """A Hub with one model and everything else that people put beside it."""
    hub.add("ann/tiny", bert_folder, **OTHERS)
    return hub


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> Any:
    return lambda: monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait between the attempts of a download."""
    monkeypatch.setattr("huggingface_hub.file_download.time", SimpleNamespace(sleep=lambda _: None, time=time.time))


def vectors(name: str | Path) -> np.ndarray[Any, Any]:
    return np.asarray(qkv.load(name, device="cpu").embed(TEXTS))


def scaled(folder: Path, target: Path) -> Path:
    """Copy a model folder with other weights."""
    shutil.copytree(folder, target)
    tensors = {key: tensor * 1.5 for key, tensor in load_file(folder / WHOLE).items()}
    save_file(tensors, target / WHOLE, metadata={"format": "pt"})
    return target


def test_a_model_is_downloaded_and_nothing_else(tiny: HubServer, bert_folder: Path) -> None:
    assert np.array_equal(vectors(NAME), vectors(bert_folder))
    assert tiny.asked == {"config.json", "tokenizer.json", WHOLE}
    folder = download(NAME)
    assert {file.name for file in folder.iterdir()} == tiny.asked
    assert folder.name == tiny.repos["ann/tiny"].refs["main"]


def test_loading_again_asks_only_whether_the_branch_has_moved(tiny: HubServer) -> None:
    download(NAME)
    before = tiny.requests
    download(NAME)
    assert tiny.requests == before + 1


def test_a_cached_model_needs_no_network(tiny: HubServer, bert_folder: Path, offline: Any) -> None:
    name = pinned(NAME)
    offline()
    before = tiny.requests
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # offline was asked for, so there is nothing to say
        assert np.array_equal(vectors(NAME), vectors(bert_folder))
        assert np.array_equal(vectors(name), vectors(bert_folder))
    assert tiny.requests == before


def test_what_is_not_in_the_cache_cannot_be_loaded_offline(tiny: HubServer, offline: Any) -> None:
    offline()
    with pytest.raises(QkvError) as caught:
        download(NAME)
    assert str(caught.value) == f"{NAME} is not in the cache: unset HF_HUB_OFFLINE once to download it"
    assert tiny.requests == 0


def test_a_revision_is_a_branch_a_tag_or_a_commit(tiny: HubServer, bert_folder: Path, tmp_path: Path) -> None:
    first = tiny.repos["ann/tiny"].refs["main"]
    other = scaled(bert_folder, tmp_path / "other")
    second = tiny.add("ann/tiny", other, "v2", "refs/pr/1")
    assert pinned(NAME) == pinned(f"{NAME}@main") == pinned(f"{NAME}@{first}") == f"{NAME}@{first}"
    assert pinned(f"{NAME}@v2") == pinned(f"{NAME}@refs/pr/1") == f"{NAME}@{second}"
    assert np.array_equal(vectors(f"{NAME}@v2"), vectors(other))
    assert np.array_equal(vectors(f"{NAME}@{first}"), vectors(bert_folder))


def test_a_branch_that_moved_is_downloaded_again_but_not_its_old_commit(
    tiny: HubServer, bert_folder: Path, tmp_path: Path
) -> None:
    old = pinned(NAME)
    other = scaled(bert_folder, tmp_path / "other")
    tiny.add("ann/tiny", other)
    assert np.array_equal(vectors(NAME), vectors(other))
    assert np.array_equal(vectors(old), vectors(bert_folder))


@pytest.mark.usefixtures("hurry")
def test_a_download_that_breaks_off_leaves_no_model(tiny: HubServer, offline: Any) -> None:
    tiny.cut.add(WHOLE)
    with pytest.raises(QkvError, match=r"^http://127.* cannot be reached \(.*\): check your connection to"):
        download(NAME)
    (commit,) = {file.parent for file in Path(hub_cache()).rglob("config.json")}
    assert not (commit / WHOLE).exists()
    with pytest.raises(QkvError, match=r"contains no weights"):
        qkv.load(commit, device="cpu")
    with pytest.raises(QkvError):
        download(NAME)
    tiny.cut.clear()
    assert download(NAME) == commit
    offline()
    qkv.load(NAME, device="cpu")


@pytest.mark.usefixtures("hurry")
def test_the_last_complete_commit_stays_usable_until_the_next_is_complete(
    tiny: HubServer, bert_folder: Path, tmp_path: Path, offline: Any
) -> None:
    old = download(NAME)
    tiny.add("ann/tiny", scaled(bert_folder, tmp_path / "other"))
    tiny.cut.add(WHOLE)
    with pytest.warns(UserWarning, match=f"cannot be reached .*; using commit {old.name} from the cache"):
        assert download(NAME) == old
    offline()
    assert download(NAME) == old


def test_a_model_in_shards(hub: HubServer, bert_folder: Path, offline: Any) -> None:
    tensors = load_file(bert_folder / WHOLE)
    half, parts = len(tensors) // 2, {}
    for number, keys in enumerate((sorted(tensors)[:half], sorted(tensors)[half:]), 1):
        parts[f"model-{number:05}-of-00002.safetensors"] = {key: tensors[key] for key in keys}
    index = {"metadata": {}, "weight_map": {key: file for file, part in parts.items() for key in part}}
    files = {file: save(part, metadata={"format": "pt"}) for file, part in parts.items()}
    more = {WHOLE: None, INDEX: json.dumps(index).encode(), "pytorch_model.bin": b"a pickle"}
    hub.add("ann/shards", bert_folder, **files, **more)
    assert np.array_equal(vectors("hf:ann/shards"), vectors(bert_folder))
    assert hub.asked == {"config.json", "tokenizer.json", INDEX, *parts}
    offline()
    folder = download("hf:ann/shards")
    (folder / min(parts)).unlink()
    with pytest.raises(QkvError, match="is not in the cache"):
        download("hf:ann/shards")


def test_pooling_and_dense_layers_come_along(hub: HubServer, bert_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "sentences"
    shutil.copytree(bert_folder, folder)
    kinds = ("Transformer", "Pooling", "Dense", "Normalize")
    rows = [
        {"idx": i, "name": str(i), "path": f"{i}_{kind}" if i else "", "type": f"sentence_transformers.models.{kind}"}
        for i, kind in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(rows))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_max_tokens": True}))
    (folder / "2_Dense").mkdir()
    dense = {"in_features": 16, "out_features": 4, "bias": False, "activation_function": "torch.nn.Tanh"}
    (folder / "2_Dense" / "config.json").write_text(json.dumps(dense))
    save_file({"linear.weight": torch.randn(4, 16)}, folder / "2_Dense" / WHOLE)
    hub.add("ann/sentences", folder)
    assert vectors("hf:ann/sentences").shape == (2, 4)
    assert np.array_equal(vectors("hf:ann/sentences"), vectors(folder))
    hub.add("ann/pickled", folder, **{f"2_Dense/{WHOLE}": None, "2_Dense/pytorch_model.bin": b"a pickle"})
    with pytest.raises(QkvError, match=r"has no 2_Dense/model.safetensors, only 2_Dense/pytorch_model.bin, and qkv"):
        download("hf:ann/pickled")


def test_what_qkv_wrote_is_checked_against_its_digests(hub: HubServer, tiny_bert: Any, tmp_path: Path) -> None:
    qkv.build("bert-tiny", **tiny_bert).save(tmp_path / "ours")
    hub.add("ann/ours", tmp_path / "ours")
    qkv.load("hf:ann/ours", device="cpu")
    hub.add("ann/broken", scaled(tmp_path / "ours", tmp_path / "changed"))
    with pytest.raises(QkvError, match=r"delete qkv_digests.json"):
        qkv.load("hf:ann/broken", device="cpu")


def test_a_repository_with_pickles_only(hub: HubServer, bert_folder: Path) -> None:
    hub.add("ann/old", bert_folder, **{WHOLE: None}, **{key: OTHERS[key] for key in ("pytorch_model.bin", "README.md")})
    with pytest.raises(QkvError) as caught:
        download("hf:ann/old")
    assert str(caught.value) == (
        "hf:ann/old has no model.safetensors, only pytorch_model.bin, and qkv reads safetensors only: convert it at "
        "https://huggingface.co/spaces/safetensors/convert and load the pull request that this opens, "
        "hf:ann/old@refs/pr/NUMBER"
    )
    assert hub.asked == set()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({WHOLE: None}, "hf:ann/odd has no weights: it needs model.safetensors or model.safetensors.index.json"),
        ({"config.json": None}, "hf:ann/odd has no config.json, so it is not a model that qkv reads"),
    ],
)
def test_a_repository_that_is_no_model(hub: HubServer, bert_folder: Path, more: Any, message: str) -> None:
    hub.add("ann/odd", bert_folder, **more)
    with pytest.raises(QkvError) as caught:
        download("hf:ann/odd")
    assert str(caught.value) == message
    assert hub.asked == set()


def test_a_family_that_qkv_does_not_read_is_known_before_its_weights(hub: HubServer, bert_folder: Path) -> None:
    hub.add("ann/llama", bert_folder, **{"config.json": b'{"model_type": "llama"}'})
    with pytest.raises(QkvError, match=r"hf:ann/llama is of the family 'llama', which qkv does not read \(it reads "):
        download("hf:ann/llama")
    assert hub.asked == {"config.json"}


@pytest.mark.parametrize("token", ["", "hf_mine"])
def test_a_repository_that_does_not_exist(hub: HubServer, monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(UsageError) as caught:
        download("hf:ann/nothing@v1")
    assert str(caught.value) == (
        f"hf:ann/nothing does not exist at {hub.url}, or you may not read it: check the name and, if it is private, "
        "set HF_TOKEN to a token that can read it"
    )


def test_a_revision_that_does_not_exist(tiny: HubServer) -> None:
    with pytest.raises(UsageError, match=f"^{NAME} has no revision 'v9': give a branch, a tag or a commit$"):
        download(f"{NAME}@v9")


def test_a_private_model_needs_the_token(tiny: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny.repos["ann/tiny"].token = "hf_secret"
    with pytest.raises(UsageError, match="or you may not read it"):
        download(NAME)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    assert (download(NAME) / WHOLE).is_file()


def test_a_gated_model(tiny: HubServer) -> None:
    tiny.repos["ann/tiny"].gated = True
    with pytest.raises(QkvError, match=f"is gated: accept its terms at {tiny.url}/ann/tiny and set HF_TOKEN"):
        download(NAME)


@pytest.mark.parametrize(
    ("status", "message"), [(503, "answered 503; try again later"), (403, "or you may not read it: check")]
)
def test_a_hub_that_refuses(tiny: HubServer, status: int, message: str) -> None:
    tiny.status = status
    with pytest.raises(QkvError, match=message):
        download(NAME)
    tiny.status = 0
    kept = download(NAME)
    tiny.status = status
    with pytest.warns(UserWarning, match=f"{message}.*; using commit {kept.name} from the cache"):
        assert download(NAME) == kept


def test_no_network(tiny: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = download(NAME)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:1")
    with pytest.warns(UserWarning, match=r"^http://127.0.0.1:1 cannot be reached \(.*using commit"):
        assert download(NAME) == kept
    with pytest.raises(QkvError, match=r"^http://127.0.0.1:1 cannot be reached \(.+\): check your connection to dow"):
        download("hf:ann/other")


def test_a_full_disk(tiny: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("huggingface_hub.hf_hub_download", full)
    with pytest.raises(QkvError, match=f"^{NAME} cannot be stored in the cache: No space left on device$"):
        download(NAME)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(QkvError) as caught:
        qkv.load(NAME, device="cpu")
    assert str(caught.value) == f"loading {NAME} needs the package huggingface_hub: pip install 'qkv[hub]'"


@pytest.mark.parametrize(
    "name", ["hf:", "hf:/tiny", "hf:ann/", "hf:ann/b/c", "hf:ann/tiny@", "hf:ann/../x", "hf:ann/a b", "hf:ann/a--b"]
)
def test_a_name_that_is_none(name: str) -> None:
    with pytest.raises(UsageError, match="names no model: write hf:OWNER/NAME or hf:OWNER/NAME@REVISION"):
        parse(name)


@pytest.mark.parametrize("name", ["hf:gpt2", "hf:ann/a.b-c_1", "hf:ann/tiny@refs/pr/1", "hf:ann/tiny@v1--final"])
def test_a_name_comes_back_as_it_was(name: str) -> None:
    assert str(parse(name)) == name


@pytest.mark.parametrize("verb", [qkv.load, info])
def test_a_name_without_its_prefix(verb: Any) -> None:
    with pytest.raises(UsageError, match=r"^ann/tiny is not a folder .*; if it is .* Hub, write hf:ann/tiny$"):
        verb("ann/tiny")
    with pytest.raises(UsageError) as caught:
        verb("runs/a/best")
    assert "hf:" not in str(caught.value)


def hub_cache() -> str:
    from huggingface_hub import constants

    return constants.HF_HUB_CACHE


def test_a_language_model_brings_its_settings(hub, tmp_path):
    from tests.predict.writers import writer

    writer().save(tmp_path / "gpt")
    hub.add("ann/gpt", tmp_path / "gpt")
    assert qkv.load("hf:ann/gpt", device="cpu").contents.generation.search["temperature"] == 0.8
