"""A model folder written over another: what stays, what goes, what a kill leaves; and the digests of its files."""

import errno
import hashlib
import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import qkv
from qkv.checkpoints.folder import folder_files, read_folder, write_folder
from qkv.checkpoints.update import DIGESTS, STAGE
from qkv.common.errors import QkvError, UsageError

TINY = {"vocab_size": 30, "dim": 16, "num_layers": 1, "num_heads": 2, "ff_dim": 32, "max_length": 12}
OTHERS = {
    "recipe.toml": "task = 'classify'", "notes.txt": "mine", "checkpoints/step-3/facts.json": "{}",
    "best/config.json": "{}", "data/train/part": "rows", "README.md": "a card", "preprocessor_notes.json": "{}",
}  # fmt: skip


@pytest.fixture(scope="module")
def gpt():
    torch.manual_seed(1)
    return qkv.build("gpt2", device="cpu", **TINY)


@pytest.fixture(scope="module")
def bert(bert_folder):
    return qkv.load(bert_folder, device="cpu")


def contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def put(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def same_model(model, other):
    a, b = model.module.state_dict(), other.module.state_dict()
    return model.config == other.config and a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_saving_keeps_everything_that_is_not_the_model_s(gpt, bert, tmp_path):
    folder = tmp_path / "run"
    gpt.save(folder)
    put(folder, OTHERS)
    bert.save(folder)
    for name, text in OTHERS.items():
        assert (folder / name).read_text() == text
    assert contents(folder).keys() == {*OTHERS, *folder_files(bert._folder), DIGESTS}
    np.testing.assert_array_equal(qkv.load(folder, device="cpu").embed(["the cat"]), bert.embed(["the cat"]))
    gpt.save(folder)  # the tokenizer was the other model's
    assert contents(folder).keys() == {*OTHERS, *folder_files(gpt._folder), DIGESTS}


def test_a_run_s_folder_without_a_model_takes_one(gpt, tmp_path):
    put(tmp_path, {"recipe.toml": "task = 'language'"})
    gpt.save(tmp_path)
    assert contents(tmp_path).keys() == {"recipe.toml", *folder_files(gpt._folder), DIGESTS}


def test_shards_index_and_old_tokenizer_files_go(bert, tmp_path):
    bert.save(tmp_path / "model")
    stale = (
        "model.safetensors.index.json", "model-00001-of-00002.safetensors", "vocab.txt", "special_tokens_map.json",
        "modules.json", "1_Pooling/config.json", "2_Dense/model.safetensors", "sentence_bert_config.json",
    )  # fmt: skip
    put(tmp_path / "model", dict.fromkeys(stale, "{}"))
    bert.save(tmp_path / "model")
    assert contents(tmp_path / "model").keys() == {*folder_files(bert._folder), DIGESTS}


def test_a_tokenizer_that_qkv_did_not_write_stays_where_the_model_has_none(gpt, tmp_path):
    gpt.save(tmp_path / "model")
    put(tmp_path / "model", {"tokenizer.json": "mine"})
    gpt.save(tmp_path / "model")
    assert (tmp_path / "model" / "tokenizer.json").read_text() == "mine"


def test_replacing_leaves_the_model_alone(gpt, bert, tmp_path):
    bert.save(tmp_path / "model")
    put(tmp_path / "model", {"notes.txt": "mine"})
    write_folder(gpt._folder, tmp_path / "model", mode="replace")
    assert contents(tmp_path / "model").keys() == {*folder_files(gpt._folder), DIGESTS}


def test_a_link_is_followed(gpt, bert, tmp_path):
    gpt.save(tmp_path / "model")
    (tmp_path / "link").symlink_to("model")
    for _ in range(2):
        bert.save(tmp_path / "link")
        assert (tmp_path / "link").is_symlink()
        assert qkv.load(tmp_path / "model", device="cpu").family == "bert"
    assert sorted(os.listdir(tmp_path)) == ["link", "model"]


EVENTS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree", "tempfile.mkdtemp")


def killed(work, place, number):
    """Run `work` in a child that dies before the given one of its calls that touch `place`; say whether it died."""
    child = os.fork()
    if child == 0:
        left = number

        def hook(event, arguments):
            nonlocal left
            if event in EVENTS and any(
                str(place) in os.fsdecode(a) for a in arguments if isinstance(a, str | os.PathLike)
            ):
                left -= 1
                if left < 0:
                    os._exit(9)

        try:
            sys.addaudithook(hook)
            work()
            os._exit(0)
        except BaseException:
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 9)
    return code == 9


def test_a_kill_at_any_call_leaves_the_old_model_or_the_new_one(gpt, bert, tmp_path):
    number, seen = 0, set()
    while True:
        folder = tmp_path / str(number) / "model"
        gpt.save(folder)
        put(folder, OTHERS)
        died = killed(lambda: bert.save(folder), folder.parent, number)  # noqa: B023
        found = qkv.load(folder, device="cpu")
        assert same_model(found, gpt) or same_model(found, bert)
        assert (found.tokenizer is not None) == (found.family == "bert")
        assert all((folder / name).read_text() == text for name, text in OTHERS.items())
        seen.add(found.family)
        bert.save(folder)  # and the folder can be saved into
        assert contents(folder).keys() == {*OTHERS, *folder_files(bert._folder), DIGESTS}
        assert os.listdir(folder.parent) == ["model"]
        if not died:
            break
        number += 1
    assert seen == {"gpt", "bert"}
    assert number > 10


def half_saved(old, new, folder):
    """Save over a model, and be killed once the first of the new files stands in its place."""
    for number in range(100):
        old.save(folder)
        killed(lambda: new.save(folder), folder, number)
        if (folder / STAGE).is_dir() and not (folder / STAGE / "model.safetensors").exists():
            return
    pytest.fail("no kill left a half-saved folder")


def test_a_kill_while_a_cut_off_save_is_finished(gpt, bert, tmp_path):
    """The reader of a half-saved folder may be killed too."""
    half_saved(gpt, bert, tmp_path / "half")
    number = 0
    while True:
        folder = tmp_path / str(number)
        shutil.copytree(tmp_path / "half", folder)
        died = killed(lambda: read_folder(folder), folder, number)  # noqa: B023
        assert same_model(qkv.load(folder, device="cpu"), bert)
        if not died:
            break
        number += 1
    assert number > 5


def test_two_processes_may_finish_the_same_save(gpt, bert, tmp_path, monkeypatch):
    import qkv.checkpoints.update as update

    half_saved(gpt, bert, tmp_path / "model")
    rename = update.disk.rename

    def twice(old, new):
        rename(old, new)  # by the other process
        rename(old, new)

    monkeypatch.setattr(update.disk, "rename", twice)
    assert same_model(qkv.load(tmp_path / "model", device="cpu"), bert)


def test_a_folder_whose_replacement_was_cut_off_is_found(gpt, tmp_path):
    gpt.save(tmp_path / "model")
    os.rename(tmp_path / "model", tmp_path / ".model.old")  # as between the two renames of a replacement
    assert same_model(qkv.load(tmp_path / "model", device="cpu"), gpt)
    os.rename(tmp_path / "model", tmp_path / ".model.old")
    assert qkv.info(str(tmp_path / "model"))["family"] == "gpt"


def test_the_folder_one_stands_in_can_be_loaded(gpt, tmp_path, monkeypatch):
    gpt.save(tmp_path / "model")
    monkeypatch.chdir(tmp_path / "model")
    assert same_model(qkv.load(".", device="cpu"), gpt)


def test_a_staged_update_that_leads_out_of_the_folder_moves_nothing(gpt, tmp_path):
    gpt.save(tmp_path / "model")
    put(tmp_path, {"precious": "mine", "aside/precious": "mine"})
    (tmp_path / "model" / "1_Dense").symlink_to(tmp_path / "aside")
    for name in ("../precious", str(tmp_path / "precious"), "1_Dense/precious"):
        table = {name: hashlib.sha256(b"x").hexdigest()}
        self = hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()
        put(tmp_path / "model", {DIGESTS: json.dumps({"sha256": table, "self": self})})
        gpt.save(tmp_path / "model")
        put(tmp_path / "model", {f"{STAGE}/{DIGESTS}": json.dumps({"sha256": table, "self": self})})
        put(tmp_path / "model" / STAGE / "x", {"../precious": "theirs"})
        qkv.load(tmp_path / "model", device="cpu", verify=False)
    assert (tmp_path / "precious").read_text() == (tmp_path / "aside" / "precious").read_text() == "mine"


def flip(file, place):
    data = bytearray(file.read_bytes())
    data[place % len(data)] ^= 1 << (place % 8)
    file.write_bytes(data)


@pytest.mark.parametrize(
    "name", ["model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json", DIGESTS]
)
def test_a_flipped_bit_is_noticed_and_its_file_named(bert, tmp_path, name):
    bert.save(tmp_path / "model")
    whole = contents(tmp_path / "model")
    for place in (-5, len(whole[name]) // 2, 7):
        (tmp_path / "model" / name).write_bytes(whole[name])
        flip(tmp_path / "model" / name, place)
        with pytest.raises(QkvError) as caught:
            qkv.load(tmp_path / "model", device="cpu")
        message = str(caught.value)
        assert str(tmp_path / "model" / name) in message
        assert "verify=False" in message
        assert "\n" not in message


def test_a_file_that_is_gone_is_named(bert, tmp_path):
    bert.save(tmp_path / "model")
    (tmp_path / "model" / "tokenizer_config.json").unlink()
    with pytest.raises(QkvError, match=r"tokenizer_config\.json is missing"):
        qkv.load(tmp_path / "model", device="cpu")


@pytest.mark.parametrize("way", ["keyword", "environment", "deleted"])
def test_an_edited_folder_is_taken_when_told(bert, tmp_path, monkeypatch, way):
    folder = tmp_path / "model"
    bert.save(folder)
    tensors = load_file(folder / "model.safetensors")
    tensors["bert.embeddings.LayerNorm.bias"] += 1
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(QkvError, match=r"model\.safetensors.*delete qkv_digests\.json.*verify=False.*QKV_VERIFY=0"):
        qkv.load(folder, device="cpu")
    if way == "environment":
        monkeypatch.setenv("QKV_VERIFY", "0")
    if way == "deleted":
        (folder / DIGESTS).unlink()
    found = qkv.load(folder, device="cpu", verify=way != "keyword")
    assert not same_model(found, bert)
    found.save(folder)
    monkeypatch.delenv("QKV_VERIFY", raising=False)
    assert same_model(qkv.load(folder, device="cpu"), found)


def test_other_libraries_ignore_the_digests_and_their_edits_are_explained(tmp_path):
    import transformers as hf

    torch.manual_seed(1)
    qkv.build("bert-tiny", heads=["mlm"], **TINY).save(tmp_path)
    model = hf.BertForMaskedLM.from_pretrained(tmp_path)
    model.save_pretrained(tmp_path)
    with pytest.raises(QkvError, match="verify=False"):
        qkv.load(tmp_path, device="cpu")
    assert qkv.load(tmp_path, device="cpu", verify=False).config.heads == ("mlm",)


def test_a_folder_as_it_was_written_before_digests_loads(bert, tmp_path):
    """The layout of earlier versions: no digests, no special tokens in the settings, a pooling without modules.json."""
    bert.save(tmp_path / "new")
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (tmp_path / "old").mkdir(exist_ok=True)
        shutil.copy(tmp_path / "new" / name, tmp_path / "old" / name)
    raw = json.loads((tmp_path / "old" / "config.json").read_text())
    raw.pop("tie_word_embeddings")
    put(
        tmp_path / "old",
        {"config.json": json.dumps(raw), "tokenizer_config.json": '{"tokenizer_class": "PreTrainedTokenizerFast"}'},
    )
    found = qkv.load(tmp_path / "old", device="cpu")
    np.testing.assert_array_equal(found.embed(["the cat"]), bert.embed(["the cat"]))
    put(tmp_path / "old", {"1_Pooling/config.json": '{"pooling_mode_cls_token": true, "word_embedding_dimension": 16}'})
    assert qkv.load(tmp_path / "old", device="cpu").pooling == "first"


@pytest.mark.parametrize("preset", ["gpt2", "roberta-base", "transformer-tiny", "t5-small"])
def test_our_own_configs_of_earlier_versions_load(preset, tmp_path):
    """Folders in our own names lack the fields that configs have got since."""
    sizes = {key: value for key, value in TINY.items() if key != "max_length"}
    model = qkv.build(preset, device="cpu", position="rotary", **sizes)
    model.save(tmp_path)
    raw = json.loads((tmp_path / "config.json").read_text())
    for key in ("output", "end_id", "pad_id", "num_groups", "num_decoder_heads", "decoder_ff_dim"):
        if preset != "t5-small" and (preset != "transformer-tiny" or key != "end_id"):
            raw["qkv"].pop(key, None)
    (tmp_path / "config.json").write_text(json.dumps(raw))
    (tmp_path / DIGESTS).unlink()
    found = qkv.load(tmp_path, device="cpu")
    assert all(
        torch.equal(a, b)
        for a, b in zip(found.module.state_dict().values(), model.module.state_dict().values(), strict=True)
    )


@pytest.mark.parametrize("name", ["en-de", "en-fr"])
def test_built_in_models_carry_digests(name):
    from qkv.predict.loading import PRETRAINED

    table = json.loads((PRETRAINED / name / DIGESTS).read_text())["sha256"]
    assert table.keys() == {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    for file, digest in table.items():
        assert hashlib.sha256((PRETRAINED / name / file).read_bytes()).hexdigest() == digest


def test_a_place_that_is_not_a_model_s_is_refused(gpt, tmp_path):
    put(tmp_path, {"photos/notes.txt": "mine"})
    with pytest.raises(UsageError, match="not a model folder"):
        gpt.save(tmp_path / "photos")


def test_digests_that_cannot_be_read_now_do_not_lose_the_new_model(gpt, tmp_path, monkeypatch):
    gpt.save(tmp_path / "model")
    stage = tmp_path / "model" / STAGE
    read = Path.read_bytes

    def fails(self):
        if self == stage / DIGESTS:
            raise OSError(errno.EIO, "Input/output error", str(self))
        return read(self)

    monkeypatch.setattr(Path, "read_bytes", fails)
    with pytest.raises(QkvError, match="cannot be read: Input/output error"):
        gpt.save(tmp_path / "model")
    monkeypatch.undo()
    assert torch.equal(qkv.load(tmp_path / "model", device="cpu").module.table, gpt.module.table)
