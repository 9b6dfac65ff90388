"""What is written over and what is not; and what killed processes leave."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from qkv.common import disk
from qkv.common.errors import StorageError, UsageError, system_errors


def dead_process() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def stream(file: Path, data: bytes) -> None:
    with disk.streaming(file) as out:
        out.write(data)


@pytest.mark.parametrize("write", [disk.replace_file, stream])
def test_a_link_is_followed_and_stays(tmp_path: Path, write: object) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "file").write_text("old")
    (tmp_path / "link").symlink_to("far/file")
    (tmp_path / "dangling").symlink_to("far/new")
    for name in ("link", "dangling"):
        write(tmp_path / name, b"new")  # type: ignore[operator]
        assert (tmp_path / name).is_symlink()
    assert {path.name: path.read_text() for path in (tmp_path / "far").iterdir()} == {"file": "new", "new": "new"}
    assert sorted(os.listdir(tmp_path)) == ["dangling", "far", "link"]


def test_a_link_to_a_folder_is_followed_each_time(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    for text in (b"one", b"two"):
        disk.replace_folder(tmp_path / "link", {"a/file": text}, manifest=False)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "real" / "a" / "file").read_bytes() == text
    assert sorted(os.listdir(tmp_path)) == ["link", "real"]


def test_a_link_that_an_earlier_version_put_aside_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / ".real.old").symlink_to("elsewhere")
    disk.replace_folder(tmp_path / "real", {"file": b"x"}, manifest=False)
    assert sorted(os.listdir(tmp_path)) == ["real"]


@pytest.mark.parametrize("kind", ["folder", "pipe", "device"])
def test_only_plain_files_are_replaced(tmp_path: Path, null_device: Path, kind: str) -> None:
    place = null_device if kind == "device" else tmp_path / "place"
    if kind == "folder":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    mode = place.stat().st_mode
    with pytest.raises(UsageError, match=rf"is a {kind}: give a regular file instead"):
        disk.replace_file(place, b"x")
    if kind != "folder":
        with pytest.raises(UsageError, match=rf"is a {kind}: give a folder instead"):
            disk.replace_folder(place, {"a": b"x"}, manifest=False)
    assert place.stat().st_mode == mode


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    with pytest.raises(UsageError, match="is a file: give a folder instead"):
        disk.replace_folder(tmp_path / "file", {"a": b"x"}, manifest=False)
    assert (tmp_path / "file").read_text() == "old"


def test_devices_and_pipes_are_streamed_to(tmp_path: Path, null_device: Path) -> None:
    before = null_device.stat()
    stream(null_device, b"x")
    assert os.path.samestat(null_device.stat(), before)
    os.mkfifo(tmp_path / "pipe")
    reader = subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE)
    stream(tmp_path / "pipe", b"hello")
    assert reader.communicate(timeout=10)[0] == b"hello"
    assert os.listdir(tmp_path) == ["pipe"]


def test_standard_output_is_appended_to_and_not_replaced(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path; from qkv.common import disk\n"
        "for name in ('dev', 'proc/self'):\n"  # not /dev/stdout, which code that fails the test would destroy
        "    with disk.streaming(Path('/', name, 'fd', '1')) as out: out.write(name.encode())"
    )
    with (tmp_path / "all").open("wb") as out:
        for _ in range(2):
            subprocess.run([sys.executable, "-c", code], stdout=out, check=True)
    assert (tmp_path / "all").read_text() == "devproc/self" * 2
    assert disk.INHERITED.fullmatch("/dev/stdout")
    assert os.listdir(tmp_path) == ["all"]


def test_a_stream_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("old")
    with pytest.raises(TypeError), disk.streaming(tmp_path / "file") as out:
        out.writelines([b"new", "not bytes"])  # type: ignore[list-item]
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(PermissionError(13, "Permission denied")))
    with pytest.raises(StorageError, match="could not be written: Permission denied; existing contents"):
        stream(tmp_path / "file", b"new")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"file": "old"}


def test_what_a_dead_process_left_goes_at_the_next_write_and_what_a_living_one_writes_stays(tmp_path: Path) -> None:
    dead, living = f".file.{dead_process()}-0.new", f".file.{os.getppid()}-0.new"
    for name in (dead, living, ".file.txt.new"):
        (tmp_path / name).write_text("half")
    disk.replace_file(tmp_path / "file", b"x")
    assert sorted(os.listdir(tmp_path)) == sorted([living, ".file.txt.new", "file"])


def test_sweeping_takes_only_what_is_unfinished(tmp_path: Path) -> None:
    kept = [".hidden", ".notes.new", "best/config.json", ".gitignore", "a.new"]
    left = [".x.12-3.new", ".best.old/config.json", "data/.ids.bin.77.part", ".recipe.toml.new", ".best.ab_d1234/x"]
    for name in kept + left:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    disk.sweep(tmp_path)
    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert found == sorted(kept)


def test_sweeping_brings_back_a_folder_whose_successor_never_came(tmp_path: Path) -> None:
    (tmp_path / ".best.old").mkdir()
    disk.sweep(tmp_path)
    assert os.listdir(tmp_path) == ["best"]


def test_a_table_that_was_changed_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_bytes(disk.table_bytes("files", {"a": 1}))
    assert disk.read_table(tmp_path / "t.json", "files") == {"a": 1}
    whole = (tmp_path / "t.json").read_bytes()
    for data in (whole.replace(b"1", b"2", 1), whole[:-5], b"\xff", b"[]", b"[" * 100_000, b"{}"):
        (tmp_path / "t.json").write_bytes(data)
        with pytest.raises(StorageError, match=r"t\.json is damaged"):
            disk.read_table(tmp_path / "t.json", "files")


def test_a_sealed_folder_tells_which_file_changed(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    disk.seal(tmp_path)
    assert disk.damage(tmp_path) is None
    (tmp_path / "b").write_text("c")
    assert "b is damaged" in str(disk.damage(tmp_path))
    (tmp_path / "b").unlink()
    assert "b is missing" in str(disk.damage(tmp_path))


def test_errors_of_the_system_are_one_sentence() -> None:
    with pytest.raises(StorageError, match=r"^/nowhere/x cannot be used: No such file or directory$"), system_errors():
        Path("/nowhere/x").read_bytes()
    with pytest.raises(BrokenPipeError), system_errors():
        raise BrokenPipeError
