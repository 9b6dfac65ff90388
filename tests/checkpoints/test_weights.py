"""What a folder's files must be, and the sentence for each way they are not."""

import json
import pickle
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from qkv.checkpoints.folder import read_folder
from qkv.checkpoints.weights import WHOLE, read_weights, weight_bytes
from qkv.common.errors import QkvError, UsageError

INDEX = "model.safetensors.index.json"
QUERY = "bert.encoder.layer.0.attention.self.query.weight"
DENSE = "bert.encoder.layer.0.attention.output.dense.weight"


@pytest.fixture
def folder(bert_folder, tmp_path):
    return shutil.copytree(bert_folder, tmp_path / "model")


def failure(folder, kind=QkvError):
    with pytest.raises(kind) as caught:
        read_folder(folder)
    message = str(caught.value)
    assert str(folder) in message
    assert "\n" not in message
    return message


def rewrite(folder, change):
    tensors = load_file(folder / WHOLE)
    change(tensors)
    save_file(tensors, folder / WHOLE)


def shard(folder):
    """Cut the weights into two files and an index, as Hugging Face does."""
    tensors = load_file(folder / WHOLE)
    names = sorted(tensors)
    halves = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    for file, part in halves.items():
        save_file({name: tensors[name] for name in part}, folder / file)
    where = {name: file for file, part in halves.items() for name in part}
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": where}))
    (folder / WHOLE).unlink()
    return halves


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_tensors_survive_the_file(tmp_path):
    tensors = {"a": torch.randn(2, 3), "b": torch.randn(3, 2).t(), "c": torch.arange(3)}
    (tmp_path / WHOLE).write_bytes(weight_bytes(tensors))
    assert same(read_weights(tmp_path), tensors)


def test_shards_are_read_as_one(folder, bert_folder):
    shard(folder)
    ours, whole = read_folder(folder).model.state_dict(), read_folder(bert_folder).model.state_dict()
    assert same(ours, whole)


def test_a_missing_shard_is_named(folder):
    shards = list(shard(folder))
    (folder / shards[1]).unlink()
    assert shards[1] in failure(folder)


def test_a_weight_that_no_shard_holds_is_named(folder):
    shard(folder)
    index = json.loads((folder / INDEX).read_text())
    index["weight_map"]["ghost.weight"] = next(iter(index["weight_map"].values()))
    (folder / INDEX).write_text(json.dumps(index))
    assert "ghost.weight" in failure(folder)


@pytest.mark.parametrize(
    "raw", ["{", "[]", "{}", '{"weight_map": 3}', '{"weight_map": {"a": 5}}', '{"weight_map": ["a"]}', "\udcff"]
)
def test_a_damaged_index_is_an_error(folder, raw):
    shard(folder)
    (folder / INDEX).write_bytes(raw.encode("utf-8", "surrogateescape"))
    assert "damaged" in failure(folder)


def test_a_shard_outside_the_folder_is_not_read(folder, tmp_path):
    shards = list(shard(folder))
    shutil.move(folder / shards[0], tmp_path / shards[0])
    index = json.loads((folder / INDEX).read_text())
    index["weight_map"] = {name: f"../{file}" for name, file in index["weight_map"].items()}
    (folder / INDEX).write_text(json.dumps(index))
    assert shards[0] in failure(folder)


class Bomb:
    """Says so when it is unpickled."""

    def __reduce__(self):
        return (pytest.fail, ("a pickle was opened",))


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "pytorch_model.bin.index.json"])
def test_a_pickle_is_never_opened_and_the_sentence_says_how_to_convert(folder, name):
    (folder / WHOLE).unlink()
    (folder / name).write_bytes(pickle.dumps(Bomb()))
    message = failure(folder)
    assert name in message
    assert "from_pretrained" in message
    assert "save_pretrained" in message


def test_no_weights_at_all(folder):
    (folder / WHOLE).unlink()
    assert WHOLE in failure(folder)


@pytest.mark.parametrize("keep", [0, 4, 100, -1])
def test_a_truncated_file_is_an_error(folder, keep):
    data = (folder / WHOLE).read_bytes()
    (folder / WHOLE).write_bytes(data[:keep])
    assert "damaged or incomplete" in failure(folder)


@pytest.mark.parametrize("header", [b"\xff" * 8, (40).to_bytes(8, "little") + b"{not json" * 8, b"\x00" * 64])
def test_a_damaged_header_is_an_error(folder, header):
    data = (folder / WHOLE).read_bytes()
    (folder / WHOLE).write_bytes(header + data[len(header) :])
    assert "damaged or incomplete" in failure(folder)


def test_a_wrong_shape_is_named_with_both_shapes(folder):
    rewrite(folder, lambda tensors: tensors.update({DENSE: torch.zeros(16, 15)}))
    message = failure(folder)
    assert "attention" in message
    assert "[16, 15]" in message
    assert "[16, 16]" in message


@pytest.mark.parametrize("shape", [(16, 15), (15, 16), (16,), (2, 16, 16)])
def test_a_wrong_shape_of_one_part_of_a_fused_product_is_an_error_in_words(folder, shape):
    rewrite(folder, lambda tensors: tensors.update({QUERY: torch.zeros(shape)}))
    assert "attention" in failure(folder)


def test_a_missing_weight_is_named(folder):
    rewrite(folder, lambda tensors: tensors.pop(DENSE))
    assert DENSE in failure(folder)


def test_an_extra_weight_is_named(folder):
    rewrite(folder, lambda tensors: tensors.update({"bert.encoder.layer.7.extra": torch.zeros(1)}))
    assert "bert.encoder.layer.7.extra" in failure(folder)


@pytest.fixture
def own_folder(tmp_path, tiny_bert):
    """A folder in our own names: Hugging Face's bert has no rotary positions."""
    import qkv

    qkv.build("bert-tiny", position="rotary", **tiny_bert).save(tmp_path / "own")
    (tmp_path / "own" / "qkv_digests.json").unlink()  # tests edit the files
    return tmp_path / "own"


def test_our_own_format_names_missing_extra_and_wrong_weights_too(own_folder):
    weight = "stack.blocks.0.attention.part.out.weight"
    assert json.loads((own_folder / "config.json").read_text())["model_type"] == "qkv-bert"
    kept = load_file(own_folder / WHOLE)[weight]
    rewrite(own_folder, lambda tensors: tensors.pop(weight))
    assert f"lack {weight}" in failure(own_folder)
    rewrite(own_folder, lambda tensors: tensors.update({weight: torch.zeros(3, 3)}))
    assert "[3, 3]" in failure(own_folder)
    rewrite(own_folder, lambda tensors: tensors.update({weight: kept, "ghost": torch.zeros(1)}))
    assert "ghost" in failure(own_folder)


def test_our_own_config_names_an_unknown_key_and_the_nearest(own_folder):
    raw = json.loads((own_folder / "config.json").read_text())
    raw["qkv"]["num_layer"] = raw["qkv"].pop("num_layers")
    (own_folder / "config.json").write_text(json.dumps(raw))
    with pytest.raises(QkvError, match=r"num_layer.*did you mean 'num_layers'"):
        read_folder(own_folder)


@pytest.mark.parametrize("raw", [b"{", b"", b"[1, 2]", b"\xff\xfe", b'"bert"'])
def test_a_damaged_config_is_an_error_that_names_the_file(folder, raw):
    (folder / "config.json").write_bytes(raw)
    message = failure(folder)
    assert "config.json" in message
    assert "damaged" in message


def test_no_config_at_all(folder):
    (folder / "config.json").unlink()
    assert "config.json" in failure(folder)


def reconfigure(folder, **changes):
    raw = json.loads((folder / "config.json").read_text()) | changes
    kept = {key: value for key, value in raw.items() if value is not ...}
    (folder / "config.json").write_text(json.dumps(kept))


def test_a_missing_key_of_the_config_is_named(folder):
    reconfigure(folder, hidden_size=...)
    assert "hidden_size" in failure(folder)


@pytest.mark.parametrize("kind", [None, "brt", 7, ...])
def test_an_unknown_model_type_is_an_error_with_those_known(folder, kind):
    reconfigure(folder, model_type=kind)
    with pytest.raises(QkvError, match=r"model_type.*bert"):
        read_folder(folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden_size": "16"},
        {"hidden_size": None},
        {"num_attention_heads": 0},
        {"num_attention_heads": 3},
        {"num_hidden_layers": -1},
        {"vocab_size": 2.5},
        {"id2label": None},
        {"id2label": ["a", "b"]},
        {"id2label": {"a": "b"}},
        {"hidden_act": "nonsense"},
        {"hidden_act": 3},
        {"architectures": "BertModel"},
        {"architectures": ["BertForDreaming"]},
        {"position_embedding_type": "relative_key"},
    ],
    ids=str,
)
def test_a_value_that_cannot_be_is_an_error_in_words(folder, changes):
    reconfigure(folder, **changes)
    with pytest.raises(QkvError) as caught:
        read_folder(folder)
    assert "\n" not in str(caught.value)


def test_a_config_of_another_size_than_the_weights_names_the_shapes(folder):
    reconfigure(folder, intermediate_size=48)
    message = failure(folder)
    assert "[32" in message
    assert "[48" in message


def test_a_place_that_is_no_folder(folder, tmp_path):
    failure(tmp_path / "nowhere", UsageError)
    failure(folder / "config.json", UsageError)


def test_weights_are_read_in_the_precision_asked_for(folder):
    for parameter in read_folder(folder, dtype=torch.bfloat16).model.parameters():
        assert parameter.dtype == torch.bfloat16
    assert not read_folder(folder).model.training
