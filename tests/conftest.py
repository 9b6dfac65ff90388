"""What several rooms of the tests share: a repeatable start and one tiny model folder."""

import os
import stat
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from tests.browser import browser as browser

with suppress(ImportError):  # a machine that runs the tests of tests/gpu alone may have no hypothesis
    from hypothesis import settings

    settings.register_profile("tiny", max_examples=40, deadline=None, derandomize=True)
    settings.load_profile("tiny")

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = [*SPECIALS, "the", "cat", "sat", "on", "a", "mat", "dog", "##s", "##ed", "run", ".", ",", "!"]


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def words():
    return list(WORDS)


@pytest.fixture(scope="session")
def wordpiece(words):
    """Make a WordPiece tokenizer of the few words, with BERT's template; each call gives a new one."""

    def make(vocabulary=words):
        inner = Tokenizer(models.WordPiece({word: i for i, word in enumerate(vocabulary)}, unk_token="[UNK]"))
        inner.normalizer = normalizers.BertNormalizer()
        inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        inner.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
        )
        return inner

    return make


@pytest.fixture(scope="session")
def tiny_bert(words):
    """The numbers of a BERT small enough to build in each test."""
    return {
        "vocab_size": len(words), "dim": 16, "num_layers": 2, "num_heads": 2, "ff_dim": 32, "max_length": 12,
    }  # fmt: skip


@pytest.fixture(scope="session")
def bert_folder(tmp_path_factory, tiny_bert, wordpiece):
    """A model folder with weights and a tokenizer. Copy it before changing it."""
    import qkv

    torch.manual_seed(1)
    folder = tmp_path_factory.mktemp("models") / "bert"
    qkv.build("bert-tiny", heads=["pool", "mlm"], **tiny_bert).save(folder)
    wordpiece().save(str(folder / "tokenizer.json"))
    (folder / "qkv_digests.json").unlink(missing_ok=True)  # tests edit its copies
    return folder


@pytest.fixture
def null_device(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A device like /dev/null. Root gets one of its own: code that fails the test would destroy the machine's."""
    if os.geteuid():
        return Path("/dev/null")
    place = tmp_path_factory.mktemp("dev") / "null"
    try:
        os.mknod(place, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        place.write_bytes(b"x")
    except PermissionError:
        pytest.skip("root may make no device here")
    return place


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A Hub on this machine with an empty cache; `huggingface_hub` has read its environment long ago."""
    constants = pytest.importorskip("huggingface_hub.constants")
    from tests.hub_server import HubServer

    server = HubServer()
    monkeypatch.setattr(
        constants, "HUGGINGFACE_CO_URL_TEMPLATE", server.url + "/{repo_id}/resolve/{revision}/{filename}"
    )
    monkeypatch.setattr(constants, "ENDPOINT", server.url)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub-cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    yield server
    server.shutdown()
    server.server_close()
