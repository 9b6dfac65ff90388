import errno
import io
import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.common.errors import QkvError, UsageError
from qkv.data import store as store_module
from qkv.data import store_writer
from qkv.data.store import Store
from qkv.data.store_manifest import write_manifest

ROWS = [
    {"ids": [5, 6, 7], "label": 1, "score": 0.5, "pixels": np.array([[1, 2], [3, 255]], dtype=np.uint8)},
    {"ids": [], "label": 0, "score": 2, "pixels": np.zeros((0,), dtype=np.uint8)},
    {"ids": np.array([-1, 2**31 - 1]), "label": True, "score": -1.25, "pixels": np.array([7], dtype=np.uint8)},
]


@pytest.fixture
def store(tmp_path):
    return Store.write(tmp_path / "store", ROWS, key="k")


def plain(rows):
    return [{name: values.tolist() for name, values in row.items()} for row in rows]


def test_rows_come_back_with_their_types(store):
    assert len(store) == 3
    assert store.columns == ("ids", "label", "score", "pixels")
    assert plain(store.rows([0, 1, 2])) == [
        {"ids": [5, 6, 7], "label": [1], "score": [0.5], "pixels": [1, 2, 3, 255]},
        {"ids": [], "label": [0], "score": [2.0], "pixels": []},
        {"ids": [-1, 2**31 - 1], "label": [1], "score": [-1.25], "pixels": [7]},
    ]
    assert {name: store.values(name).dtype.name for name in store.columns} == {
        "ids": "int32", "label": "int32", "score": "float32", "pixels": "uint8",
    }  # fmt: skip
    assert isinstance(store.values("ids"), np.memmap)
    assert store.values("ids").tolist() == [5, 6, 7, -1, 2**31 - 1]
    assert store.lengths("ids").tolist() == [3, 0, 2]
    assert plain([store.row(2)]) == plain(store.rows([2]))
    assert store.rows([]) == []


LISTS = st.lists(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=6), min_size=1, max_size=30)


@given(LISTS, st.data())
def test_any_rows_survive_any_size_of_chunk(tmp_path_factory, lists, data):
    numbers = data.draw(st.lists(st.integers(0, len(lists) - 1), max_size=12))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_writer, "CHUNK_ROWS", data.draw(st.integers(1, 9)))
        patch.setattr(store_writer, "CHUNK_VALUES", data.draw(st.integers(1, 20)))
        patch.setattr(store_writer, "PIECE", data.draw(st.integers(1, 20)))
        patch.setattr(store_module, "BLOCK", data.draw(st.integers(1, 9)))
        patch.setattr(store_module, "LONG", data.draw(st.sampled_from([0, 2, 100])))
        folder = tmp_path_factory.mktemp("any")
        store = Store.write(folder, ({"ids": row} for row in lists), key="k")
        assert store.lengths("ids").tolist() == [len(row) for row in lists]
        assert [row["ids"].tolist() for row in Store.open(folder).rows(np.arange(len(lists)))] == lists
        values, lengths = store.gather("ids", numbers)
        assert values.tolist() == [value for number in numbers for value in lists[number]]
        assert lengths.tolist() == [len(lists[number]) for number in numbers]


def test_the_type_of_a_column_is_settled_by_its_first_row_with_values(tmp_path):
    store = Store.write(tmp_path, [{"a": [], "b": []}, {"a": [], "b": [1.5]}, {"a": [], "b": [1]}], key="k")
    assert (store.values("a").dtype, store.values("b").dtype) == (np.int32, np.float32)
    assert plain(store.rows([1, 2])) == [{"a": [], "b": [1.5]}, {"a": [], "b": [1.0]}]
    assert plain(Store.open(tmp_path).rows([0])) == [{"a": [], "b": []}]


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"ids": [1], "label": 0, "more": 1}, "row 1500 has the columns ids, label, more, but row 0 has ids, label"),
        ({"ids": [1]}, "row 1500 has the columns ids, but row 0 has ids, label"),
        ({}, "row 1500 has the columns none, but row 0 has ids, label"),
        ({"ids": [1, 0.5], "label": 0}, "column 'ids' of row 1500 must hold integers, like row 0"),
        ({"ids": [2**31], "label": 0}, "column 'ids' of row 1500 must hold numbers from -2147483648 to 2147483647"),
        ({"ids": ["a"], "label": 0}, "column 'ids' of row 1500 must hold numbers"),
        ({"ids": [[1], [2, 3]], "label": 0}, "column 'ids' of row 1500 must hold numbers"),
        ({"ids": [1], "label": None}, "column 'label' of row 1500 must hold numbers"),
    ],
)
def test_a_row_that_does_not_fit_is_named_and_nothing_is_left(tmp_path, bad, said):
    rows = [{"ids": [1], "label": 0}] * 1500 + [bad] + [{"ids": [1], "label": 0}] * 20
    with pytest.raises(UsageError) as error:
        Store.write(tmp_path, rows, key="k")
    assert str(error.value) == said
    assert os.listdir(tmp_path) == []


def test_bytes_stay_bytes(tmp_path):
    rows = [{"pixels": np.zeros(2, np.uint8)}, {"pixels": [256]}]
    with pytest.raises(UsageError, match="column 'pixels' of row 1 must hold numbers from 0 to 255"):
        Store.write(tmp_path, rows, key="k")


def test_what_cannot_be_a_store(tmp_path, store):
    with pytest.raises(UsageError, match="there are no rows to write"):
        Store.write(tmp_path / "empty", [], key="k")
    with pytest.raises(UsageError, match="row 0 has no columns"):
        Store.write(tmp_path / "empty", [{}], key="k")
    with pytest.raises(UsageError, match=r"column '\.\./ids' cannot name a file"):
        Store.write(tmp_path / "empty", [{"../ids": [1]}], key="k")
    with pytest.raises(UsageError, match="holds no complete store"):
        Store.open(tmp_path / "empty")
    with pytest.raises(UsageError, match="unknown column 'idz'; did you mean 'ids'"):
        store.gather("idz", [0])
    for number in (-1, 3):
        with pytest.raises(UsageError, match=f"row {number} does not exist: the store has the rows 0 to 2"):
            store.row(number)


def test_progress_counts_rows(tmp_path):
    seen = []
    Store.write(tmp_path, ({"ids": [1]} for _ in range(2500)), key="k", progress=seen.append)
    assert seen == [1024, 2048, 2500]


def test_a_store_is_made_once_for_a_key(tmp_path):
    made = []

    def rows(value):
        made.append(value)
        return [{"ids": [value]}]

    assert Store.cached(tmp_path, "a", lambda: rows(1)).row(0)["ids"].tolist() == [1]
    assert Store.cached(tmp_path, "a", lambda: rows(2)).row(0)["ids"].tolist() == [1]
    assert Store.cached(tmp_path, "b", lambda: rows(3)).row(0)["ids"].tolist() == [3]
    assert made == [1, 3]
    assert Store.open(tmp_path).key == "b"


def test_another_store_leaves_nothing_of_the_first_and_does_not_disturb_its_readers(tmp_path):
    first = Store.write(tmp_path, [{"ids": [1, 2], "old": 3}], key="a")
    Store.write(tmp_path, [{"ids": [4]}], key="b")
    assert sorted(os.listdir(tmp_path)) == ["ids.bin", "ids.offsets", "manifest.json"]
    assert plain([first.row(0)]) == [{"ids": [1, 2], "old": [3]}]


def test_a_store_stays_whole_while_its_successor_fails(tmp_path):
    Store.write(tmp_path, [{"ids": [1, 2]}], key="a")

    def rows():
        yield {"ids": [3]}
        raise OSError("no network")

    with pytest.raises(OSError, match="no network"):
        Store.write(tmp_path, rows(), key="b")
    assert sorted(os.listdir(tmp_path)) == ["ids.bin", "ids.offsets", "manifest.json"]
    assert Store.open(tmp_path).row(0)["ids"].tolist() == [1, 2]


def test_a_crash_while_files_get_their_names_leaves_no_store(tmp_path, monkeypatch):
    Store.write(tmp_path, [{"ids": [1, 2]}], key="a")

    def crash(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(store_writer, "write_manifest", crash)
    with pytest.raises(KeyboardInterrupt):
        Store.write(tmp_path, [{"ids": [3]}], key="b")
    monkeypatch.undo()
    with pytest.raises(UsageError, match="no complete store"):
        Store.open(tmp_path)
    assert Store.cached(tmp_path, "b", lambda: [{"ids": [3]}]).row(0)["ids"].tolist() == [3]


def test_a_full_disk_is_told_in_one_sentence(tmp_path, monkeypatch):
    Store.write(tmp_path, [{"ids": [1, 2]}], key="a")

    class Full(io.FileIO):
        def write(self, data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(store_writer, "FileIO", Full)
    with pytest.raises(QkvError, match=r"ids\.bin could not be written: No space left on device"):
        Store.write(tmp_path, [{"ids": [3]}], key="b")
    assert sorted(os.listdir(tmp_path)) == ["ids.bin", "ids.offsets", "manifest.json"]
    assert Store.open(tmp_path).row(0)["ids"].tolist() == [1, 2]


@pytest.fixture
def damageable(tmp_path):
    rng = np.random.default_rng(0)
    rows = ({"ids": rng.integers(0, 99, rng.integers(0, 9)), "score": rng.random(2)} for _ in range(50))
    Store.write(tmp_path, rows, key="k")
    return tmp_path


FILES = ["ids.bin", "ids.offsets", "score.bin", "score.offsets", "manifest.json"]


@pytest.mark.parametrize("name", FILES)
def test_every_flipped_bit_is_found(damageable, name):
    path, rng = damageable / name, np.random.default_rng(1)
    whole = path.read_bytes()
    for bit in rng.choice(len(whole) * 8, 150, replace=False).tolist():
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with pytest.raises(QkvError, match=f"{name} is damaged"):
            Store.open(damageable)
    path.write_bytes(whole)
    assert len(Store.open(damageable)) == 50


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("name", FILES)
def test_a_file_of_another_size_is_found_without_digests(damageable, name, verify):
    path, rng = damageable / name, np.random.default_rng(2)
    whole = path.read_bytes()
    for size in [0, len(whole) - 1, *rng.integers(1, len(whole), 10)]:
        path.write_bytes(whole[:size])
        with pytest.raises(QkvError, match=f"{name} is damaged"):
            Store.open(damageable, verify=verify)
    path.write_bytes(whole + b"\0")
    with pytest.raises(QkvError, match=f"{name} is damaged"):
        Store.open(damageable, verify=verify)
    path.unlink()
    with pytest.raises(QkvError, match=f"{name} is (damaged: it is )?missing"):
        Store.open(damageable, verify=verify)


def test_damage_is_not_hidden_by_making_the_rows_again(damageable):
    with (damageable / "ids.bin").open("r+b") as file:
        file.write(b"\xff")
    with pytest.raises(QkvError, match=r"ids\.bin is damaged"):
        Store.cached(damageable, "k", list)
    rows = [{"ids": [1]}]
    assert len(Store.write(damageable, rows, key="k")) == len(Store.open(damageable)) == 1


def test_writing_the_same_rows_again_repairs_them(tmp_path):
    for _ in range(2):
        Store.write(tmp_path, [{"ids": [1]}], key="k")
        assert Store.open(tmp_path).row(0)["ids"].tolist() == [1]
        (tmp_path / "ids.bin").write_bytes(b"\xff\0\0\0")


def test_a_manifest_of_another_version_is_named(store):
    path = store.folder / "manifest.json"
    manifest = json.loads(path.read_bytes())
    del manifest["digest"]
    write_manifest(store.folder, {**manifest, "version": 2})
    with pytest.raises(QkvError, match=r"manifest.json has version 2, but this qkv reads version 1"):
        Store.open(store.folder)


CHILD = """
import sys
from pathlib import Path
import numpy as np
from qkv.data.loaders import Loader
from qkv.data.order import BucketSampler, WindowSampler
from qkv.data.packing import Windows
from qkv.data.store import Store

def rows(tokens):
    rng = np.random.default_rng(0)
    while tokens > 0:
        lengths = rng.integers(1, {longest}, 200)
        block = rng.integers(0, 30000, lengths.sum(), dtype=np.int32)
        for part in np.split(block, np.cumsum(lengths)[:-1]):
            yield {{"ids": part}}
        tokens -= len(block)

folder = Path(sys.argv[1])
Store.write(folder, rows({tokens}), key="k")
store = Store.open(folder, resident={resident})
sampler = BucketSampler(store.lengths("ids"), tokens=4096, seed=0)
seen = sum(len(batch[0]) for batch, _ in Loader(sampler, lambda r, _: store.gather("ids", r), epochs=1).iterate())
assert seen == len(store.values("ids")) >= {tokens}
windows = Windows(store, "ids", length=256)
sampler = WindowSampler(windows.count, windows=64, seed=0, length=256)
for batch, _ in Loader(sampler, lambda r, _: windows.gather(r), epochs=1).iterate():
    assert len(batch[0]) == 64 * 256
# Not resource.getrusage: its peak begins with that of the process that started this one.
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
"""


def peak(folder, **settings):
    """The peak memory in MB of a process that writes a store and reads all of it twice."""
    code = textwrap.dedent(CHILD).format(**settings)
    done = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout) / 1024


needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="peak memory is read from /proc")


@needs_proc
@pytest.mark.parametrize(
    ("tokens", "resident", "growth"),
    [(1_000_000, 4, 16), pytest.param(5_000_000, 16, 24, marks=pytest.mark.slow)],
    ids=["4 to 40 MB", "20 to 200 MB"],
)
def test_memory_stays_flat_while_the_corpus_grows_tenfold(tmp_path, tokens, resident, growth):
    small = peak(tmp_path / "small", tokens=tokens, longest=1000, resident=resident << 20)
    large = peak(tmp_path / "large", tokens=10 * tokens, longest=1000, resident=resident << 20)
    assert large - small < growth
