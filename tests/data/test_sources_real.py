"""Real files beside the repository, where they are: the counts of their README."""

from collections import Counter
from pathlib import Path

import pytest

from qkv.data.images import images
from qkv.data.iob import spans_of
from qkv.data.labelled import classified, find_columns, rated
from qkv.data.parallel import parallel
from qkv.data.questions import questions
from qkv.data.tagged import tagged

DATA = Path(__file__).parents[2] / "../shared/data"


@pytest.fixture
def data():
    if not DATA.is_dir():
        pytest.skip(f"the public data sets are not at {DATA}")
    return DATA


def test_conll2003(data):
    sentences = list(tagged(data / "conll2003/eng.testb.gz"))
    assert (len(sentences), sum(len(sentence.words) for sentence in sentences)) == (3453, 46435)
    names = Counter(label for sentence in sentences for label, _, _ in spans_of(sentence.tags))
    # Table 2 of Tjong Kim Sang and De Meulder 2003.
    assert names == {"LOC": 1668, "ORG": 1661, "PER": 1617, "MISC": 702}


def test_squad(data):
    found = list(questions(data / "squad/dev-v1.1.rebuilt.json.gz"))
    assert (len(found), sum(len(question.answers) for question in found)) == (10570, 34726)
    assert all(q.context.startswith(a.text, a.start) for q in found for a in q.answers)


def test_mnist(data):
    counts = Counter(picture.label for picture in images(data / "mnist/t10k-images-idx3-ubyte.gz"))
    assert sum(counts.values()) == 10_000
    assert len(counts) == 10


def test_sst(data):
    sizes = [
        sum(1 for _ in classified(data / f"sst/stsa.{kind}.{part}.gz", format="label-first"))
        for kind in ("binary", "fine")
        for part in ("dev", "test")
    ]
    assert sizes == [872, 1821, 1101, 2210]


def test_multi30k(data):
    assert sum(1 for _ in parallel([data / "multi30k/val.en.gz", data / "multi30k/val.de.gz"])) == 1014


def test_glue(data):
    assert str(find_columns(data / "glue/RTE/dev.tsv.gz")).startswith("text 'sentence1', second text 'sentence2'")
    assert sum(1 for _ in classified(data / "glue/MRPC/dev.tsv.gz", text=None, label=None)) == 408
    assert sum(1 for _ in rated(data / "glue/STS-B/dev.tsv.gz", text=None, label=None)) == 1500


def test_ag_news(data):
    counts = Counter(c.labels for c in classified(data / "ag-news/test.csv.gz", label="#0", text="#1", second="#2"))
    assert set(counts.values()) == {1900}
