"""Read the public data sets and pack them for defaults.py."""

from __future__ import annotations

import csv
import gzip
import io
import shutil
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

from defaults_cells import DATA_SETS, Row, packed_file, shuffled, uneven, with_every_class, write_packed
from finetune_files import minilm_folder

from qkv.data.labelled import classified, rated
from qkv.data.questions import questions
from qkv.data.tagged import tagged

MOST, MOST_TEST = 20_000, 2000
MOST_REVIEWS, MOST_TEST_REVIEWS = 4000, 1000  # long texts
RATIO = {"1": 20, "0": 1}  # of SST's classes in sst2-uneven
RATIOS = {"World": 20, "Sports": 10, "Business": 4, "Sci/Tech": 1}
NEWS = ("World", "Sports", "Business", "Sci/Tech")
GROUPS = ("text", "translation", "minilm")
Parts = tuple[list[Row], list[Row]]


def text_rows(path: Path, **columns: str | int | None) -> list[Row]:
    """Read a text or a pair and its class, whatever the columns are called."""
    found = classified([str(path)], **columns)  # type: ignore[arg-type]
    return [_row(example.text, example.second, example.labels[0]) for example in found]


def _row(text: str, second: str | None, label: str | float) -> Row:
    return {"text": text} | ({} if second is None else {"second": second}) | {"label": label}


def sst(data: Path, kind: str) -> Parts:
    train, test = (
        text_rows(data / f"sst/stsa.{kind}.{part}.gz", text=None, label=None, format="label-first")
        for part in ("train", "test")
    )
    return shuffled(train, kind), shuffled(test, kind)


def sst_uneven(data: Path) -> Parts:
    """Make SST 20 to 1; the dev set joins the test set, which would have only 45 examples of the rare class."""
    train, test = sst(data, "binary")
    dev = text_rows(data / "sst/stsa.binary.dev.gz", text=None, label=None, format="label-first")
    return uneven(train, RATIO), uneven(shuffled(test + dev, "uneven"), RATIO)


def news(data: Path) -> Parts:
    with gzip.open(data / "ag-news/test.csv.gz", "rt", encoding="utf-8", newline="") as file:
        rows = [_row(f"{title} {text}", None, NEWS[int(number) - 1]) for number, title, text in csv.reader(file)]
    return cut(shuffled(rows, "news"), MOST_TEST)


def news_uneven(data: Path) -> Parts:
    train, test = news(data)
    rows = uneven(train + test, RATIOS)
    return cut(shuffled(rows, "uneven"), len(rows) // 3)


def cut(rows: list[Row], test: int) -> Parts:
    """Use the last rows as the test set."""
    return rows[:-test], rows[-test:]


def imdb(data: Path) -> Parts:
    parts = []
    for part in ("train", "test"):
        with gzip.open(data / f"imdb/{part}.tsv.gz", "rt", encoding="utf-8") as lines:
            next(lines)
            cells = [line.rstrip("\n").split("\t", 3) for line in lines]
        rows = [{"text": text, "label": label, "stars": int(stars)} for label, stars, _, text in cells]
        parts.append(shuffled(rows, "imdb"))
    return parts[0][:MOST_REVIEWS], parts[1][:MOST_TEST_REVIEWS]


def glue(data: Path, name: str, test: str, **columns: str | int | None) -> Parts:
    folder = data / "glue" / name
    train, asked = (text_rows(folder / file, **columns) for file in ("train.tsv.gz", test))
    return shuffled(train, name), shuffled(asked, name)


def qnli(data: Path) -> Parts:
    """Split QNLI's dev set; its training file is not there. Questions about one sentence stay together."""
    rows = text_rows(data / "glue/QNLI/dev.tsv.gz", text="question", second="sentence", label="label")
    return cut(shuffled(rows, "qnli", "second"), 1000)


def sts_b(data: Path) -> Parts:
    folder, parts = data / "glue/STS-B", []
    named = {"text": "sentence1", "second": "sentence2", "label": "score"}
    numbered = {"text": 5, "second": 6, "label": 4, "header": False}
    for file, columns in (("train.tsv.gz", named), ("sts-test.labelled.tsv.gz", numbered)):
        found = rated([str(folder / file)], **columns)  # type: ignore[arg-type]
        parts.append(shuffled([_row(e.text, e.second, e.score) for e in found], "sts-b"))
    return parts[0], parts[1]


def conll(data: Path) -> Parts:
    parts = []
    for file in ("eng.train.gz", "eng.testb.gz"):
        path = str(data / "conll2003" / file)
        both = zip(tagged([path], tag=3), tagged([path], tag=1), strict=True)
        rows = [{"tokens": e.words, "entities": e.tags, "parts": p.tags} for e, p in both]
        parts.append(shuffled(rows, "conll"))
    return parts[0], parts[1]


def squad(data: Path) -> Parts:
    folder = data / "squad"
    shifts = [f"{folder}/squadshifts/{name}_v1.0.json.gz" for name in ("new_wiki", "amazon_reviews")]
    asked = [f"{folder}/dev-v1.1.rebuilt.json.gz"]
    train, test = (shuffled(_questions(paths), "squad", "context") for paths in (shifts, asked))
    return train, test


def _questions(paths: list[str]) -> list[Row]:
    rows = []
    for q in questions(paths, bad="skip"):
        answers = {"text": [a.text for a in q.answers], "answer_start": [a.start for a in q.answers]}
        rows.append({"id": q.id, "question": q.question, "context": q.context, "answers": answers})
    return rows


def multi30k(data: Path) -> Parts:
    parts = []
    for part in ("train", "test_2016_flickr"):
        sides = []
        for language in ("en", "de"):
            with gzip.open(data / f"multi30k/{part}.{language}.gz", "rt", encoding="utf-8") as lines:
                sides.append([line.strip() for line in lines])
        parts.append([{"en": en, "de": de} for en, de in zip(*sides, strict=True)])
    return shuffled(parts[0], "multi30k"), parts[1]


def tatoeba(data: Path, file: str, member: str, language: str) -> Parts:
    """Split by English sentence: no test source occurs in training, and each test source occurs once."""
    with zipfile.ZipFile(data / "tatoeba" / file) as archive:
        lines = io.TextIOWrapper(archive.open(member), "utf-8").read().splitlines()
    cells = (line.split("\t") for line in lines)
    rows = shuffled([{"en": english, language: other} for english, other, *_ in cells], member, "en")
    end = len(rows) - MOST_TEST
    train = [row for row in rows[:end] if row["en"] != rows[end]["en"]]
    test = {row["en"]: row for row in reversed(rows[end:])}
    return train, list(reversed(test.values()))


SOURCES: dict[str, Callable[[Path], Parts]] = {
    "sst2": lambda data: sst(data, "binary"),
    "sst5": lambda data: sst(data, "fine"),
    "cola": lambda data: glue(data, "CoLA", "dev.tsv.gz", text=3, label=1, header=False),
    "ag-news": news,
    "imdb": imdb,
    "sst2-uneven": sst_uneven,
    "ag-news-uneven": news_uneven,
    "mrpc": lambda data: glue(
        data, "MRPC", "msr_paraphrase_test.txt.gz", text="#1 String", second="#2 String", label="Quality", format="tsv"
    ),
    "rte": lambda data: glue(data, "RTE", "dev.tsv.gz", text="sentence1", second="sentence2", label="label"),
    "qnli": qnli,
    "sts-b": sts_b,
    "conll2003": conll,
    "squad": squad,
    "multi30k": multi30k,
    "tatoeba-en-de": lambda data: tatoeba(data, "deu-eng-2018-04.zip", "deu.txt", "de"),
    "tatoeba-en-fr": lambda data: tatoeba(data, "fra-eng-2017-09.zip", "fra.txt", "fr"),
}


def pack(data: Path, out: Path, groups: Iterable[str], minilm: Path | None) -> None:
    """Write the files of each group into its folder and print their sizes."""
    for group in groups:
        if group == "minilm":
            pack_model(minilm_folder(minilm), out / group)
        for source, first in {one.source: one for one in reversed(DATA_SETS.values()) if one.group == group}.items():
            train, test = SOURCES[source](data)
            if first.recipe == "classify":
                train = with_every_class(train)
            most = None if group == "translation" else MOST
            for part, rows in (("train", train[:most]), ("test", test[:MOST_TEST])):
                file = packed_file(out, first, part)
                write_packed(file, rows)
                print(f"{file}: {len(rows):,} rows, {file.stat().st_size / 1e6:.2f} MB")
        total = sum(file.stat().st_size for file in (out / group).rglob("*") if file.is_file())
        print(f"{out / group}: {total / 1e6:.1f} MB")


def pack_model(folder: Path, out: Path) -> None:
    """Copy a model folder with its weights rounded to float16."""
    from qkv.checkpoints.folder import read_folder, write_folder

    shutil.rmtree(out, ignore_errors=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_folder(read_folder(folder), out, dtype="float16")
