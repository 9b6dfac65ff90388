"""Every family can be looked at; the answers are the model's own, and nothing it computes changes."""

import numpy as np
import pytest
import torch

import qkv
from qkv.checkpoints.folder import Folder
from qkv.common.errors import QkvError, UsageError
from qkv.insight.rollout import rollout
from qkv.models import catalogue
from qkv.predict import Model
from tests.predict.conftest import make_translator
from tests.predict.readers import NER, make_reader
from tests.tokenizers.conftest import train

TEXT = "the cat sat on the mat"


def make_gpt(**changes):
    tokenizer = train("byte-bpe", min_frequency=1)
    sizes = {"dim": 16, "num_layers": 2, "num_heads": 2, "ff_dim": 32, "max_length": 40}
    torch.manual_seed(3)
    config = catalogue.preset("gpt2", vocab_size=tokenizer.vocab_size, **sizes, **changes)
    return Model(Folder(config, catalogue.build(config).eval(), tokenizer), device="cpu")


def make_vit(**changes):
    torch.manual_seed(3)
    sizes = {"image_size": 24, "patch_size": 8, "dim": 16, "num_layers": 2, "num_heads": 2, "ff_dim": 32}
    return qkv.build("vit-ti16", device="cpu", **{**sizes, "num_labels": 3, **changes})


@pytest.fixture
def image(tmp_path):
    pil = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(0, 256, (24, 24, 3), dtype=np.uint8)
    pil.fromarray(pixels).save(tmp_path / "a.png")
    return str(tmp_path / "a.png")


def rows_sum_to_one(found):
    for part in found.parts.values():
        for layer in range(part.num_layers):
            weights = part.weights(layer)
            assert weights.shape == (part.num_heads, len(part.rows), len(part.columns))
            torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))


def test_an_encoder():
    model = make_reader("mlm")
    found = model.look("the [MASK] sat")
    rows_sum_to_one(found)
    part = found.part("encoder")
    assert part.rows[0] == "[CLS]"
    assert "[MASK]" in part.rows
    (mask,) = found.lens.choices
    (best,) = model.fill(["the [MASK] sat"], top=3)
    assert [score for _, score in mask[-1][:3]] == pytest.approx([one.score for one in best[0]], rel=1e-5)
    assert found.lens.layers == ["input", "layer 0", "layer 1"]
    torch.testing.assert_close(found.map(), part.weights(1).mean(0))
    torch.testing.assert_close(found.rollout().sum(-1), torch.ones(len(part.rows)))


def test_a_pair_has_both_texts():
    model = make_reader("classify", labels=("bad", "good"))
    found = model.look("the cat", "a mat")
    assert found.part().rows.count("[SEP]") == 2
    (label,) = model.classify(["the cat"], ["a mat"])
    name, score = found.lens.choices[0][-1][0]
    assert (name, score) == (label.label, pytest.approx(label.score, rel=1e-5))


def test_tags_are_asked_of_every_token():
    model = make_reader("tag", labels=NER)
    found = model.look(TEXT)
    assert found.lens.places == found.part().rows
    ids = model.encode([TEXT]).ids
    best = model.logits(ids, head="tag")[0].softmax(-1).max(-1)
    assert [choices[-1][0][0] for choices in found.lens.choices] == [NER[i] for i in best.indices.tolist()]


def test_a_decoder_gives_the_next_token_at_each_place():
    model = make_gpt()
    found = model.look("the cat\u00e9 sat")
    rows_sum_to_one(found)
    assert "".join(found.part("decoder").rows) == "the cat\u00e9 sat"  # bytes as letters, and no end of text
    ids = [row[:-1] for row in model.encode(["the cat\u00e9 sat"]).ids]
    chances = model.logits(ids)[0].softmax(-1)
    for row, (choices, wanted) in enumerate(zip(found.lens.choices, found.lens.wanted, strict=True)):
        assert choices[-1][0][1] == pytest.approx(float(chances[row].max()), rel=1e-5)
        right = None if row + 1 == len(ids[0]) else float(chances[row, ids[0][row + 1]])
        assert (wanted and wanted[1][-1]) == (right and pytest.approx(right, rel=1e-5))
    with pytest.raises(UsageError, match="reads one text"):
        model.look("a", "b")


def test_a_translator_shows_the_path_of_its_own_translation(translator):
    (said,) = translator.translate(["The cat sleeps."], scores=True)
    found = translator.look("The cat sleeps.")
    rows_sum_to_one(found)
    assert found.part("cross").rows == said.tokens
    assert said.text.strip() in found.notes[0]
    for (_, by_layer), score in zip(found.lens.wanted, said.token_scores, strict=False):
        assert np.log(by_layer[-1]) == pytest.approx(score, abs=1e-3)
    (aligned,) = [found.map()]
    assert aligned.shape == (len(said.tokens), len(found.part("cross").columns))
    greedy = translator.look("The cat sleeps.", beam=1)
    (first,) = translator.translate(["The cat sleeps."], scores=True, beam=1)
    assert greedy.part("cross").rows == first.tokens


def test_a_given_target_is_read_as_it_is(transformer):
    found = transformer.look("The cat sleeps.", "Le chat dort.")
    assert found.notes == []
    target = transformer.tokenizer.encode(["Le chat dort."]).ids[0]
    assert found.part("cross").rows == transformer.tokenizer.pieces(target)
    assert found.part("decoder").rows[1:] == found.part("cross").rows[:-1]
    assert [name for name, _ in found.lens.wanted] == found.part("cross").rows
    causal = found.weights(1, 0, "decoder")
    assert torch.equal(causal, causal.tril())
    with pytest.raises(UsageError, match="beam: only a translator that writes"):
        transformer.look("The cat sleeps.", "Le chat dort.", beam=2)


def test_a_recurrent_decoder_has_one_layer_and_head():
    found = make_translator("rnn-small").look("The cat sleeps.", "Le chat dort.")
    rows_sum_to_one(found)
    assert (found.part().num_layers, found.part().num_heads, found.lens.layers) == (1, 1, ["answer"])
    assert found.part().call(0) is None


def test_an_image_is_patches(image):
    model = make_vit()
    found = model.look(image)
    rows_sum_to_one(found)
    assert found.part().rows == ["[class]", *(f"patch {r},{c}" for r in range(3) for c in range(3))]
    assert found.picture.pixels.shape == (3, 24, 24)
    assert [len(place) for place in found.lens.choices] == [3]
    pixels = (found.picture.pixels.float() / 127.5 - 1).unsqueeze(0)
    best = model.logits(pixels)[0].softmax(-1).max()
    assert found.lens.choices[0][-1][0][1] == pytest.approx(float(best), rel=1e-4)
    both = make_vit(distilled=True, heads=["distilled"]).look(image)
    assert (both.part().rows[1], both.picture.leading) == ("[distillation]", 2)
    grey = make_vit(channels=1).look(image)
    assert grey.picture.pixels.shape == (1, 24, 24)
    for name in ("nothing.png", "\x1b[31m"):
        with pytest.raises(QkvError, match="there is no such file"):
            model.look(name)
    with pytest.raises(QkvError, match=r"shape \(3, 24, 24\), but the model takes \(3, 32, 32\)"):
        make_vit(image_size=32).look(image)
    with pytest.raises(UsageError, match="one image"):
        model.look(image, "x")


def test_windows_of_an_image_are_put_where_their_patches_are(image):
    """Softmax within a window is that over the whole image, divided by what the window gets of it."""
    plain = make_vit(patch_size=6)
    windowed = make_vit(patch_size=6, patches={"window": 3})
    windowed.module.load_state_dict(plain.module.state_dict())
    found, whole = windowed.look(image), plain.look(image).weights(0)
    rows_sum_to_one(found)
    names = [name.removeprefix("patch ").split(",") for name in found.part().rows]
    window = torch.tensor([-1] + [2 * (int(row) // 3) + int(column) // 3 for row, column in names[1:]])
    same = window == window.unsqueeze(1)
    wanted = whole * same / (whole * same).sum(-1, keepdim=True)
    torch.testing.assert_close(found.weights(0), wanted)
    assert found.part().call(0) is None
    assert found.part().call(1) is not None
    found.html()
    rolled = found.rollout()
    torch.testing.assert_close(rolled, rollout(found.weights(layer) for layer in range(2)))


def test_what_cannot_be_looked_at_is_said(tmp_path):
    bare = qkv.build("bert-tiny", vocab_size=50, device="cpu")
    for verb in ("look", "heads", "layers"):
        with pytest.raises(UsageError, match=f"this bert has no tokenizer, and {verb} reads text"):
            getattr(bare, verb)("x")
    with pytest.raises(UsageError, match="this vit has no tokenizer, and heads reads text"):
        make_vit().heads("x")
    with pytest.raises(UsageError, match="word2vec has no attention"):
        qkv.build("word2vec-small", vocab_size=50, device="cpu").look("x")
    with pytest.raises(UsageError, match="no tokens"):
        make_gpt().look("")
    with pytest.raises(UsageError, match="takes one text"):
        make_reader("mlm").look(["a", "b"])
    found = make_reader("mlm").look(TEXT)
    for ask, said in (
        (lambda: found.weights(2), "no layer 2: layers are numbered from 0 to 1"),
        (lambda: found.weights(0, -3), "no head -3"),
        (lambda: found.part("cross"), "unknown part 'cross'"),
        (lambda: found.save(tmp_path / "a.pdf"), "must end in .html, .svg, .png"),
    ):
        with pytest.raises(UsageError, match=said):
            ask()
    with pytest.raises(QkvError, match="folder does not exist"):
        found.save(tmp_path / "none" / "a.html")
    assert list(tmp_path.iterdir()) == []


def test_a_long_text_is_cut_with_a_warning():
    with pytest.warns(UserWarning, match="cut to 40 tokens"):
        found = make_reader("mlm").look("the cat " * 50)
    assert len(found.part().rows) == 40


def test_looking_twice_changes_nothing():
    model = make_reader("mlm", "classify", labels=("bad", "good"))
    before = model.classify([TEXT])
    assert model.look(TEXT).to_dict() == model.look(TEXT).to_dict()
    assert model.classify([TEXT]) == before


def test_pictures_of_one_matrix(tmp_path):
    found = make_reader("mlm").look("the $cat$ <b>")
    svg = found.save(tmp_path / "a.svg", layer=0, head=1).read_text("utf-8")
    assert "encoder, layer 0, head 1" in svg
    assert found.save(tmp_path / "b.txt", kind="svg").read_text("utf-8").startswith("<svg")
    pil = pytest.importorskip("PIL.Image")
    pytest.importorskip("matplotlib")
    with pil.open(found.save(tmp_path / "a.png", layer=-1)) as drawn:
        assert min(drawn.size) > 300
        assert len(drawn.convert("RGB").getcolors(1 << 24)) > 20  # not an empty page


def test_a_png_without_matplotlib_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(QkvError, match="pip install matplotlib"):
        make_reader("mlm").look(TEXT).save(tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []
