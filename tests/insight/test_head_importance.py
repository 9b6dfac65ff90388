import pytest
import torch

import qkv
from qkv.common.batch import Labelled, Tokens
from qkv.exams.importance import loss_on
from qkv.insight.agreement import agreement
from qkv.insight.head_importance import ablation_importance, gradient_importance
from qkv.insight.sites import sites
from qkv.models import catalogue
from qkv.nn.gates import gated
from qkv.objectives.classify import Classify
from tests.contracts.entries import make, shrink
from tests.predict.conftest import make_translator
from tests.predict.readers import NER, make_reader

IDS = [[2, 5, 6, 7, 12, 3], [2, 11, 8, 3], [2, 9, 3]]
LABELS = [1, 0, 1]


@pytest.fixture
def classifier():
    config = shrink(catalogue.preset("bert-base"), heads=["classify"])
    model = make(config).eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    return model


def loss_of(model):
    def loss(batch):
        found = Classify()(model, batch)["classify"]
        return found.total, int(found.count)

    return loss


def batches():
    return [
        Labelled(Tokens.of(IDS[:2]), torch.tensor(LABELS[:2])), Labelled(Tokens.of(IDS[2:]), torch.tensor(LABELS[2:]))
    ]  # fmt: skip


def test_gradients_are_the_slopes_of_each_example(classifier):
    found = gradient_importance(classifier, batches(), loss_of(classifier))["self"]
    assert found.shape == (classifier.stack.depth, sites(classifier)[0].heads)
    step = 1e-2
    for site in sites(classifier):
        for head in range(site.heads):
            slopes = []
            for ids, label in zip(IDS, LABELS, strict=True):
                ends = []
                for change in (step, -step):
                    gate = torch.ones(1, site.heads)
                    gate[0, head] += change
                    with gated({(site.attention, site.layer): gate}), torch.no_grad():
                        batch = Labelled(Tokens.of([ids]), torch.tensor([label]))
                        ends.append(float(loss_of(classifier)(batch)[0]))
                slopes.append(abs(ends[0] - ends[1]) / (2 * step))
            assert float(found[site.layer, head]) == pytest.approx(sum(slopes) / 3, abs=2e-3)


def test_ablation_is_the_loss_of_transformers_without_the_head(tmp_path):
    transformers = pytest.importorskip("transformers")
    model = make_reader("pool", "classify", labels=("bad", "good"))
    model.save(tmp_path)
    texts, labels = ["the cat sat on the mat", "a dog", "two dogs run"], [1, 0, 1]
    ids = model.encode(texts).ids
    given = [Labelled(Tokens.of(ids), torch.tensor(labels))]
    found = ablation_importance(model.module, given, loss_of(model.module))["self"]
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()

    def mean():
        with torch.no_grad():
            rows = [
                (theirs(torch.tensor([row])).logits, torch.tensor([label]))
                for row, label in zip(ids, labels, strict=True)
            ]
        return sum(float(torch.nn.functional.cross_entropy(*row)) for row in rows) / len(rows)

    whole = mean()
    for layer in range(2):
        weight = theirs.bert.encoder.layer[layer].attention.output.dense.weight
        for head in range(2):
            before = weight.detach().clone()
            with torch.no_grad():
                weight[:, 8 * head : 8 * head + 8] = 0.0
            assert float(found[layer, head]) == pytest.approx(mean() - whole, abs=1e-4)
            with torch.no_grad():
                weight.copy_(before)


def write_table(path, rows=24):
    path.write_text("text,label\n" + "".join(f"the dog {'ran' if i % 2 else 'sat'} {i},{i % 2}\n" for i in range(rows)))
    return path


def test_importance_on_a_file(tmp_path):
    model = make_reader("pool", "classify", labels=("0", "1"))
    model.save(tmp_path / "model")
    loaded = qkv.load(tmp_path / "model", device="cpu")
    before = loaded.logits([[2, 5, 6, 3]])[0]
    found = loaded.head_importance(write_table(tmp_path / "t.csv"))
    assert found.examples == 24
    assert found.gradient["self"].shape == found.ablation["self"].shape == (2, 2)
    assert float(found.gradient["self"].min()) > 0
    assert -1 <= found.agreement <= 1
    assert torch.equal(loaded.logits([[2, 5, 6, 3]])[0], before)
    fast = loaded.head_importance(tmp_path / "t.csv", ablation=False, examples=5)
    assert (fast.examples, fast.ablation, fast.agreement) == (5, None, None)
    assert set(fast.to_dict()) == {"gradient", "ablation", "agreement", "examples"}


def test_the_loss_of_a_model_that_predicts_a_number_is_its_squared_error(tmp_path):
    model = make_reader("pool", "regress")
    model.save(tmp_path / "model")
    rows = [("the dog", 3.5), ("the cat sat", 1.0), ("a mat", 2.0)]
    (tmp_path / "t.csv").write_text("text,score\n" + "".join(f"{text},{number}\n" for text, number in rows))
    loaded = qkv.load(tmp_path / "model", device="cpu")
    loss, found, count = loss_on(loaded, [str(tmp_path / "t.csv")], None, 9)
    said = loaded.classify([text for text, _ in rows])
    wanted = sum((one - number) ** 2 for one, (_, number) in zip(said, rows, strict=True))
    with torch.no_grad():
        total = sum(float(loss(loaded.module, batch)[0]) for batch in found)
    assert total == pytest.approx(wanted, rel=1e-4)
    assert count == 3
    assert loaded.head_importance(tmp_path / "t.csv").gradient["self"].shape == (2, 2)


def test_importance_of_a_tagger_a_filler_and_a_translator(tmp_path):
    (tmp_path / "t.conll").write_text("Ada B-PER\nran O\n\nthe O\ndog O\n")
    (tmp_path / "t.txt").write_text("the dog ran home\n" * 40)
    (tmp_path / "a.en").write_text("the dog\nthe cat\n")
    (tmp_path / "a.fr").write_text("le chien\nle chat\n")
    tagger = qkv.load(_saved(make_reader("tag", labels=NER), tmp_path / "tagger"), device="cpu")
    assert tagger.head_importance(tmp_path / "t.conll").gradient["self"].shape == (2, 2)
    filler = qkv.load(_saved(make_reader("mlm"), tmp_path / "filler"), device="cpu")
    found = filler.head_importance(tmp_path / "t.txt", unit="line", max_length=16, ablation=False)
    assert found.gradient["self"].shape == (2, 2)
    translator = qkv.load(_saved(make_translator("transformer-tiny"), tmp_path / "translator"), device="cpu")
    found = translator.head_importance(tmp_path / "a.en", tmp_path / "a.fr")
    assert {kind: tuple(one.shape) for kind, one in found.ablation.items()} == dict.fromkeys(
        ("encoder", "decoder", "cross"), (2, 2)
    )


def _saved(model, folder):
    model.save(folder)
    return folder


def test_bad_input(tmp_path, bert_folder):
    model = make_reader("pool", "classify", labels=("0", "1"))
    model.save(tmp_path / "model")
    loaded = qkv.load(tmp_path / "model", device="cpu")
    table = write_table(tmp_path / "t.csv")
    with pytest.raises(qkv.UsageError, match="examples must be at least 1"):
        loaded.head_importance(table, examples=0)
    with pytest.raises(qkv.UsageError, match="head_importance needs a file"):
        loaded.head_importance()
    with pytest.raises(qkv.QkvError, match="missing"):
        loaded.head_importance(tmp_path / "missing.csv")


def test_agreement_is_a_rank_correlation():
    assert agreement([1, 2, 3, 4], [10, 20, 30, 400]) == pytest.approx(1.0)
    assert agreement([1, 2, 3], [3, 2, 1]) == pytest.approx(-1.0)
    assert agreement([1, 2], [1, 2]) is None
    assert agreement([1, 1, 1], [1, 2, 3]) is None
