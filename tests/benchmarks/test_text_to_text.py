"""benchmarks/text_to_text.py: the table, and every part at tiny size."""

import bz2
import gzip
import json
import random
import sys
import zipfile
from pathlib import Path

import pytest
import text_to_text
from text_to_text import SCORES, german, main, table

TINY = ["dim=16", "num_layers=1", "num_decoder_layers=1", "num_heads=1", "head_dim=16", "ff_dim=16"]


def scored(start: str, rate: float, seed: int, value: float) -> dict[str, object]:
    return {"start": start, "rate": rate, "seed": seed, "valid": value, "scores": dict.fromkeys(SCORES, value)}


def test_a_row_is_the_mean_over_seeds_of_one_start_and_rate() -> None:
    found = [scored("pretrained", 1e-3, 1, 0.8), scored("random", 1e-3, 1, 0.5), scored("pretrained", 1e-3, 2, 0.7)]
    head, _, first, second = table(found).splitlines()
    names, cells, others = ([cell.strip() for cell in line.strip("|").split("|")] for line in (head, first, second))
    row, other = dict(zip(names, cells, strict=True)), dict(zip(names, others, strict=True))
    assert (row["weights"], row["rate"], row["sst2/accuracy"]) == ("pretrained", "0.001", "75.0 ± 5.0")
    assert (row["en-de/BLEU"], row["validation"]) == ("0.8 ± 0.1", "75.0 ± 5.0")  # BLEU is from 0 to 100 already
    assert (other["weights"], other["stsb/spearman"]) == ("random", "50.0")


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data, draw = tmp_path_factory.mktemp("data"), random.Random(1)
    for name in ("english-novels", "wiki-enwik8-clean", "tatoeba", "multi30k", *map("glue/{}".format, GLUE)):
        (data / name).mkdir(parents=True)
    words = [f"{draw.choice('bcdfgk')}{draw.choice('aeiou')}{draw.choice('lmnrst')}" for _ in range(60)]

    def line() -> str:
        return " ".join(draw.choices(words, k=6))

    with zipfile.ZipFile(data / "english-novels/100_english_novels.zip", "w") as archive:
        archive.writestr("a.txt", "\n\n".join(line() for _ in range(300)))
    with bz2.open(data / "wiki-enwik8-clean/wiki.txt.bz2", "wt") as file:
        file.write("\n\n".join(line() for _ in range(30)))
    with zipfile.ZipFile(data / "tatoeba/deu-eng-2018-04.zip", "w") as archive:
        archive.writestr("deu.txt", "".join(f"{line()}\tDas {n} ist schön.\n" for n in range(120)))
    for part in ("train", "dev"):
        for name, (head, row) in GLUE.items():
            text = head + "".join(row.format(line(), line(), n % 2) for n in range(60))
            (data / f"glue/{name}/{part}.tsv.gz").write_bytes(gzip.compress(text.encode()))
    for part in ("train", "test_2016_flickr"):
        for side in ("en", "de"):
            text = "".join(f"{line()} {side}\n" for _ in range(60))
            (data / f"multi30k/{part}.{side}.gz").write_bytes(gzip.compress(text.encode()))
    return data


GLUE = {
    "CoLA": ("", "g\t{2}\t\t{0}\n"),
    "SST-2": ("sentence\tlabel\n", "{0}\t{2}\n"),
    "STS-B": ("index\tsentence1\tsentence2\tscore\n", "7\t{0}\t{1}\t{2}.5\n"),
}


def test_german_documents_hold_every_sentence_once(corpora: Path) -> None:
    found = [line for _, document in german(corpora) for line in document.splitlines()]
    assert sorted(found) == sorted(f"Das {n} ist schön." for n in range(120))


@pytest.mark.slow
def test_every_part_runs(corpora: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(text_to_text.__file__).parent), prepend=":")
    out, both = tmp_path / "scores.json", ["--work", str(tmp_path / "work")]
    small = [*both, "--size", *TINY, "--workers", "1", "--timed", "20"]
    tuning = ["--rates", "1e-3", "--jobs", "1", "--steps", "2", "--set", "train.tokens=256", "--out", str(out)]
    for part, given in {
        "text": ["--data", str(corpora), *both, "--vocab-size", "320"],
        "pretrain": [*small, "--seconds", "0.2", "--tokens", "256"],
        "tune": ["--data", str(corpora), *small, *tuning],
    }.items():
        monkeypatch.setattr(sys, "argv", ["text_to_text.py", part, *given])
        main()
    found = json.loads(out.read_text())
    assert [(one["start"], one["steps"]) for one in found] == [("pretrained", 2), ("random", 2)]
    assert all(set(SCORES) <= set(one["scores"]) for one in found)
    assert json.loads((tmp_path / "work/pretrain.json").read_text()) >= 1
