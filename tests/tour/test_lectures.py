"""docs/lectures.md: blocks print what is shown, links lead somewhere, pictures are up to date."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from tests.tour.documents import ROOT, alike, blocks, run_python, shown_after

DOCS = ROOT / "docs"
LECTURES = (DOCS / "lectures.md").read_text("utf-8")
PICTURES = DOCS / "lectures"
LARGEST = 50_000  # bytes of a picture
SVG = "{http://www.w3.org/2000/svg}"


def anchors(document: str) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    prose = re.sub(r"^```.*?^```$", "", document, flags=re.DOTALL | re.MULTILINE)
    headings = (heading.lower() for heading in re.findall(r"^#+ (.*)$", prose, re.MULTILINE))
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in headings}


def sections() -> dict[str, str]:
    """Each section with a third-level heading, up to the next heading."""
    prose = re.sub(r"^## .*$", "### ", LECTURES, flags=re.MULTILINE)
    return {text.split("\n")[0]: text for text in prose.split("\n### ")[1:] if text.split("\n")[0]}


def test_every_block_runs_and_prints_what_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_python(LECTURES, "docs/lectures.md", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_every_section_has_its_code_a_block_and_a_check() -> None:
    assert len(sections()) >= 30
    for name, text in sections().items():
        code = re.search(r"^\*Code:\* (.*?)\n\n", text, re.DOTALL | re.MULTILINE)
        assert code is not None, name
        assert "(../src/qkv/" in code[1], name
        made = [block for _, block in blocks(text, "python")]
        assert made, name
        assert any("assert " in block for block in made) or shown_after(text), name


def test_every_link_leads_somewhere() -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", LECTURES)
    assert len(links) >= 80
    for link in links:
        file, _, anchor = link.partition("#")
        assert not file or (DOCS / file).exists(), link
        if anchor:
            page = LECTURES if not file else (DOCS / file).read_text("utf-8")
            assert anchor in anchors(page), link


def test_the_names_of_code_files_are_their_paths() -> None:
    for name, path in re.findall(r"\[`([\w/]+\.py)`\]\(\.\./src/qkv/([^)]+)\)", LECTURES):
        assert name == path


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The pictures, drawn again."""
    sys.path.insert(0, str(PICTURES))
    try:
        import pictures

        return pictures.draw(tmp_path_factory.mktemp("pictures"))
    finally:
        sys.path.remove(str(PICTURES))


def test_every_picture_is_up_to_date(drawn: list[Path]) -> None:
    """Drawn again, it has the same texts and, up to rounding on another machine, the same numbers."""
    for file in drawn:
        committed = (PICTURES / file.name).read_text("utf-8")
        assert alike(file.read_text("utf-8"), committed, 0.005), f"{file.name}: run python docs/lectures/pictures.py"


def test_every_picture_is_on_the_page(drawn: list[Path]) -> None:
    shown = re.findall(r"\(lectures/(\w+\.svg)\)", LECTURES)
    assert sorted(shown) == sorted(file.name for file in drawn) == sorted(file.name for file in PICTURES.glob("*.svg"))


@pytest.mark.parametrize("file", sorted(PICTURES.glob("*.svg")), ids=lambda file: file.stem)
def test_a_picture_is_small_and_self_contained(file: Path) -> None:
    assert file.stat().st_size < LARGEST
    root = ET.parse(file).getroot()
    width, height = root.attrib["width"], root.attrib["height"]
    ground = next(child for child in root if child.tag == f"{SVG}rect")
    assert (ground.attrib["width"], ground.attrib["height"], ground.attrib["fill"]) == (width, height, "#ffffff")
    for element in root.iter():
        assert element.tag != f"{SVG}script"
        assert all(value.startswith("#") for name, value in element.attrib.items() if name.endswith("href"))
        for name in ("x", "cx", "x2"):  # nothing is drawn outside
            assert 0 <= float(element.attrib.get(name, 0)) <= float(width)
