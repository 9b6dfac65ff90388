"""`qkv look` as it is typed: what it prints, what it writes, and what it says when something is wrong."""

import json

import pytest
import torch

import qkv as package
from tests.predict.conftest import make_translator
from tests.predict.readers import make_reader


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("looked")
    make_translator("transformer-tiny").save(place / "translator")
    make_reader("mlm").save(place / "filler")
    make_reader("mlm", "classify", labels=("bad", "good")).save(place / "tuned")
    make_reader("mlm", kind="byte-bpe").save(place / "bytes")
    return place


@pytest.fixture
def qkv(monkeypatch, shell, tmp_path, folders):
    monkeypatch.chdir(tmp_path)
    return lambda name, *more: shell("look", folders / name, *more, "--device", "cpu")


def test_a_matrix_on_the_terminal_and_the_answers(qkv):
    done = qkv("filler", "the [MASK] sat", "--layer", 0, "--head", 1)
    assert (done.code, done.err) == (0, "")
    first, *rest = done.out.splitlines()
    assert first.endswith("filler: encoder, layer 0, head 1")
    assert any(line.lstrip().startswith("[MASK] ") for line in rest)
    assert rest[-4].startswith("answer, [MASK] at 2:")
    assert [line.split("  ")[1] for line in rest[-3:]] == ["input", "layer 0", "layer 1"]
    assert "\x1b" not in done.out


def test_a_matrix_that_does_not_fit_is_a_list(qkv):
    done = qkv("filler", "the cat \x1b[31m sat " * 2, "--head", 0)
    assert "\x1b" not in done.out
    long = qkv("translator", "The cat sleeps.", "The cat sleeps and the dog runs. " * 30, "--part", "decoder")
    listed = long.out.splitlines()[1:]
    assert all("%" in line for line in listed[:5])
    assert max(map(len, listed)) < 240


def test_json_has_the_weights(qkv, folders):
    done = qkv(
        "translator", "The cat sleeps.", "Le chat dort.", "--json", "--part", "decoder", "--layer", -1, "--head", 1
    )
    found = json.loads(done.out)
    assert (found["part"], found["layer"], found["head"]) == ("decoder", 1, 1)
    seen = package.load(folders / "translator", device="cpu").look("The cat sleeps.", "Le chat dort.")
    assert (found["rows"], found["columns"]) == (seen.part("decoder").rows, seen.part("decoder").columns)
    torch.testing.assert_close(torch.tensor(found["weights"]), seen.weights(1, 1, "decoder"), atol=1e-5, rtol=0)
    assert [one["wanted"]["name"] for one in found["answers"]] == seen.part("cross").rows
    own = json.loads(qkv("translator", "The cat sleeps.", "--json", "--beam", 1).out)
    assert own["notes"][0].startswith("The model's own translation: ")


def test_files_are_written_and_named(qkv, tmp_path):
    done = qkv("translator", "The cat sleeps.", "--html", "page", "--svg", "a.svg", "--layer", 1)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "page: transformer · encoder: 2 layers of 2 heads · decoder: 2 layers of 2 heads · "
        "decoder over the source: 2 layers of 2 heads",
        "a.svg: decoder over the source, layer 1, mean of 2 heads",
    ]
    assert (tmp_path / "page").read_text("utf-8").startswith("<!doctype html>")
    assert (tmp_path / "a.svg").read_text("utf-8").startswith("<svg")
    both = qkv("translator", "The cat sleeps.", "--svg", "a.svg", "--json")
    assert json.loads(both.out)["part"] == "cross"
    assert both.err.startswith("a.svg: ")


def test_rollout_is_a_layer(qkv, folders, tmp_path):
    done = qkv("translator", "The cat sleeps.", "--layer", "rollout", "--svg", "r.svg")
    assert done.out == "r.svg: encoder, rollout through 2 layers\n"
    found = json.loads(qkv("translator", "The cat sleeps.", "Le chat.", "--layer", "rollout", "--json").out)
    seen = package.load(folders / "translator", device="cpu").look("The cat sleeps.", "Le chat.")
    assert (found["part"], found["layer"], found["head"]) == ("encoder", "rollout", None)
    torch.testing.assert_close(torch.tensor(found["weights"]), seen.rollout(), atol=1e-5, rtol=0)


def test_two_models_beside_each_other(qkv, folders, tmp_path):
    done = qkv("tuned", "the [MASK] sat", "--compare", folders / "filler")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].endswith(f"tuned beside {folders / 'filler'}")
    assert lines[2].split() == ["layer", "0", "1"]
    assert [line.split()[0] for line in lines[3:5]] == ["0", "1"]
    assert lines[5].startswith("layer ")
    assert "most similar in" in lines[5]
    assert lines[-3].startswith("answer, [MASK] at 2:")
    assert "\x1b" not in done.out
    both = qkv("tuned", "the [MASK] sat", "--compare", folders / "filler", "--head", 0)
    assert both.out.count("encoder, layer 1, head 0") == 2
    told = json.loads(qkv("tuned", "the [MASK] sat", "--compare", folders / "filler", "--json").out)
    assert len(told["parts"]["encoder"]["moved"]) == len(told["answers"]) == 2
    page = qkv("tuned", "the [MASK] sat", "--compare", folders / "filler", "--html", "c.html")
    assert page.out.startswith("c.html: ")
    assert "other-encoder-weights-0" in (tmp_path / "c.html").read_text("utf-8")


def test_what_cannot_be_compared_is_one_sentence(qkv, folders, tmp_path):
    for asked, said in (
        (("tuned", "the cat", "--compare", folders / "bytes"), "different tokens"),
        (("tuned", "the cat", "--compare", folders / "nothing"), "is not a folder"),
        (("tuned", "the cat", "--compare", folders / "filler", "--svg", "a.svg"), "leave out --compare"),
        (("tuned", "the cat", "--compare", folders / "filler", "--layer", 5, "--html", "a.html"), "no layer 5"),
        (("tuned", "the cat", "--compare", folders / "filler", "--part", "cross"), "unknown part 'cross'"),
        (("tuned", "the cat", "--compare", folders / "filler", "--html", "none/a.html"), "folder does not exist"),
    ):
        done = qkv(*asked)
        assert done.code != 0
        assert done.out == ""
        assert said in done.err
        assert done.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("translator", "a", "--layer", 2, "--svg", "a.svg"), "there is no layer 2: layers are numbered from 0 to 1"),
        (("translator", "a", "--layer", "last"), "layer must be a number or rollout, got 'last'"),
        (("filler", "a", "--layer", "rollout", "--head", 0), "rollout is over all heads: name no head"),
        (("translator", "a", "--layer", "rollout", "--part", "cross"), "rollout follows self-attention"),
        (("translator", "a", "--head", 9), "there is no head 9: heads are numbered from 0 to 1"),
        (("filler", "a", "--part", "cross"), "unknown part 'cross' (allowed: encoder)"),
        (("filler", "a", "--beam", 2), "beam: only a translator that writes the target itself takes these options"),
        (("translator", "a", "b", "--beam", 2), "beam: only a translator that writes"),
        (("translator", "a", "--beam", 0), "beam must be at least 1"),
        (("filler", "a", "--svg", "none/a.svg"), "none/a.svg cannot be written: its folder does not exist"),
    ],
)
def test_wrong_usage_is_one_sentence(qkv, tmp_path, asked, said):
    done = qkv(*asked)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert done.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
