"""Images: IDX, npz, folders."""

import gzip
import struct
import sys
import zipfile

import numpy as np
import pytest

from qkv.common.errors import UsageError
from qkv.data.bad_rows import BadRows
from qkv.data.images import images
from tests.data.messages import message

RANDOM = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def idx(array, kind=8):
    return struct.pack(f">HBB{array.ndim}I", 0, kind, array.ndim, *array.shape) + array.tobytes()


def random_pixels(*shape):
    return RANDOM.integers(0, 256, shape, dtype=np.uint8)


def same(found, pixels, labels):
    found = list(found)
    assert [image.label for image in found] == labels
    for image, wanted in zip(found, pixels, strict=True):
        assert image.pixels.dtype == np.uint8
        assert image.pixels.flags.writeable
        assert image.pixels.flags.c_contiguous
        np.testing.assert_array_equal(image.pixels, wanted)
    return found


def test_an_idx_pair_is_found_by_the_name_of_its_images(folder):
    pixels, labels = random_pixels(3, 4, 5), np.array([7, 0, 7], np.uint8)
    (folder / "t-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(pixels)))
    (folder / "t-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(labels)))
    found = same(images("t-images-idx3-ubyte.gz"), pixels[:, None], ["7", "0", "7"])
    assert found[1].where == "t-images-idx3-ubyte.gz:2"
    same(images(["t-images-idx3-ubyte.gz", "t-labels-idx1-ubyte.gz"]), pixels[:, None], ["7", "0", "7"])


def test_idx_files_that_do_not_fit(folder):
    pixels, labels = random_pixels(3, 4, 5), np.zeros(2, np.uint8)
    (folder / "i").write_bytes(idx(pixels))
    (folder / "l").write_bytes(idx(labels))
    assert message(images(["i", "l"])) == "i has 3 images, l has 2 labels; the numbers must be equal"
    assert message(images(["l", "l"])) == "l is not an IDX file of unsigned bytes with 3 dimensions"
    (folder / "l").write_bytes(idx(np.zeros(3, np.uint8)))
    (folder / "i").write_bytes(idx(pixels)[:-1])
    assert message(images(["i", "l"])) == "i is truncated: 20 bytes are needed, 19 are left"
    (folder / "i").write_bytes(idx(pixels, kind=13))
    assert message(images(["i", "l"])).startswith("i is not an IDX file")
    (folder / "l").write_bytes(b"\0")
    assert message(images(["i", "l"])) == "l is truncated: 4 bytes are needed, 1 are left"
    with pytest.raises(UsageError, match="i: an IDX file needs its labels; give both files, images first"):
        images("i")
    with pytest.raises(UsageError, match="got 3 files"):
        images(["i", "i", "i"])


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [((2, 4, 5), None), ((2, 4, 5, 3), (0, 3, 1, 2)), ((2, 4, 5, 1), (0, 3, 1, 2)), ((2, 3, 4, 5), (0, 1, 2, 3))],
)
def test_npz(save, shape, axes):
    pixels = random_pixels(*shape)
    save("a.npz", images=pixels, labels=["cat", "dog"])
    wanted = pixels[:, None] if axes is None else pixels.transpose(axes)
    found = same(images("a.npz"), wanted, ["cat", "dog"])
    assert found[0].where == "a.npz:1"


def test_npz_with_short_names_and_labels_in_a_column():
    pixels = random_pixels(2, 4, 4)
    np.savez("a.npz", x=pixels, y=np.array([[3], [10]]))
    same(images("a.npz"), pixels[:, None], ["3", "10"])


def test_npz_files_that_do_not_fit(folder):
    np.savez("a.npz", images=random_pixels(2, 4, 4), z=[1])
    expected = "a.npz must contain the arrays images and labels, or x and y (it contains: images, z)"
    assert message(images("a.npz")) == expected
    np.savez("a.npz", images=random_pixels(2, 4, 4), labels=[1])
    assert message(images("a.npz")) == "a.npz has 2 images and 1 labels; the numbers must be equal"
    np.savez("a.npz", images=random_pixels(1, 4, 4) / 255, labels=[1])
    assert message(images("a.npz")).startswith("a.npz: images are float64 [1, 4, 4] in C order, not uint8")
    np.savez("a.npz", images=np.asfortranarray(random_pixels(2, 4, 4)), labels=[1, 2])
    assert "in Fortran order" in message(images("a.npz"))
    np.savez("a.npz", images=random_pixels(1, 4, 4, 5), labels=[1])
    assert "has no axis of 1 or 3 channels" in message(images("a.npz"))
    (folder / "b.npz").write_bytes((folder / "a.npz").read_bytes()[:-40])
    assert message(images("b.npz")).startswith("b.npz is not a zip archive, or is truncated")


def test_npz_is_never_unpickled():
    np.savez("a.npz", images=random_pixels(1, 4, 4), labels=np.array([{"a": 1}], dtype=object))
    assert message(images("a.npz")) == "a.npz: labels are object, not numbers or texts"
    with zipfile.ZipFile("b.npz", "w") as archive:
        archive.writestr("images.npy", b"no array")
        archive.writestr("labels.npy", b"no array")
    assert message(images("b.npz")).startswith("b.npz cannot be read: ")


def test_a_folder_for_each_class(folder):
    image = pytest.importorskip("PIL.Image")
    colour, grey = random_pixels(4, 5, 3), random_pixels(6, 3)
    for name in ("10", "2", ".hidden"):
        (folder / "d" / name).mkdir(parents=True)
    image.fromarray(colour).save(folder / "d/10/b.png")
    image.fromarray(grey).save(folder / "d/10/a.PNG")
    image.fromarray(colour).convert("P").save(folder / "d/2/p.png")
    image.fromarray(colour).convert("RGBA").save(folder / "d/2/q.png")
    image.fromarray(colour).save(folder / "d/2/r.jpg")
    (folder / "d/2/notes.txt").write_text("not an image")
    (folder / "d/readme.md").write_text("not a class")
    found = list(images("d"))
    assert [(p.where, p.label) for p in found] == [
        ("d/2/p.png", "2"),
        ("d/2/q.png", "2"),
        ("d/2/r.jpg", "2"),
        ("d/10/a.PNG", "10"),
        ("d/10/b.png", "10"),
    ]
    same(
        [found[3], found[4], found[1]],
        [grey[None], colour.transpose(2, 0, 1), colour.transpose(2, 0, 1)],
        ["10", "10", "2"],
    )
    assert [p.pixels.shape for p in found[:3]] == [(3, 4, 5)] * 3


def test_images_that_cannot_be_read(folder):
    image = pytest.importorskip("PIL.Image")
    (folder / "d/a").mkdir(parents=True)
    image.fromarray(random_pixels(40, 40, 3)).save(folder / "d/a/1.png")
    (folder / "d/a/2.png").write_bytes((folder / "d/a/1.png").read_bytes()[:900])
    (folder / "d/a/3.jpg").write_text("no image")
    image.fromarray(np.full((4, 4), 4000, np.uint16)).save(folder / "d/a/4.png")
    assert message(images("d")).startswith("d/a/2.png: not an image that can be read: ")
    skipped = BadRows()
    assert len(list(images("d", bad="skip", skipped=skipped))) == 1
    assert skipped.count == 3
    assert "more than 8 bits per channel" in skipped.reasons[2]


def test_a_folder_without_classes_and_without_the_package(folder, monkeypatch):
    reason = "contains no folders; put the images of each class into a folder of its own"
    assert message(images(folder)) == f"{folder} {reason}"
    (folder / "d/a").mkdir(parents=True)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    assert message(images("d")) == "reading the images of d needs the package PIL: pip install pillow"
