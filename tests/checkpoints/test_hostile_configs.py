"""Numbers in config.json that no model has: refused in one sentence and at once, or loaded and usable."""

import json
import time

import pytest
import torch

import qkv
from qkv.checkpoints.folder import read_folder
from qkv.common.errors import QkvError
from qkv.predict.model import Model

TINY = {"vocab_size": 30, "dim": 16, "num_layers": 2, "num_heads": 2, "ff_dim": 24}
TWO = {**TINY, "num_decoder_layers": 2}
IMAGES = {"dim": 16, "num_layers": 2, "num_heads": 2, "ff_dim": 24, "image_size": 8, "patch_size": 4, "num_labels": 3}
FAMILIES = {
    "bert": ("bert-tiny", {**TINY, "heads": ["pool", "mlm", "nsp"]}),
    "roberta": ("roberta-base", {**TINY, "heads": ["pool", "classify"]}),
    "distilbert": ("distilbert-base", {**TINY, "heads": ["tag"]}),
    "albert": ("albert-base", {**TINY, "embedding_dim": 8, "heads": ["mlm"]}),
    "electra": ("electra-small", {**TINY, "embedding_dim": 8}),
    "roformer": ("bert-small-rotary", {**TINY, "heads": ["mlm"]}),
    "gpt2": ("gpt2", TINY),
    "gpt2-classify": ("gpt2", {**TINY, "heads": ["classify"]}),
    "t5": ("t5-small", {**TWO, "head_dim": 8}),
    "t5-1.1": ("t5-1.1-small", {**TWO, "head_dim": 8}),
    "marian": ("transformer-tiny", TWO),
    "pegasus": ("transformer-tiny", {**TWO, "pre_norm": True}),
    "vit": ("vit-ti16", IMAGES),
    "deit": ("deit-ti16", {**IMAGES, "heads": ["distilled"]}),
    "qkv-bert": ("bert-tiny", {**TINY, "position": "relative", "heads": ["mlm"]}),
    "qkv-gpt": ("gpt2", {**TINY, "position": "rotary-dynamic", "num_kv_heads": 1, "window": 4}),
    "qkv-t5": ("t5-small", {**TWO, "head_dim": 8, "position": "alibi"}),
    "qkv-transformer": ("transformer-tiny", {**TWO, "position": "bucketed"}),
    "qkv-rnn": ("rnn-small", {"vocab_size": 30, "dim": 16}),
    "qkv-word2vec": ("word2vec-small", {"vocab_size": 30, "dim": 16}),
}
VALUES = (0, -1, 10**9, 10**18, 2**63, 10**40, 0.5, -1.5, 1e30, "16", None, True, [2], {"a": 1})


def numbers(raw, path=()):
    """List the places of every number in a config."""
    for key, value in raw.items():
        if isinstance(value, dict) and key not in ("id2label", "label2id"):
            yield from numbers(value, (*path, key))
        elif isinstance(value, int | float | None) and not isinstance(value, bool):
            yield (*path, key)


def changed(raw, path, value):
    if len(path) == 1:
        return {**raw, path[0]: value}
    return {**raw, path[0]: changed(raw[path[0]], path[1:], value)}


def use(found):
    """Ask a model that was loaded for scores."""
    model = Model(found, device="cpu")
    if model.family == "vit":
        model.logits(torch.zeros(1, *model.module.embeddings.shape))
    elif getattr(model.module, "decoder", None) is not None:
        model.logits([[1, 2, 3]], [[0, 2]])
    else:
        model.logits([[1, 2, 3]])


@pytest.fixture(scope="module", params=FAMILIES)
def folder(request, tmp_path_factory):
    preset, changes = FAMILIES[request.param]
    place = tmp_path_factory.mktemp("hostile") / request.param
    torch.manual_seed(0)
    qkv.build(preset, device="cpu", **changes).save(place)
    (place / "qkv_digests.json").unlink(missing_ok=True)
    return place


def test_every_number_is_refused_or_works(folder):
    file = folder / "config.json"
    raw = json.loads(file.read_text())
    use(read_folder(folder))  # what is imported once is imported
    wrong = []
    for path in numbers(raw):
        for value in VALUES:
            file.write_text(json.dumps(changed(raw, path, value)))
            begun, said = time.process_time(), ""
            try:
                use(read_folder(folder))
            except QkvError as error:
                said = "more than one line" if "\n" in str(error) else ""
            except Exception as error:
                said = f"{type(error).__name__}: {error}"
            if said or time.process_time() - begun > 1:
                wrong.append((".".join(path), value, said or "too slow"))
    file.write_text(json.dumps(raw))
    use(read_folder(folder))
    assert not wrong


@pytest.mark.parametrize("key", ["num_hidden_layers", "hidden_size", "vocab_size", "max_position_embeddings"])
def test_a_number_beyond_the_weights_is_named(bert_folder, tmp_path, key):
    import shutil

    folder = shutil.copytree(bert_folder, tmp_path / "model")
    raw = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(raw | {key: 10**9}))
    with pytest.raises(QkvError, match=r"1000000000 .*weights"):
        read_folder(folder)
