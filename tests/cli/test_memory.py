"""Memory does not grow with the length of a file, nor with the length of a line."""

import os
import random
import resource
import subprocess
import sys
import tracemalloc

import pytest

import qkv
from qkv.common.errors import Shortened, UsageError
from qkv.predict import texts as module
from qkv.predict.device import PRIMITIVES
from qkv.predict.texts import chunked
from tests.predict.conftest import make_translator
from tests.predict.readers import NER, make_reader

WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "dogs", "play", "in", "snow", "because", "it", "was", "cold"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("memory") / "model"
    make_reader("pool", "classify", labels=("a", "b", "c")).save(place)
    return place


def write(file, size, most=120):
    draw, done = random.Random(0), 0
    with file.open("w") as stream:
        while done < size:
            done += stream.write(" ".join(draw.choices(WORDS, k=draw.randint(1, most))) + "\n")
    return file


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_classify_streams_a_file(shell, folder, tmp_path):
    out = tmp_path / "out.txt"
    shell("classify", folder, "--file", write(tmp_path / "short.txt", 200_000, most=2000), "--out", out)
    before = peak()
    found = shell("classify", folder, "--file", write(tmp_path / "long.txt", 1_200_000, most=2000), "--out", out)
    assert found.code == 0
    assert peak() - before < 25  # 60 where 256 lines are tokenised at once


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["classify", "embed"])
def test_ten_times_the_file_takes_no_more_memory(folder, tmp_path, verb):
    def run(size):
        file = write(tmp_path / "in.txt", size)
        command = [sys.executable, "-m", "qkv", verb, str(folder), "--file", str(file), "--device", "cpu"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        return used.ru_maxrss / 1024

    assert run(50_000_000) < run(5_000_000) + 40


@pytest.mark.parametrize(
    ("items", "count", "wanted"),
    [
        (["a"] * 5, 2, [2, 2, 1]),
        (["a" * 60, "b" * 60, "c", "d"], 3, [2, 2]),
        ([("a" * 50, "b" * 60), ("c", "d")], 3, [1, 1]),
        ([{"question": "q", "context": "c" * 101, "id": 7}, {"question": "q", "context": ""}], 3, [1, 1]),
        ([(1, "a" * 200), (2, "b")], 3, [1, 1]),
        ([], 3, []),
    ],
)
def test_chunks_are_bounded_by_number_and_by_characters(monkeypatch, items, count, wanted):
    monkeypatch.setattr(module, "HELD", 100)
    found = list(chunked(iter(items), count))
    assert [len(part) for part in found] == wanted
    assert [item for part in found for item in part] == list(items)


def test_the_cache_of_shapes_is_bounded_unless_the_user_says_otherwise(folder, monkeypatch):
    monkeypatch.delenv(PRIMITIVES, raising=False)
    qkv.load(folder, device="cpu")
    assert int(os.environ[PRIMITIVES]) <= 64
    monkeypatch.setenv(PRIMITIVES, "500")
    qkv.load(folder, device="cpu")
    assert os.environ[PRIMITIVES] == "500"


def test_a_line_of_ten_megabytes_is_cut_before_it_is_tokenised(folder):
    model = qkv.load(folder, device="cpu")
    line = "the cat sat on the mat. " * 420_000
    tracemalloc.start()
    with pytest.warns(Shortened, match="1 of 2 texts were cut to 40 tokens"):
        found = model.classify([line, "the cat"])
    assert tracemalloc.get_traced_memory()[1] < 60 << 20
    tracemalloc.stop()
    with pytest.warns(Shortened):
        assert model.classify([line[:5000]])[0].label == found[0].label
    with pytest.warns(Shortened):
        model.classify(["the cat"], [line])


def test_texts_that_are_read_whole_have_a_limit(monkeypatch):
    assert module.LONGEST >= 1_000_000
    monkeypatch.setattr(module, "LONGEST", 50)
    said = "text 1 has 51 characters, and a text may have 50: cut it into parts"
    text = "the cat " * 6 + "sat"
    tagger, reader, filler = make_reader("tag", labels=NER), make_reader("span"), make_reader("mlm")
    for ask in (
        lambda: tagger.tag(["x", text]),
        lambda: reader.answer(["who?", "why?"], ["x", text]),
        lambda: filler.fill(["[MASK]", text]),
        lambda: make_translator("transformer-tiny").translate(["x", text]),
    ):
        with pytest.raises(UsageError, match=said):
            ask()
