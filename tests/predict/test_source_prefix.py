"""What a T5 reads before each text: the prefix of its folder, of a named task, or a given one."""

from dataclasses import replace

import pytest

from qkv.checkpoints.text_tasks import TextTask
from qkv.common.errors import Shortened, UsageError
from qkv.predict import Model
from tests.predict.conftest import make_translator

PREFIX = "The cat is red. "
TEXTS = ["The small cat sleeps.", "Two dogs play.", "  We eat. ", "", "A"]
TASKS = {
    "en-fr": TextTask(kind="translate", prefix=PREFIX),
    "tone": TextTask(kind="classify", prefix="tone: "),
    "sing": TextTask(prefix="sing: "),
}
SHORT = {"beam": 1, "max_length": 8}


@pytest.fixture(scope="module")
def plain():
    return make_translator("t5-small")


def with_tasks(model, **tasks):
    return Model(replace(model.contents, text_tasks=tasks), device="cpu")


@pytest.fixture(scope="module")
def trained(plain):
    return with_tasks(plain, **TASKS)


def test_the_task_that_translates_is_the_default(plain, trained):
    wanted = [plain.translate([PREFIX + text.strip()], **SHORT)[0] if text.strip() else "" for text in TEXTS]
    found = trained.translate(TEXTS, **SHORT)
    assert [one.strip() for one in found] == [one.strip() for one in wanted]
    assert found[3] == ""
    assert found != plain.translate(TEXTS, **SHORT)
    assert list(trained.translate_stream(iter(TEXTS), **SHORT)) == found


def test_another_task_or_prefix_can_be_named(plain, trained):
    for options, prefix in (
        ({"task": "tone"}, "tone: "),
        ({"task": "sing"}, "sing: "),
        ({"source_prefix": "x "}, "x "),
    ):
        wanted = plain.translate([prefix + TEXTS[0]], **SHORT)
        assert trained.translate(TEXTS[:1], **options, **SHORT) == wanted
    assert trained.translate(TEXTS, source_prefix="", **SHORT) == plain.translate(TEXTS, **SHORT)


def test_every_piece_of_a_long_text_gets_the_prefix(trained, echo):
    text = "The small cat sleeps. Two dogs play in the garden.  I see a red house."
    pieces = ["The small cat sleeps.", "Two dogs play in the garden.", "I see a red house."]
    assert trained.translate([text])[0].split(PREFIX) == ["", pieces[0] + " ", pieces[1] + "  ", pieces[2]]
    assert trained.translate([text], split=False) == [PREFIX + text]


def test_a_prefix_does_not_make_a_text_long(trained, echo):
    two = "The cat. The dog."
    long = "the cat " * 20
    assert trained.translate([two], source_prefix=long)[0].count("the cat") == 20


def test_a_whole_text_that_is_too_long_is_cut_with_a_warning(trained, echo):
    with pytest.warns(Shortened, match="1 of 1 texts were cut to 512 tokens"):
        trained.translate(["The cat sleeps. " * 200], split=False)


def test_words_of_the_prefix_are_aligned_with_nothing(plain, trained):
    (found,) = trained.translate(TEXTS[:1], alignments=True, beam=1, max_length=12)
    assert found.alignment
    assert all(0 <= source < len(TEXTS[0].split()) for source, _ in found.alignment)
    (other,) = plain.translate(TEXTS[:1], alignments=True, beam=1, max_length=12, source_prefix="")
    assert plain.translate(TEXTS[:1], alignments=True, beam=1, max_length=12) == [other]


def test_what_prefix_is_meant_must_be_clear(plain, trained):
    with pytest.raises(UsageError, match=r"unknown text-to-text task of this model 'ton'; did you mean 'tone'\?"):
        trained.translate(TEXTS, task="ton")
    with pytest.raises(UsageError, match="give the task 'tone' or a source prefix, not both"):
        trained.translate(TEXTS, task="tone", source_prefix="x")
    with pytest.raises(UsageError, match="this model has no text-to-text tasks: leave out the task 'tone'"):
        plain.translate(TEXTS, task="tone")
    two = with_tasks(plain, a=TASKS["en-fr"], b=TextTask(kind="translate", prefix="b: "))
    with pytest.raises(UsageError, match=r"has 2 tasks to translate: choose one with --task \(task=…\), of: a, b"):
        two.translate(TEXTS)
    none = with_tasks(plain, tone=TASKS["tone"])
    with pytest.raises(UsageError, match=r"has no tasks to translate: choose one .* of: tone"):
        none.translate(TEXTS)
    assert with_tasks(plain, sing=TASKS["sing"]).translate(TEXTS, **SHORT) == plain.translate(TEXTS, **SHORT)
    with pytest.raises(UsageError, match=r"the source prefix has \d+ tokens, but the model reads 256 in all"):
        plain.translate(TEXTS, source_prefix="the cat and the dog " * 99)
