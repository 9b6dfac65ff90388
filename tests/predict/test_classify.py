"""Labels of texts: one, any number, or a number."""

import json
import shutil
from dataclasses import replace

import pytest
import torch

import qkv
from qkv.checkpoints.folder import read_folder, write_folder
from qkv.common.errors import QkvError, UsageError
from qkv.predict import Label

from .readers import make_reader

LABELS = ("animal", "food", "place")
TEXTS = ["the cat sat", "a naïve café owner paid", "", "dogs play in the snow", "the cat sat"]


def one(**changes):
    return make_reader("pool", "classify", labels=LABELS, **changes)


def several(**changes):
    return one(multi_label=True, **changes)


def scores_of(model, texts, pairs=None):
    encoded = model.tokenizer.encode(texts, pairs)
    return torch.stack(model.logits(encoded.ids, segments=encoded.segments))


def test_the_likeliest_label_and_its_probability():
    found, wanted = one().classify(TEXTS), scores_of(one(), TEXTS).softmax(-1)
    assert [label.label for label in found] == [LABELS[i] for i in wanted.argmax(-1).tolist()]
    assert len({label.label for label in found}) > 1
    assert [label.score for label in found] == pytest.approx(wanted.max(-1).values.tolist())


def test_every_label_in_order():
    for model, chances in ((one(), torch.nn.Softmax(-1)), (several(), torch.nn.Sigmoid())):
        wanted = chances(scores_of(model, TEXTS)).tolist()
        for row, found in zip(wanted, model.classify(TEXTS, every=True), strict=True):
            assert {label.label: label.score for label in found} == pytest.approx(dict(zip(LABELS, row, strict=True)))
            assert [label.score for label in found] == sorted(row, reverse=True) or len(set(row)) == 3


def test_any_number_of_labels_above_the_threshold():
    wanted = scores_of(several(), TEXTS).sigmoid()
    for threshold in (None, 0.0, 0.2, 0.9, 1.0):
        limit = 0.5 if threshold is None else threshold
        found = several().classify(TEXTS, threshold=threshold)
        names = [{LABELS[i] for i in range(3) if row[i] > limit} for row in wanted.tolist()]
        assert [{label.label for label in labels} for labels in found] == names
    assert several(threshold=0.9).classify(TEXTS) == several().classify(TEXTS, threshold=0.9)
    assert several(threshold=0.9).classify(TEXTS) != several().classify(TEXTS)


def test_the_threshold_travels_with_the_folder(tmp_path):
    several(threshold=0.9).save(tmp_path / "model")
    assert json.loads((tmp_path / "model" / "config.json").read_text())["threshold"] == 0.9
    again = qkv.load(tmp_path / "model", device="cpu")
    assert again.threshold == 0.9
    assert again.classify(TEXTS) == several(threshold=0.9).classify(TEXTS)
    write_folder(replace(read_folder(tmp_path / "model"), multi_label=False), tmp_path / "one")
    assert "threshold" not in json.loads((tmp_path / "one" / "config.json").read_text())


@pytest.mark.parametrize("bad", [1.5, -0.1, "half", None])
def test_a_threshold_that_cannot_be_is_damage(tmp_path, bad):
    several().save(tmp_path / "model")
    file = tmp_path / "model" / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"threshold": bad}))
    with pytest.raises(QkvError, match="threshold must be from 0 to 1"):
        read_folder(tmp_path / "model", verify=False)


def test_the_longest_text_travels_with_the_folder(tmp_path):
    one().save(tmp_path / "model")
    shutil.copytree(tmp_path / "model", tmp_path / "short")
    file = tmp_path / "short" / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"model_max_length": 5}))
    model = qkv.load(tmp_path / "short", device="cpu", verify=False)
    with pytest.warns(UserWarning, match="1 of 1 texts were cut to 5 tokens"):
        found = model.classify(["the cat sat on the mat"])
    assert found != qkv.load(tmp_path / "model", device="cpu").classify(["the cat sat on the mat"])


def test_a_number():
    model = make_reader("pool", "regress")
    assert model.classify(TEXTS) == pytest.approx(scores_of(model, TEXTS).tolist())
    assert all(isinstance(number, float) for number in model.classify(TEXTS))
    for options in ({"every": True}, {"threshold": 0.5}):
        with pytest.raises(UsageError, match="predicts a number for each text"):
            model.classify(TEXTS, **options)


def test_pairs():
    pairs = TEXTS[::-1]
    wanted = scores_of(one(), TEXTS, pairs).softmax(-1).max(-1).values.tolist()
    assert [label.score for label in one().classify(TEXTS, pairs)] == pytest.approx(wanted)
    assert one().classify(TEXTS, pairs) != one().classify(TEXTS)
    with pytest.raises(UsageError, match="one second text for each first"):
        one().classify(TEXTS, pairs[1:])


def test_names_that_nobody_gave_are_those_of_transformers():
    model = make_reader("pool", "classify")
    assert {label.label for label in model.classify(TEXTS, every=True)[0]} == {"LABEL_0", "LABEL_1"}


def test_nothing_and_what_is_no_text():
    assert one().classify([]) == []
    assert one().classify(["caf\udce9"])[0] == one().classify(["caf\ufffd"])[0]
    assert isinstance(one().classify([""])[0], Label)


@pytest.mark.parametrize(
    ("make", "options", "said"),
    [
        (one, {"threshold": 0.5}, "this model gives one label, the most likely one: leave out the threshold"),
        (several, {"threshold": 0.5, "every": True}, "you asked for all labels: leave out the threshold"),
        (several, {"threshold": 1.5}, "between 0 and 1, got 1.5"),
    ],
)
def test_wrong_use(make, options, said):
    with pytest.raises(UsageError, match=said):
        make().classify(TEXTS, **options)


def test_models_without_the_head_say_what_they_can():
    with pytest.raises(UsageError, match="put a single one in a list"):
        one().classify("the cat")
    for heads, said in ((("mlm", "span"), "answer, fill, embed, similar"), (("pool",), r"\(it can embed, similar\)")):
        with pytest.raises(UsageError, match=f"this bert cannot classify: .*{said}"):
            make_reader(*heads).classify(["the cat"])
    with pytest.raises(UsageError, match="this gpt has no tokenizer, and classify reads text"):
        qkv.build("gpt2", device="cpu", vocab_size=9, dim=8, num_layers=1, num_heads=1, ff_dim=8).classify(["x"])
    assert one().verbs == ["classify", "embed", "similar"]


def test_what_translators_can(transformer):
    assert transformer.verbs == ["translate", "embed", "similar"]


def test_the_most_likely_labels_of_a_text():
    model = make_reader("classify", labels=("bad", "good", "so"))
    (every,) = model.classify(["a dog"], every=True)
    assert model.classify(["a dog"], top=2) == [every[:2]]
    assert model.classify(["a dog"], top=9) == [every]
    with pytest.raises(UsageError, match="you asked for 2 labels: leave out the threshold"):
        model.classify(["a dog"], top=2, threshold=0.5)
