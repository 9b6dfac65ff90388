"""Data sets of the hub, with a stand-in for the package `datasets`, and with the package where it is installed."""

import sys
import types

import numpy as np
import pytest

from qkv.common.errors import QkvError
from qkv.data.bad_rows import BadRows
from qkv.data.documents import documents
from qkv.data.examples import Answer, Classified, Document, Parallel, Tagged
from qkv.data.images import images
from qkv.data.labelled import classified
from qkv.data.parallel import parallel
from qkv.data.questions import questions
from qkv.data.tagged import tagged


class ClassLabel:
    def __init__(self, names):
        self.names = names

    def int2str(self, number):
        return self.names[number]


class Listed:
    def __init__(self, feature):
        self.feature = feature


class Data(list):
    def __init__(self, rows, **features):
        super().__init__(rows)
        self.features = {key: features.get(key) for row in rows for key in row}


class Grey:
    mode = "L"
    width, height = 3, 2

    def convert(self, mode):
        return np.full((2, 3), 7, np.uint8)


SETS = {
    ("imdb", None, "train"): Data(
        [{"text": "good", "label": 1}, {"text": "bad", "label": 0}, {"text": "?", "label": -1}],
        label=ClassLabel(["neg", "pos"]),
    ),
    ("owner/imdb", None, "test"): Data([{"text": "x", "label": "a"}]),
    ("glue", "rte", "train[:5%]"): Data([{"text": "y", "label": "b"}]),
    ("owner/glue", "rte", "train"): Data([{"text": "z", "label": "c"}]),
    ("wmt", "de-en", "train"): Data([{"translation": {"de": "eins", "en": "one"}}]),
    ("conll", None, "train"): Data(
        [{"tokens": ["Ada", "ran"], "pos_tags": ["N", "V"], "ner_tags": [1, 0]}, {"tokens": ["a"], "ner_tags": []}],
        ner_tags=Listed(ClassLabel(["O", "B-PER"])),
    ),
    ("squad", None, "train"): Data(
        [{"id": "1", "question": "Who?", "context": "Ada ran", "answers": {"text": ["Ada"], "answer_start": [0]}}]
    ),
    ("mnist", None, "train"): Data(
        [{"image": Grey(), "label": 1}, {"image": None, "label": 1}], label=ClassLabel(["zero", "one"])
    ),
}


@pytest.fixture
def hub(monkeypatch):
    def load_dataset(name, config=None, *, split):
        if (name, config, split) not in SETS:
            raise FileNotFoundError(f"no {name},\n {config}")
        return SETS[name, config, split]

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))


@pytest.mark.usefixtures("hub")
def test_numbers_of_classes_become_names():
    skipped = BadRows()
    assert list(classified("hf:imdb", bad="skip", skipped=skipped)) == [
        Classified("good", None, ("pos",), "hf:imdb:train:1"),
        Classified("bad", None, ("neg",), "hf:imdb:train:2"),
    ]
    assert skipped.reasons == ["hf:imdb:train:3: the label is empty"]


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize(
    ("path", "text"), [("hf:owner/imdb:test", "x"), ("hf:glue/rte:train[:5%]", "y"), ("hf:owner/glue/rte", "z")]
)
def test_names_configs_and_splits(path, text):
    assert next(classified(path)).text == text


@pytest.mark.usefixtures("hub")
def test_what_is_not_there_is_one_sentence():
    with pytest.raises(QkvError) as caught:
        list(classified("hf:nope"))
    assert str(caught.value) == "hf:nope cannot be loaded: no nope, None"


@pytest.mark.usefixtures("hub")
def test_every_other_source():
    assert next(documents("hf:imdb")) == Document("good", "hf:imdb:train:1")
    assert list(parallel("hf:wmt/de-en", columns=("en", "de"))) == [Parallel("one", "eins", "hf:wmt/de-en:train:1")]
    skipped = BadRows()
    expected = [Tagged(("Ada", "ran"), ("B-PER", "O"), "hf:conll:train:1")]
    assert list(tagged("hf:conll", bad="skip", skipped=skipped)) == expected
    assert skipped.reasons == ["hf:conll:train:2: 1 words, but 0 tags"]
    assert next(tagged("hf:conll", tag="pos_tags", bad="skip")).tags == ("N", "V")
    assert next(questions("hf:squad")).answers == (Answer("Ada", 0),)
    (picture,) = images("hf:mnist", bad="skip")
    assert picture.label == "one"
    assert picture.pixels.shape == (1, 2, 3)


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(QkvError) as caught:
        list(classified("hf:imdb"))
    assert str(caught.value) == "reading hf:imdb needs the package datasets: pip install 'qkv[hub]'"


def test_the_package_itself(monkeypatch):
    datasets = pytest.importorskip("datasets")
    names = datasets.ClassLabel(names=["O", "B-PER"])
    features = datasets.Features(
        text=datasets.Value("string"),
        label=names,
        tokens=datasets.Sequence(datasets.Value("string")),
        ner_tags=datasets.Sequence(names),
        translation=datasets.Translation(languages=["de", "en"]),
    )
    row = {"text": "t", "label": 1, "tokens": ["a"], "ner_tags": [1], "translation": {"de": "x", "en": "y"}}
    table = pytest.importorskip("pyarrow").Table.from_pylist([row], schema=features.arrow_schema)
    data = datasets.Dataset(table, datasets.DatasetInfo(features=features), fingerprint="a row")
    monkeypatch.setattr(datasets, "load_dataset", lambda name, split: data)
    assert next(classified("hf:some")).labels == ("B-PER",)
    assert next(tagged("hf:some")).tags == ("B-PER",)
    assert next(parallel("hf:some", columns=("en", "de"))) == Parallel("y", "x", "hf:some:train:1")
