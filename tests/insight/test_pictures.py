import io
from xml.etree import ElementTree

import pytest
import torch
from rich.cells import cell_len
from rich.console import Console

from qkv.common.errors import UsageError
from qkv.insight.svg import save, svg
from qkv.insight.terminal import LONGEST_LABEL, heatmap, label

ROWS = ["le", "chat", "noir"]
COLUMNS = ["the", "black", "cat"]
WEIGHTS = torch.tensor([[0.95, 0.05, 0.0], [0.0, 0.2, 0.8], [0.1, 0.9, 0.0]])
ODD = ["<b>&\"'", "猫", "e\u0301", "a\nb", "\x00", "", "\ud800", "👍", "x" * 50]


def printed(drawn, *, width=80, colours=None):
    screen = io.StringIO()
    Console(file=screen, width=width, color_system=colours, force_terminal=colours is not None).print(drawn)
    return screen.getvalue()


def test_plain_heatmap_is_ascii_and_lines_up():
    said = printed(heatmap(WEIGHTS, ROWS, COLUMNS, colour=False))
    assert said.isascii()
    lines = said.splitlines()
    assert lines[-3:] == ["  le @    ", "chat   : #", "noir . %  "]
    assert [line[5::2] for line in lines[:-3]] == [" b ", " l ", "tac", "hca", "ekt"]


def test_coloured_heatmap_shades_by_weight_and_reads_without_colour():
    drawn = heatmap(WEIGHTS, ROWS, COLUMNS)
    assert printed(drawn).splitlines()[-3:] == ["  le 95  5   ", "chat    20 80", "noir 10 90   "]
    grounds = {span.style for span in drawn.renderables[0].spans if "rgb" in str(span.style)}
    assert len(grounds) == 7  # one shade for each different weight
    assert "\x1b[" in printed(drawn, colours="truecolor")


def test_a_heatmap_wider_than_the_screen_keeps_its_lines():
    drawn = heatmap(torch.eye(30), ["a"] * 30, ["b"] * 30, colour=False)
    assert len(printed(drawn, width=20).splitlines()) == 31


def test_any_unicode_is_drawn_in_line():
    drawn = heatmap(torch.full((len(ODD), len(ODD)), 0.5), ODD, ODD, colour=False)
    lines = drawn.renderables[0].plain.splitlines()
    assert len({cell_len(line) for line in lines}) == 1
    assert len(lines) == len(ODD) + LONGEST_LABEL


@pytest.mark.parametrize(("name", "shown"), [("", "·"), (" the", "·the"), ("a\nb", "a·b"), ("\x00", "·"), ("é", "é")])
def test_labels_stay_on_one_line(name, shown):
    assert label(name) == shown


def test_svg_is_whole_and_holds_any_text():
    picture = svg(torch.full((len(ODD), 3), 0.25), ODD, ["<x>", "]]>", "&amp;"], 'title <&> "quoted" \x07')
    root = ElementTree.fromstring(picture.encode())
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0].startswith('title <&> "quoted"')
    assert texts[1:4] == ["<x>", "]]>", "&amp;"]
    assert texts[4:7] == ["<b>&\"'", "猫", "é"]
    assert "href" not in picture
    assert picture.count("http") == 1  # the name space alone: nothing is fetched


def test_svg_cells_carry_the_weights_on_a_ground_of_their_own():
    root = ElementTree.fromstring(svg(WEIGHTS, ROWS, COLUMNS, "head 1"))
    ground, *cells = root.iter("{http://www.w3.org/2000/svg}rect")
    assert (ground.get("width"), ground.get("height")) == (root.get("width"), root.get("height"))
    assert [float(cell.get("fill-opacity")) for cell in cells] == pytest.approx(WEIGHTS.flatten().tolist(), abs=1e-3)
    assert cells[5][0].text == "chat → cat: 80.0%"
    right = max(float(cell.get("x")) + float(cell.get("width")) for cell in cells)
    bottom = max(float(cell.get("y")) + float(cell.get("height")) for cell in cells)
    assert right <= float(root.get("width"))
    assert bottom <= float(root.get("height"))


def test_only_wide_column_names_are_turned():
    assert "rotate" not in svg(WEIGHTS, ROWS, ["a", "b", "c"], "")
    assert svg(WEIGHTS, ROWS, COLUMNS, "").count("rotate") == 3


def test_save_writes_what_svg_gives(tmp_path):
    file = save(tmp_path / "a.svg", WEIGHTS, ROWS, ["é", "b", "c"], "é")
    assert file.read_text("utf-8") == svg(WEIGHTS, ROWS, ["é", "b", "c"], "é")


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        (torch.zeros(2, 3), r"\[2, 3\] with 3 rows"),
        (torch.zeros(4, 3, 3), r"\[4, 3, 3\]"),
        (torch.full((3, 3), float("nan")), "NaN or infinity"),
    ],
)
def test_what_is_no_matrix_is_refused(weights, said):
    for draw in (heatmap, svg):
        with pytest.raises(UsageError, match=said):
            draw(weights, ROWS, COLUMNS)
