"""Every panel of the page in a real browser; what it shows is what the model says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qkv
from tests.serving.page import HOSTILE, PANELS, Page, opened, write_models
from tests.serving.server import served

SOURCE = "The small cat does not see the red apple."


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_models(tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def models(folders: dict[str, Path]) -> dict[str, Any]:
    """The same models in this process, as the oracle."""
    return {name: qkv.load(folder, device="cpu") for name, folder in folders.items()}


@pytest.fixture(scope="module")
def url(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("server"), *folders.values()) as found:
        yield found.url


@pytest.fixture
def page(browser: Any, url: str) -> Iterator[Page]:
    with opened(browser, url) as found:
        yield found


def test_the_first_click_shows_something_in_every_panel(page: Page) -> None:
    for panel in PANELS:
        page.open(panel).example()
        assert page.tab.locator(".result [role=alert]").count() == 0, page.text(".result")
        assert page.tab.locator(".result .waiting").count() == 0
        assert page.text("#said") != ""
        assert page.tab.locator(".took").text_content().endswith("s")


def test_a_model_offers_the_panels_of_its_verbs(page: Page, models: dict[str, Any]) -> None:
    page.open("translate")
    assert page.all("#tabs [role=tab]") == ["Translate", "Similarity", "Search", "Look inside"]
    assert page.all("#model option") == list(models)
    page.tab.select_option("#model", "reader")
    assert page.all("#tabs [role=tab]") == ["Answer", "Similarity", "Search", "Look inside"]
    assert page.text("#facts").startswith("bert")
    assert page.tab.title() == "Answer · reader · qkv"
    page.tab.select_option("#model", "pictures")
    assert page.all("#tabs [role=tab]") == ["Image"]


def test_translations_with_their_alignment(page: Page, models: dict[str, Any]) -> None:
    page.open("translate").ask(Text=SOURCE)
    (best,) = models["translator"].translate([SOURCE], nbest=3, alignments=True, beam=4)
    listed = page.all(".nbest button span[dir]")
    assert listed == [one.text.strip() or "∅" for one in (best, *best.others)]
    words = page.tab.locator(".aligned.target .word")
    assert page.all(".aligned.target .word") == best.text.split()
    source, target = next(pair for pair in best.alignment)
    words.nth(target).hover()
    lit = page.all(".aligned.source .word.lit")
    assert lit == [SOURCE.split()[s] for s, t in sorted(best.alignment) if t == target]
    assert page.text(".told").startswith(f"“{best.text.split()[target]}” comes from “{SOURCE.split()[source]}")
    page.tab.locator(".nbest button").nth(2).click()
    assert page.all(".aligned.target .word") == best.others[1].text.split()
    assert page.tab.locator(".nbest button").nth(2).get_attribute("aria-pressed") == "true"


def test_labels_and_the_words_that_mattered(page: Page, models: dict[str, Any]) -> None:
    text = "the cat 🙂 sat on the mat"
    page.open("classify").ask(Text=text)
    (labels,) = models["reviews"].classify([text], every=True)
    assert page.all(".bar-name") == [label.label for label in labels]
    assert page.all(".bars .share") == [percent(label.score) for label in labels]
    (explained,) = models["reviews"].explain(text)
    assert page.text(".effects .reading") == text
    marked = page.tab.locator(".effects .reading .effect")
    assert marked.all_text_contents() == [word.text for word in explained.words]
    most = max(range(len(explained.words)), key=lambda n: abs(explained.words[n].gradient))
    assert marked.nth(most).get_attribute("class") == (
        "effect up" if explained.words[most].gradient > 0 else "effect down"
    )
    page.tab.locator(".effects summary").click()
    assert page.text(".effects tbody th") == explained.words[most].text


def test_a_model_of_numbers_shows_one(page: Page, models: dict[str, Any]) -> None:
    page.open("classify").tab.select_option("#model", "scores")
    page.ask(Text="a cat")
    assert page.text(".result .big") == f"{models['scores'].classify(['a cat'])[0]:.2f}"


def test_pairs(page: Page, models: dict[str, Any]) -> None:
    page.open("pairs").ask(First_text="a cat", Second_text="a dog")
    (labels,) = models["reviews"].classify(["a cat"], ["a dog"], every=True)
    assert page.all(".bars .share") == [percent(label.score) for label in labels]
    assert page.all(".effects .reading") == ["a cat", "a dog"]


def test_tags_are_where_python_counts_them(page: Page, models: dict[str, Any]) -> None:
    text = "🙂🙂 the cat  sat on\nthe mat of zoë 🙂 and ran"
    page.open("tag").ask(Text=text)
    (found,) = models["names"].tag([text])
    assert found
    marks = page.tab.locator(".reading mark")
    shown = [
        mark.evaluate("m => [m.firstChild.textContent, m.querySelector('small').textContent]") for mark in marks.all()
    ]
    assert shown == [[one.text, one.label] for one in found]
    assert len(page.all(".legend li")) == len({one.label for one in found})


def test_an_answer_is_marked_in_its_passage(page: Page, models: dict[str, Any]) -> None:
    passage = "🙂 The cat sat on the mat. The dog ran to the house."
    page.open("answer").ask(Question="Who ran?", Passage=passage)
    best = models["reader"].answer(["Who ran?"], passage, nbest=3)[0]
    assert page.text(".result .big") == best.text.strip()
    assert page.tab.locator("mark.found").text_content() == best.text
    page.tab.locator(".bar-name").nth(1).click()
    assert page.tab.locator("mark.found").text_content() == best.others[0].text


def test_words_for_gaps(page: Page, models: dict[str, Any]) -> None:
    text = "the [MASK] sat on the [MASK]"
    page.open("fill").ask(Text_with_gaps=text)
    (gaps,) = models["words"].fill([text], top=8)
    assert page.all(".bar-name") == [choice.word.strip() or "∅" for gap in gaps for choice in gap]
    page.tab.locator(".bars").nth(1).locator("button").nth(3).click()
    assert page.all(".reading mark") == [gaps[0][0].word.strip(), gaps[1][3].word.strip()]
    page.ask(Text_with_gaps="no gap")
    assert page.text("[role=alert]") == "Write [MASK] where a word is missing."


def test_generated_text_streams_and_shows_what_else_was_likely(page: Page, models: dict[str, Any]) -> None:
    page.open("generate")
    page.tab.select_option("select:has(option[value='1.3'])", "0")
    grown = "new MutationObserver(some => window.grown = (window.grown ?? 0) + some.length)"
    page.tab.evaluate(f"{grown}.observe(document.querySelector('.result'), {{ childList: true, subtree: true }})")
    page.ask(Prompt="The cat", New_tokens="12")
    (found,) = models["writer"].generate(["The cat"], max_length=12, temperature=0, probabilities=6)
    assert page.tab.locator(".reading").text_content() == f"The cat{found.text}"
    assert page.tab.evaluate("window.grown") > 4  # it came in pieces
    tokens = page.tab.locator(".token")
    tokens.nth(2).hover()
    assert page.all(".rivals .bar-name") == [
        choice.word.replace(" ", "·").replace("\n", "↵") for choice in found.steps[2].choices
    ]
    assert page.all(".rivals .share") == [percent(choice.score) for choice in found.steps[2].choices]


def test_similarity_of_each_pair(page: Page, models: dict[str, Any]) -> None:
    lines = ["a cat sat", "the cat sat down", "on the mat"]
    page.open("similar").ask(Sentences="\n".join([*lines, "", " "]))
    vectors = models["words"].embed(lines, normalize=True)
    shown = np.array([float(cell) for cell in page.all(".matrix tbody td")]).reshape(3, 3)
    np.testing.assert_allclose(shown, vectors @ vectors.T, atol=0.0051)
    page.ask(Sentences="one")
    assert page.text("[role=alert]") == "Type at least two lines."


def test_search_over_lines(page: Page, models: dict[str, Any]) -> None:
    lines = ["a cat sat", "the dog ran", "on the mat", "red apple"]
    page.open("search").ask(Query="a dog", Lines="\n".join(lines))
    near = models["words"].embed(["a dog"], normalize=True)[0] @ models["words"].embed(lines, normalize=True).T
    order = np.argsort(-near, kind="stable")
    assert page.all(".hit") == [lines[number] for number in order]
    assert page.text(".hits .share") == f"line {order[0] + 1} · {near[order[0]]:.2f}"


def test_a_look_is_the_page_of_a_look(page: Page, models: dict[str, Any]) -> None:
    page.open("look").ask(Text=SOURCE)
    frame = page.tab.frame_locator("iframe")
    frame.locator("body[data-ready]").wait_for()
    part = models["translator"].look(SOURCE).part()
    assert frame.locator("#row option").nth(1).text_content() == f"0: {part.rows[0]}"
    assert frame.locator("#model .grid button").count() == part.num_layers * part.num_heads
    assert page.tab.locator("iframe").get_attribute("sandbox") == "allow-scripts"
    with page.tab.expect_download() as saved:
        page.tab.get_by_text("Save this page").click()
    assert "<!doctype html>" in Path(saved.value.path()).read_text("utf-8")[:20]


def test_an_image_from_a_file(page: Page, models: dict[str, Any], tmp_path: Path) -> None:
    pil = pytest.importorskip("PIL.Image")
    file = tmp_path / "noise.png"
    pil.effect_noise((40, 30), 90).convert("RGB").save(file)
    page.open("image").tab.locator("input[type=file]").set_input_files(file)
    page.tab.locator(".run").click()
    page.answered()
    (labels,) = models["pictures"].classify([str(file)], every=True)
    assert page.all(".bar-name") == [label.label for label in labels]
    assert page.all(".bars .share") == [percent(label.score) for label in labels]
    frame = page.tab.frame_locator("iframe")
    frame.locator("#picture canvas").wait_for()
    assert "[class] attends most to patch" in frame.locator("#picture .said").inner_text()
    assert "/tmp" not in frame.locator("body").inner_text()
    (tmp_path / "no.png").write_bytes(b"not an image")
    page.tab.locator("input[type=file]").set_input_files(tmp_path / "no.png")
    page.tab.locator(".run").click()
    page.answered()
    assert "PNG" in page.text("[role=alert]") or "image" in page.text("[role=alert]")
    page.wrong.clear()  # the browser notes the refusal


def test_markup_is_text_wherever_it_comes_from(page: Page) -> None:
    fields = {"text": HOSTILE, "pair": HOSTILE, "question": HOSTILE, "passage": f"{HOSTILE} the cat", "prompt": HOSTILE}
    fields |= {"lines": f"{HOSTILE}\n{HOSTILE} the cat", "query": HOSTILE, "target": HOSTILE, "length": "5"}
    for panel in PANELS:
        if panel == "image":  # its hostile label is seen with the first example
            page.open(panel).example()
        else:
            page.open(panel, **fields | {"text": f"{HOSTILE} [MASK]"}).answered()
        assert page.tab.locator(".result [role=alert]").count() == 0, (panel, page.text(".result"))
        assert page.tab.locator("img").count() == 0, panel
        shown = page.tab.locator("main")
        if panel == "look":
            frame = page.tab.frame_locator("iframe")
            frame.locator("body[data-ready]").wait_for()
            assert frame.locator("img").count() == 0
            shown = frame.locator("body")
        assert HOSTILE in shown.text_content() or panel in ("tag", "generate"), panel


def test_a_link_brings_everything_back(browser: Any, page: Page, url: str) -> None:
    page.open("search").ask(Query="a dog & <b>", Lines="the cat\n  100 % #1 ü 🙂")
    page.tab.select_option(".result ~ *, .ask select", "3")
    page.answered()
    shown = page.all(".hit")
    with opened(browser, url) as other:
        other.tab.goto(page.tab.url)
        other.tab.wait_for_selector(".hits")
        assert other.all(".hit") == shown
        assert other.tab.get_by_label("Lines").input_value() == "the cat\n  100 % #1 ü 🙂"
        assert other.tab.get_by_label("Query").input_value() == "a dog & <b>"
        assert other.tab.locator(".ask select").input_value() == "3"
        assert other.tab.input_value("#model") == "words"
    page.tab.evaluate("navigator.clipboard.writeText = text => { window.copied = text; return Promise.resolve(); }")
    page.tab.locator("#share").click()
    assert page.tab.evaluate("window.copied") == page.tab.url
    assert page.text("#share") == "Link copied"
    page.tab.get_by_label("Lines").fill("x" * 9000)
    page.tab.locator("#share").click()
    assert "without the long text" in page.text("#share")
    assert len(page.tab.url) < 300


def test_what_was_typed_stays_when_panels_and_models_change(page: Page) -> None:
    page.open("similar").tab.get_by_label("Sentences").fill("a\nb")
    page.tab.get_by_role("tab", name="Search").click()
    page.tab.get_by_role("tab", name="Similarity").click()
    assert page.tab.get_by_label("Sentences").input_value() == "a\nb"
    page.tab.select_option("#model", "reader")
    assert page.tab.get_by_label("Sentences").input_value() == "a\nb"


def percent(share: float) -> str:
    return f"{round(100 * share)} %" if share >= 0.0995 else f"{100 * share:.1f} %"
