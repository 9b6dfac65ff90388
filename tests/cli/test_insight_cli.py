"""`qkv explain`, `qkv heads` and `qkv layers` as a shell sees them."""

import json

import pytest

from tests.predict.conftest import make_translator
from tests.predict.readers import NER, make_reader

LABELS = ("bad", "good")
MODELS = {
    "one": make_reader("pool", "classify", labels=LABELS),
    "number": make_reader("pool", "regress"),
    "ner": make_reader("tag", labels=NER),
    "reader": make_reader("span", max_length=30),
    "filler": make_reader("mlm"),
    "plain": make_reader("pool"),
    "translator": make_translator("transformer-tiny"),
    "recurrent": make_translator("rnn-small"),
}
EVIL = "<script>x</script> the \x1b[31mcat \u202esat"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("models")
    for name, model in MODELS.items():
        model.save(place / name)
    return place


@pytest.fixture
def qkv(monkeypatch, shell, tmp_path, folders):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("text,label\nthe cat sat,good\nthe dog ran,bad\na dog sat,good\na cat,bad\n")
    return lambda verb, name, *more, **given: shell(verb, folders / name, *more, "--device", "cpu", **given)


def objects_of(result):
    assert result.code == 0, result.err
    return [json.loads(line) for line in result.out.splitlines()]


def test_explain_prints_the_words_and_the_checks(qkv):
    found = qkv("explain", "one", "the cat sat", "--top", 2)
    assert (found.code, found.err) == (0, "")
    lines = found.out.splitlines()
    assert lines[0].startswith(("classify: good (", "classify: bad ("))
    assert lines[1].split() == ["word", "gradients", "left", "out"]
    assert len(lines) == 5
    assert "gradients add up to" in lines[-1]
    (one,) = objects_of(qkv("explain", "one", "the cat sat", "--json"))
    assert [word["text"] for word in one["words"]] == ["the", "cat", "sat"]
    (other,) = objects_of(qkv("explain", "one", "-", "--of", "bad", "--json", stdin="the cat sat\n"))
    assert other["answer"] == "bad"


def test_explain_every_kind_of_answer(qkv, tmp_path):
    (tmp_path / "book.txt").write_text("The dog ran home because it was snowing.")
    for name, *more in (
        ["one", "the cat", "a dog", "--pair"],
        ["number", "the cat"],
        ["ner", "Ada sat on the mat"],
        ["reader", "who ran", "--context", "book.txt"],
        ["reader", "who ran", "--context-text", "The dog ran.", "--of", "dog"],
        ["filler", "the [MASK] sat"],
        ["translator", "the cat sees a dog"],
        ["recurrent", "the cat sees a dog"],
    ):
        found = objects_of(qkv("explain", name, *more, "--json"))
        assert all(one["words"] for one in found), name
        assert qkv("explain", name, *more, "--steps", 2).code == 0


def test_a_table_gives_the_words_of_each_class(qkv, tmp_path):
    found = qkv("explain", "one", "--file", "t.csv", "--html", "page.html")
    assert found.code == 0
    assert "words for " in found.out
    assert "classify:" not in found.out
    assert "page.html" in found.err
    page = (tmp_path / "page.html").read_text()
    assert page.count("<article>") == 4
    *each, last = objects_of(qkv("explain", "one", "--file", "t.csv", "--json", "--limit", 3))
    assert [one["number"] for one in each] == [0, 1, 2]
    assert set(last["words_by_answer"]) == {one["answer"] for one in each}


def test_texts_are_shown_and_never_obeyed(qkv, tmp_path):
    found = qkv("explain", "one", EVIL, "--top", 30, "--html", "page.html")
    assert found.code == 0
    assert "\x1b" not in found.out
    assert "\u202e" not in found.out
    assert "\\u202e" in found.out
    page = (tmp_path / "page.html").read_text()
    assert "<script" not in page
    assert "\u202e" not in page


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("explain", "one", "a", "--of", "great"), "unknown label 'great'"),
        (("explain", "one", "a", "--top", 0), "--top must be at least 1"),
        (("explain", "one", "a", "--limit", 0), "--limit must be at least 1"),
        (("explain", "one", "a", "--steps", 0), "steps must be from 1 to 4096"),
        (("explain", "one", "a", "--html", "."), "folder"),
        (("explain", "one"), "nothing to read"),
        (("explain", "plain", "a"), "gives no answers that words could explain"),
        (("explain", "filler", "a cat"), "no mask"),
        (("explain", "reader", "who"), "needs a context"),
        (("explain", "translator", "a cat", "--verb", "tag"), "unknown verb"),
        (("heads", "recurrent", "a cat"), "has no attention heads"),
        (("heads", "one", " ", "--limit", 0), "--limit must be at least 1"),
        (("heads", "plain", "a cat", "--importance", "t.csv"), "no task can evaluate"),
        (("heads", "one", "a cat", "--importance", "t.csv", "--examples", 0), "examples must be at least 1"),
        (("layers", "one", "a", "--compare", "nowhere"), "nowhere"),
        (("layers", "recurrent", "a cat"), "no layers of attention"),
    ],
)
def test_wrong_usage_is_one_sentence(qkv, asked, said):
    found = qkv(*asked)
    assert found.code == 2, found.err
    assert said in found.err
    assert found.out == ""
    assert len(found.err.splitlines()) == 1


def test_heads_prints_a_line_for_each(qkv):
    found = qkv("heads", "one", "the cat sat", "a dog")
    assert (found.code, found.err) == (0, "")
    lines = found.out.splitlines()
    assert lines[0].split()[:5] == ["kind", "layer", "head", "entropy", "distance"]
    assert len(lines) == 1 + 4 + 2
    assert "of 4 heads" in lines[-1]
    (told,) = objects_of(qkv("heads", "translator", "--file", "t.csv", "--json"))
    assert {head["kind"] for head in told["heads"]} == {"encoder", "decoder", "cross"}


def test_heads_measures_importance(qkv):
    found = qkv("heads", "one", "--file", "t.csv", "--importance", "t.csv")
    assert found.code == 0
    assert {"gradient", "ablation"} < set(found.out.splitlines()[0].split())
    assert "importance on 4 examples; rank correlation" in found.out
    found = qkv("heads", "one", "--file", "t.csv", "--importance", "t.csv", "--no-ablation", "--json")
    (told,) = objects_of(found)
    assert told["importance"]["ablation"] is None
    assert len(told["importance"]["gradient"]["self"]) == 2


def test_layers_prints_similarity_alikeness_and_scores(qkv, folders):
    found = qkv("layers", "one", "--file", "t.csv")
    assert (found.code, found.err) == (0, "")
    assert "attention alone" in found.out
    assert found.out.count("layer") > 4
    (told,) = objects_of(qkv("layers", "one", "--file", "t.csv", "--compare", folders / "number", "--json"))
    assert len(told["similarity"]) == 3
    assert len(told["scores"]["texts"][0][0]) == len(told["scores"]["distances"]) == 65
