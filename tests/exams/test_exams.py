"""`qkv evaluate` for images, with bad rows, and with a beam; classes that are none or too many, in training too."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sacrebleu.metrics.bleu import BLEU
from sklearn.metrics import accuracy_score, f1_score
from typer.testing import CliRunner

import qkv
from qkv.checkpoints.folder import Folder, read_folder, write_folder
from qkv.cli.main import app
from qkv.common.errors import QkvError, UsageError
from qkv.data.bad_rows import BadRows
from qkv.data.config import DataConfig
from qkv.exams.evaluate import evaluate
from qkv.models import catalogue
from qkv.tasks.base import Context
from qkv.tasks.classify import ClassifyTask
from qkv.tokenizers.text import TextTokenizer
from tests.predict.conftest import make_translator

LABELS = ("bird", "cat", "dog")
PIXELS = np.random.default_rng(0).integers(0, 256, (70, 3, 16, 16), dtype=np.uint8)
GOLD = [LABELS[i % 3] for i in range(70)]


def big(module: Any) -> Any:
    for parameter in module.parameters():
        if parameter.dim() > 1:  # large weights have opinions
            torch.nn.init.normal_(parameter, std=0.3)
    return module.eval()


@pytest.fixture(scope="module", params=["vit-ti16", "deit-ti16"])
def viewer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ViT, or a DeiT with its two classifiers, for images of 16 pixels."""
    torch.manual_seed(5)
    sizes = {"image_size": 16, "patch_size": 8, "dim": 16, "num_layers": 1, "num_heads": 2, "ff_dim": 32}
    config = catalogue.preset(request.param, num_labels=3, **sizes)
    folder = tmp_path_factory.mktemp("vit") / "model"
    write_folder(Folder(config, big(catalogue.build(config)), labels=LABELS), folder)
    return folder


def in_folders(place: Path) -> str:
    image = pytest.importorskip("PIL.Image")
    for number, (pixels, label) in enumerate(zip(PIXELS, GOLD, strict=True)):
        (place / label).mkdir(parents=True, exist_ok=True)
        image.fromarray(pixels.transpose(1, 2, 0)).save(place / label / f"{number:03}.png")
    return str(place)


def test_pictures_agree_with_transformers_and_sklearn(viewer: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForImageClassification, DeiTForImageClassificationWithTeacher, ViTImageProcessor

    deit = json.loads((viewer / "config.json").read_text())["model_type"] == "deit"
    theirs = (DeiTForImageClassificationWithTeacher if deit else AutoModelForImageClassification).from_pretrained(
        viewer
    )
    reader = ViTImageProcessor(do_resize=False, image_mean=[0.5] * 3, image_std=[0.5] * 3)
    with torch.no_grad():
        logits = theirs.eval()(**reader(list(PIXELS), return_tensors="pt", input_data_format="channels_first")).logits
    said = [LABELS[i] for i in logits.argmax(-1).tolist()]
    assert len(set(said)) > 1
    done: list[int] = []
    accuracy, f1 = evaluate(qkv.load(viewer, device="cpu"), [in_folders(tmp_path / "test")], progress=done.append)
    assert accuracy.value == pytest.approx(accuracy_score(GOLD, said))
    assert f1.value == pytest.approx(f1_score(GOLD, said, average="macro"))
    assert (accuracy.count, sum(done)) == (70, 70)


def test_pictures_in_every_form_give_one_score(tmp_path: Path) -> None:
    torch.manual_seed(5)
    sizes = {"image_size": 16, "patch_size": 8, "dim": 16, "num_layers": 1, "num_heads": 2, "ff_dim": 32}
    config = catalogue.preset("vit-ti16", num_labels=3, channels=1, **sizes)
    write_folder(Folder(config, big(catalogue.build(config)), labels=("0", "1", "2")), tmp_path / "model")
    grey, labels = PIXELS[:, 0], np.arange(70, dtype=np.uint8) % 3
    np.savez(tmp_path / "test.npz", images=grey, labels=labels)
    for name, array in (("t-images-idx3-ubyte", grey), ("t-labels-idx1-ubyte", labels)):
        head = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
        (tmp_path / name).write_bytes(head + array.tobytes())
    found = []
    for file in ("test.npz", "t-images-idx3-ubyte"):
        asked = ["evaluate", str(tmp_path / "model"), str(tmp_path / file), "--json", "--device", "cpu"]
        found.append(json.loads(CliRunner().invoke(app, asked, catch_exceptions=False).stdout))
    assert found[0] == found[1]
    assert found[0].keys() == {"accuracy", "f1"}
    assert found[0]["accuracy"]["count"] == 70


def test_pictures_that_do_not_fit(viewer: Path, tmp_path: Path) -> None:
    model = qkv.load(viewer, device="cpu")
    np.savez(tmp_path / "small.npz", images=PIXELS[:2, :, :8, :8], labels=np.array(["cat", "dog"]))
    with pytest.raises(
        QkvError, match=r"small.npz:1: the image has shape \(3, 8, 8\), but the model takes \(3, 16, 16\)"
    ):
        evaluate(model, [str(tmp_path / "small.npz")])
    np.savez(tmp_path / "other.npz", images=PIXELS[:2], labels=np.array(["cat", "cow"]))
    with pytest.raises(QkvError, match=r"other.npz:2: the label 'cow' does not occur in training"):
        evaluate(model, [str(tmp_path / "other.npz")])
    in_folders(tmp_path / "test")
    (tmp_path / "test" / "cat" / "a.png").write_bytes(b"nothing to see")
    with pytest.raises(QkvError, match=r"a.png: not an image that can be read"):
        evaluate(model, [str(tmp_path / "test")])
    with pytest.warns(UserWarning, match=r"1 row left out \(.*a.png: not an image"):
        assert evaluate(model, [str(tmp_path / "test")], DataConfig(skip_bad=True))[0].count == 70


@pytest.fixture(scope="module")
def translator() -> Any:
    return make_translator("transformer-tiny")


def write_pairs(folder: Path) -> list[str]:
    pairs = [("The cat sleeps.", "Le chat dort."), ("Two dogs play.", "Deux chiens jouent."), ("A bird.", "Un oiseau.")]
    for side, name in enumerate(("test.en", "test.fr")):
        (folder / name).write_text("".join(pair[side] + "\n" for pair in pairs))
    return [str(folder / name) for name in ("test.en", "test.fr")]


@pytest.mark.parametrize("beam", [1, 3, None])
def test_the_signature_says_how_it_was_searched(translator: Any, tmp_path: Path, beam: int | None) -> None:
    files = write_pairs(tmp_path)
    texts = Path(files[0]).read_text().splitlines()
    right = translator.translate(texts, beam=3)  # greedy search says other things
    Path(files[1]).write_text("\n".join(right) + "\n")
    scores = evaluate(translator, files, beam=beam)
    theirs = BLEU()
    wanted = theirs.corpus_score(translator.translate(texts, beam=beam or 4), [right])
    assert scores[0].value == pytest.approx(wanted.score)
    assert (scores[0].value > 99.99) == (beam != 1)
    for score in scores:
        assert score.signature.endswith(f"|beam:{beam or 4}|lp:1.0")
    assert scores[0].signature.startswith(str(theirs.get_signature()) + "|ci:")


def test_a_beam_from_the_command_line(translator: Any, tmp_path: Path) -> None:
    files = write_pairs(tmp_path)
    translator.save(tmp_path / "model")
    asked = ["evaluate", str(tmp_path / "model"), *files, "--beam", "2", "--device", "cpu"]
    assert CliRunner().invoke(app, asked, catch_exceptions=False).stdout.count("|beam:2|lp:1.0") == 3
    with pytest.raises(UsageError, match="beam must be at least 1, got 0"):
        evaluate(translator, files, beam=0)


def test_a_beam_is_for_translators(viewer: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="beam is for translators, and this vit model is not one"):
        evaluate(qkv.load(viewer, device="cpu"), [in_folders(tmp_path / "test")], beam=4)


def test_bad_pairs_are_counted(translator: Any, tmp_path: Path) -> None:
    (tmp_path / "test.tsv").write_text("source\ttarget\nThe cat.\tLe chat.\nA dog.\nA bird.\tUn oiseau.\n")
    with pytest.raises(QkvError, match=r"test.tsv:3: "):
        evaluate(translator, [str(tmp_path / "test.tsv")])
    with pytest.warns(UserWarning, match=r"1 row left out \(.*test.tsv:3"):
        assert evaluate(translator, [str(tmp_path / "test.tsv")], DataConfig(skip_bad=True))[0].count == 2


@pytest.mark.parametrize(
    ("head", "name", "text", "where"),
    [
        ("regress", "t.tsv", "text\tscore\nthe cat\t1\na dog\tmany\nthe mat\t3\nthe dog\t2\n", "t.tsv:3"),
        ("tag", "t.conll", "the O\ncat B-X\n\na O\ndog\n\nthe O\nmat O\n", "t.conll:5"),
    ],
)
def test_bad_rows_of_texts_are_counted(
    tiny_bert: dict[str, Any], wordpiece: Any, tmp_path: Path, head: str, name: str, text: str, where: str
) -> None:
    config = catalogue.preset("bert-tiny", heads=["pool", head], num_labels=2, **tiny_bert)
    tokenizer = TextTokenizer(wordpiece())
    write_folder(Folder(config, big(catalogue.build(config)), tokenizer, ("O", "B-X")), tmp_path / "model")
    (tmp_path / name).write_text(text)
    model = qkv.load(tmp_path / "model", device="cpu")
    with pytest.raises(QkvError, match=where):
        evaluate(model, [str(tmp_path / name)])
    with pytest.warns(UserWarning, match=f"1 row left out .*{where}"):
        evaluate(model, [str(tmp_path / name)], DataConfig(skip_bad=True))
    asked = ["evaluate", str(tmp_path / "model"), str(tmp_path / name), "--set", "skip_bad=true"]
    with pytest.warns(UserWarning, match="1 row left out"):
        assert CliRunner().invoke(app, asked, catch_exceptions=False).exit_code == 0


def context_of(tiny_bert: dict[str, Any], wordpiece: Any) -> Context:
    config = catalogue.preset("bert-tiny", **tiny_bert)
    return Context(TextTokenizer(wordpiece()), config, {"labels": ("animal", "food")}, print)


def rows_of(file: Path, context: Context, **data: Any) -> list[Any]:
    task = ClassifyTask.read({}, DataConfig(**data))
    return [row["label"] for row in task.rows(task.examples([str(file)], context.skipped), context)]


@pytest.mark.parametrize(("labels", "said"), [("[]", "no label"), ('["animal", "food"]', "2 labels")])
def test_training_rows_have_one_label(
    tiny_bert: dict[str, Any], wordpiece: Any, tmp_path: Path, labels: str, said: str
) -> None:
    file, context = tmp_path / "train.jsonl", context_of(tiny_bert, wordpiece)
    row = '{{"text": "the cat", "label": {}}}\n'
    file.write_text(row.format('"animal"') + row.format(labels) + row.format('["food"]'))
    message = rf"train.jsonl:2: {said} instead of one \(if an example can have several, set data.separator\)"
    with pytest.raises(QkvError, match=message) as error:
        rows_of(file, context)
    assert "\n" not in str(error.value)
    assert rows_of(file, context, skip_bad=True) == [0, 1]
    assert (context.skipped.count, len(context.skipped.reasons)) == (1, 1)
    task = ClassifyTask.read({}, DataConfig(skip_bad=True))
    assert task.survey(task.examples([str(file)]), print)["labels"] == ("animal", "food")
    assert [sum(each) for each in rows_of(file, context, separator=",")] == [1, len(json.loads(labels)), 1]


def test_a_bad_file_and_a_bad_label_are_counted_together(tmp_path: Path) -> None:
    file = tmp_path / "train.jsonl"
    file.write_text(
        '{"text": "a", "label": "x"}\n{"text": "a", "la\n{"text": "a", "label": []}\n{"text": "b", "label": 1}\n'
    )
    skipped = BadRows()
    found = list(ClassifyTask.read({}, DataConfig(skip_bad=True)).examples([str(file)], skipped))
    assert [example.labels for example in found] == [("x",), ("1",)]
    assert [reason.split(":")[1] for reason in skipped.reasons] == ["2", "3"]


def test_several_labels_survive_a_folder(tiny_bert: dict[str, Any], tmp_path: Path) -> None:
    for several, kind in ((True, "multi_label_classification"), (False, None)):
        config = catalogue.preset("bert-tiny", heads=["pool", "classify"], num_labels=3, **tiny_bert)
        write_folder(Folder(config, catalogue.build(config), labels=LABELS, multi_label=several), tmp_path / "model")
        assert json.loads((tmp_path / "model" / "config.json").read_text()).get("problem_type") == kind
        assert read_folder(tmp_path / "model").multi_label == several
        qkv.load(tmp_path / "model", device="cpu").save(tmp_path / "again")
        assert qkv.load(tmp_path / "again", device="cpu").multi_label == several
    rotary = catalogue.preset("bert-tiny", heads=["pool", "classify"], position="rotary", **tiny_bert)  # our own format
    write_folder(Folder(rotary, catalogue.build(rotary), multi_label=True), tmp_path / "ours")
    assert read_folder(tmp_path / "ours").multi_label
